"""Run asynchronous work in a thread, for callers without an event loop and for those that already run one (notebooks)."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from queue import Empty, SimpleQueue
from typing import Any, TypeVar

T = TypeVar("T")
WAIT_S = 0.2  # without anything new, `arriving` yields None after this time
END = object()


def complete(work: Callable[[], Awaitable[T]]) -> T:
    """Return the result of `work()`. Raises what it raises."""

    async def run() -> T:
        return await work()

    with ThreadPoolExecutor(1, "lookahead-attach") as thread:
        return thread.submit(asyncio.run, run()).result()


def arriving(work: Callable[[Callable[[Any], None]], Awaitable[None]]) -> Iterator[Any | None]:
    """Yield what `work(put)` puts, as it does, and None while nothing is new.

    Raises at the end what the work raises. Closing the iterator cancels the work.
    """
    items: SimpleQueue[Any] = SimpleQueue()
    begun: SimpleQueue[tuple[asyncio.AbstractEventLoop, asyncio.Task[None]]] = SimpleQueue()

    async def run() -> None:
        begun.put((asyncio.get_running_loop(), asyncio.current_task()))
        try:
            await work(items.put)
        finally:
            items.put(END)

    with ThreadPoolExecutor(1, "lookahead-attach") as thread:
        done = thread.submit(asyncio.run, run())
        loop, task = begun.get()
        try:
            while True:
                try:
                    item = items.get(timeout=WAIT_S)
                except Empty:
                    item = None
                if item is END:
                    break
                yield item
        except BaseException:
            with suppress(RuntimeError):  # the loop has just ended
                loop.call_soon_threadsafe(task.cancel)
            raise
        done.result()
