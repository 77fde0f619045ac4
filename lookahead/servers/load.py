"""Load: a number of readers at once, each of whom requests the next text when the last one has ended.

Both servers get the same prompts at every load, one server after the other. The first to go changes with every round. The
measured time is that in which all readers are busy: it ends when a reader finds no prompt left.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Sequence
from contextlib import AsyncExitStack
from dataclasses import dataclass
from time import perf_counter

from ..core.text_files import lines
from ..measure.timing import Question
from .addresses import RemoteError, Server
from .completion import Completion, Known, identify
from .reply import Answer
from .stream import Client, Timeouts, connect, get_text

EACH = 2  # texts for each reader, at least


@dataclass(frozen=True, slots=True)
class Written:
    """A text that a server wrote under load: the index of its prompt, and the seconds from the block's beginning to the request.

    A text that failed has an `error` and no answer.
    """

    prompt: int
    begun_s: float
    answer: Answer | None
    error: str | None = None


@dataclass(frozen=True, slots=True)
class Block:
    """All texts of one server in one round. `side` is "baseline" or "speculative".

    `busy_s` are the seconds in which all readers were busy, `tokens` those that arrived in them, and `counted` what the server's
    own counters added, None if it has none.
    """

    side: str
    at_once: int
    round: int
    busy_s: float
    tokens: int
    texts: tuple[Written, ...]
    counted: dict[str, int] | None = None

    @property
    def tokens_per_second(self) -> float:
        """Throughput of all readers together."""
        return self.tokens / self.busy_s if self.busy_s > 0 else 0.0


async def blocks(
    baseline: Server, speculative: Server, prompts: Sequence[Question], levels: Sequence[int], most: int, *, rounds: int = 2,
    timeouts: Timeouts | None = None,
) -> AsyncIterator[Block | dict[str, Known]]:  # fmt: skip
    """Yield first what runs at both servers, then block after block.

    Raises `RemoteError` if a server cannot be reached at all. A single text may fail; its block has the error.
    """
    timeouts = timeouts or Timeouts()
    async with AsyncExitStack() as stack:
        opened, known = {}, {}
        for side, server in (("baseline", baseline), ("speculative", speculative)):
            opened[side] = await stack.enter_async_context(connect(server, timeouts, max(levels)))
            known[side] = await identify(opened[side], server, timeouts)
        yield known
        for side in known:  # a first text, for whatever a server does only once
            first = prompts[0]
            await Completion(opened[side], known[side], first.prompt, min(most, 16), first.chat, timeouts).whole()
        for at_once in levels:
            for number in range(rounds):
                for side in ("baseline", "speculative")[:: -1 if number % 2 else 1]:
                    yield await _block(opened[side], known[side], side, prompts, at_once, number, most, timeouts)


async def _block(
    opened: Client, known: Known, side: str, prompts: Sequence[Question], at_once: int, number: int, most: int,
    timeouts: Timeouts,
) -> Block:  # fmt: skip
    """Return one server's texts of one round."""
    rounds_of_prompts = -(-max(EACH * at_once, len(prompts)) // len(prompts))
    waiting = [i for _ in range(rounds_of_prompts) for i in range(len(prompts))][::-1]
    before = await _counters(opened, known, timeouts)
    start, idle, texts = perf_counter(), [], []

    async def reader() -> None:
        while waiting:
            i, begun_s, answer, failed = waiting.pop(), perf_counter() - start, None, None
            try:
                answer = await Completion(
                    opened, known, prompts[i].prompt, most, prompts[i].chat, timeouts
                ).whole()  # fmt: skip
            except RemoteError as error:
                failed = str(error)
            texts.append(Written(i, begun_s, answer, failed))
        idle.append(perf_counter() - start)

    async with asyncio.TaskGroup() as group:
        for _ in range(at_once):
            group.create_task(reader())
    busy_s, after = min(idle), await _counters(opened, known, timeouts)
    counted = {name: after[name] - n for name, n in before.items()} if before and after else None
    tokens = sum(_within(text, busy_s) for text in texts if text.answer)
    return Block(side, at_once, number, busy_s, round(tokens), tuple(texts), counted)


def _within(text: Written, seconds: float) -> float:
    """Return how many of a text's tokens came in the first `seconds` of its block.

    If only chunks are known, the server's own count is spread over them.
    """
    passes = text.answer.passes
    arrived = sum(part.tokens for part in passes if text.begun_s + part.at_s <= seconds)
    return arrived * text.answer.tokens / max(1, sum(part.tokens for part in passes))


async def _counters(opened: Client, known: Known, timeouts: Timeouts) -> dict[str, int] | None:
    """Return what a server has counted since its start, by its Prometheus metrics; None if it does not show them."""
    if not known.reply.generated:
        return None
    prefix = known.reply.generated.partition(":")[0]
    names = {"passes": "drafts", "drafted": "draft_tokens", "accepted": "accepted_tokens"}
    names = {name: f"{prefix}:spec_decode_num_{counter}_total" for name, counter in names.items()}
    try:
        samples = lines(await get_text(opened, known.server, "/metrics", timeouts))
        return {name: _sum(samples, of) for name, of in {"generated": known.reply.generated, **names}.items()}
    except ValueError:  # a RemoteError too
        return None


def _sum(samples: Sequence[str], name: str) -> int:
    """Return the sum of a counter over its labels; lines are `name{labels} value`."""
    values = (line.rpartition(" ")[2] for line in samples if line.startswith((f"{name}{{", f"{name} ")))
    return int(sum(map(float, values)))
