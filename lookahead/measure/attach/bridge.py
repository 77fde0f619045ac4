"""What arrives over the network, for whoever computes without an event loop.

Knows event loops. It does not know what arrives.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Iterator
from typing import Any

WAIT_S = 0.2  # after so long without anything new there is None


def arriving(runner: asyncio.Runner, work: Callable[[asyncio.Queue[Any]], Awaitable[None]]) -> Iterator[Any | None]:
    """What `work(queue)` puts into its queue, as it does, and None while nothing is new. Raises what it raises, at the end;
    closing this ends it."""
    items: asyncio.Queue[Any] = asyncio.Queue()
    writing = runner.get_loop().create_task(work(items))
    try:
        while not (writing.done() and items.empty()):
            yield runner.run(_next(items, writing))
        writing.result()
    finally:
        writing.cancel()
        runner.run(asyncio.wait({writing}))


async def _next(items: asyncio.Queue[Any], writing: asyncio.Task[None]) -> Any | None:
    """The next item, or None where none has come in a while, or none will."""
    getting = asyncio.create_task(items.get())
    await asyncio.wait(
        {getting, writing} if not writing.done() else {getting}, timeout=WAIT_S, return_when=asyncio.FIRST_COMPLETED
    )
    if getting.done():
        return getting.result()
    getting.cancel()
    return None
