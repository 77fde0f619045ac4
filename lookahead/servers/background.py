"""Run asynchronous work in a thread, for callers without an event loop and for those that already run one (notebooks)."""

from collections.abc import Awaitable, Callable, Iterator
from queue import Empty, SimpleQueue
from typing import Any, TypeVar

from anyio.from_thread import start_blocking_portal

T = TypeVar("T")
WAIT_S = 0.2  # if there is no new item, `stream` yields None after this time
END = object()


def complete(work: Callable[[], Awaitable[T]]) -> T:
    """Return the result of `work()`. Exceptions of `work` are raised."""
    with start_blocking_portal() as portal:
        return portal.call(work)


def stream(work: Callable[[Callable[[Any], None]], Awaitable[None]]) -> Iterator[Any | None]:
    """Yield the items of `work(put)`, and None if there is no new one. Raises errors of `work`. Closing cancels it."""
    items: SimpleQueue[Any] = SimpleQueue()
    with start_blocking_portal() as portal:  # after an exception, it cancels its tasks
        done = portal.start_task_soon(work, items.put)
        done.add_done_callback(lambda _: items.put(END))
        while True:
            try:
                item = items.get(timeout=WAIT_S)
            except Empty:
                item = None
            if item is END:
                return done.result()
            yield item
