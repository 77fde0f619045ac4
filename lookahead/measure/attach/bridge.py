"""What arrives over the network, for whoever computes without an event loop, or beside one of his own.

The loop is in a thread of its own: a notebook's, or a browser driver's, has one running in the caller's already.

Knows event loops and threads. It does not know what arrives.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from queue import Empty, SimpleQueue
from typing import Any, TypeVar

T = TypeVar("T")
WAIT_S = 0.2  # after so long without anything new there is None
END = object()  # behind the last of what is put


def complete(work: Callable[[], Awaitable[T]]) -> T:
    """What `work()` comes to. Raises what it raises."""

    async def run() -> T:
        return await work()

    with ThreadPoolExecutor(1, "lookahead-attach") as thread:
        return thread.submit(asyncio.run, run()).result()


def arriving(work: Callable[[Callable[[Any], None]], Awaitable[None]]) -> Iterator[Any | None]:
    """What `work(put)` puts, as it does, and None while nothing is new. Raises what it raises, at the end; closing this ends
    it."""
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
            while (item := _next(items)) is not END:
                yield item
        except BaseException:
            with suppress(RuntimeError):  # it has just ended
                loop.call_soon_threadsafe(task.cancel)
            raise
        done.result()


def _next(items: SimpleQueue[Any]) -> Any | None:
    """What comes next, or None."""
    try:
        return items.get(timeout=WAIT_S)
    except Empty:
        return None
