"""Load: so many readers at once, each of whom asks for the next text as soon as the last has ended.

Both servers get the same prompts at every load, one server after the other, the first to go changing with every round. What
counts is the time while all readers are busy: from the first answer that is asked for to the moment when a reader finds
nothing left to ask.

Knows answers and seconds. It does not know statistics.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Sequence
from contextlib import AsyncExitStack
from dataclasses import dataclass
from time import perf_counter
from typing import Protocol

import httpx2

from . import counters
from .asking import Asking, Known, look
from .reply import Answer
from .servers import RemoteError, Server
from .stream import Patience, client

EACH = 2  # texts for each reader, at least


class Prompt(Protocol):
    """What is asked: `measure.timing.Question` has it."""

    id: str
    prompt: str
    chat: bool


@dataclass(frozen=True, slots=True)
class Written:
    """A text that a server has written under load: which prompt, who ("baseline" or "speculative"), at how many at once, in
    which round; when it was asked for, in seconds from the block's beginning, and what came of it."""

    prompt: int
    side: str
    at_once: int
    round: int
    begun_s: float
    answer: Answer | None
    error: str | None = None


@dataclass(frozen=True, slots=True)
class Block:
    """All texts of one server in one round: its seconds while all readers were busy, the tokens that arrived in them, and by
    how much its own counters differ from the sums of what arrived (None: it has none)."""

    side: str
    at_once: int
    round: int
    busy_s: float
    tokens: int
    texts: tuple[Written, ...]
    counted: counters.Counters | None = None

    @property
    def tokens_per_second(self) -> float:
        """Throughput of all readers together."""
        return self.tokens / self.busy_s if self.busy_s > 0 else 0.0


async def blocks(
    baseline: Server, speculative: Server, prompts: Sequence[Prompt], levels: Sequence[int], most: int, *, rounds: int = 2,
    patience: Patience | None = None,
) -> AsyncIterator[Block | dict[str, Known]]:  # fmt: skip
    """First what runs at both servers, then block after block. Raises `RemoteError` where a server cannot be reached at all;
    single texts may fail, and say why."""
    patience = patience or Patience()
    async with AsyncExitStack() as stack:
        opened, known = {}, {}
        for side, server in (("baseline", baseline), ("speculative", speculative)):
            opened[side] = await stack.enter_async_context(client(server, patience, max(levels)))
            known[side] = await look(opened[side], server, patience)
        yield known
        for side in known:  # a first text, for whatever a server does but once
            await Asking(opened[side], known[side], prompts[0].prompt, min(most, 16), prompts[0].chat, patience).whole()
        for at_once in levels:
            for number in range(rounds):
                for side in ("baseline", "speculative")[:: -1 if number % 2 else 1]:
                    yield await _block(opened[side], known[side], side, prompts, at_once, number, most, patience)


async def _block(
    opened: httpx2.AsyncClient, known: Known, side: str, prompts: Sequence[Prompt], at_once: int, number: int, most: int,
    patience: Patience,
) -> Block:  # fmt: skip
    """One server's texts of one round."""
    rounds_of_prompts = -(-max(EACH * at_once, len(prompts)) // len(prompts))
    waiting = [i for _ in range(rounds_of_prompts) for i in range(len(prompts))][::-1]
    before = await counters.read(opened, known, patience)
    start, idle, texts = perf_counter(), [], []

    async def reader() -> None:
        while waiting:
            i, begun_s = waiting.pop(), perf_counter() - start
            asking = Asking(opened, known, prompts[i].prompt, most, prompts[i].chat, patience)
            try:
                texts.append(Written(i, side, at_once, number, begun_s, await asking.whole()))
            except RemoteError as error:
                texts.append(Written(i, side, at_once, number, begun_s, None, str(error)))
        idle.append(perf_counter() - start)

    async with asyncio.TaskGroup() as group:
        for _ in range(at_once):
            group.create_task(reader())
    busy_s, after = min(idle), await counters.read(opened, known, patience)
    counted = after.since(before) if before and after else None
    tokens = sum(_within(text, busy_s) for text in texts if text.answer)
    return Block(side, at_once, number, busy_s, round(tokens), tuple(texts), counted)


def _within(text: Written, seconds: float) -> float:
    """How many of a text's tokens came in the first so many seconds of its block. Where chunks are all that is known, the
    server's own count is spread over them."""
    passes = text.answer.passes
    arrived = sum(part.tokens for part in passes if text.begun_s + part.at_s <= seconds)
    return arrived * text.answer.tokens / max(1, sum(part.tokens for part in passes))
