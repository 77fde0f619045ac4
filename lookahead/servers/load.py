"""Load: a number of readers at once, each of whom requests the next text when the last one has ended.

Both servers get the same prompts at every load, one server after the other. The first to go changes with every round. The
measured time is that in which all readers are busy: it ends when a reader finds no prompt left.
"""

import asyncio
from collections.abc import AsyncIterator, Iterable, Mapping, Sequence
from contextlib import AsyncExitStack
from dataclasses import dataclass
from time import perf_counter

from ..core.text_files import lines
from ..measure.timing import Question
from .addresses import RemoteError, Server
from .client import Client, Timeouts
from .replies import Answer

SIDES = ("baseline", "speculative")
EACH = 2  # texts for each reader, at least
COUNTERS = {"passes": "drafts", "drafted": "draft_tokens", "accepted": "accepted_tokens"}  # of servers that speculate
Plan = Iterable[tuple[int, Sequence[int]]]  # of every round the texts at once, and the numbers of its prompts


def rounds_of(levels: Iterable[int], prompts: int, rounds: int = 1) -> Plan:
    """Return so many rounds with all prompts for every number of texts at once."""
    return [(at_once, range(prompts)) for at_once in levels for _ in range(rounds)]


@dataclass(frozen=True, slots=True)
class Written:
    """An answer under load, or an error: the number of its prompt, and the seconds from the block's beginning to the request."""

    prompt: int
    begun_s: float
    answer: Answer | None
    error: str | None = None

    def within(self, seconds: float) -> float:
        """Return how many of its tokens came in the first `seconds` of its block. The server's count is spread over chunks."""
        if self.answer is None:
            return 0
        passes = self.answer.passes
        arrived = sum(part.tokens for part in passes if self.begun_s + part.at_s <= seconds)
        return arrived * self.answer.tokens / max(1, sum(part.tokens for part in passes))


@dataclass(frozen=True, slots=True)
class Block:
    """All texts of one server, the `side`, in one round.

    All readers were busy for `busy_s` seconds, in which `tokens` arrived. `counted` are increases of the server's own counters.
    """

    side: str
    at_once: int
    busy_s: float
    tokens: int
    texts: tuple[Written, ...]
    counted: dict[str, int] | None = None

    @property
    def tokens_per_second(self) -> float:
        return self.tokens / self.busy_s if self.busy_s > 0 else 0.0


async def blocks(
    sides: Mapping[str, Server], prompts: Sequence[Question], plan: Plan, most: int, timeouts: Timeouts | None = None
) -> AsyncIterator[Block | dict[str, Client]]:
    """Yield first the clients of both servers, then block after block, two for every round of the plan. Raises `RemoteError`
    if a server cannot be reached at all. If a text fails, its block has the error."""
    async with AsyncExitStack() as stack:
        clients = {side: await stack.enter_async_context(Client(sides[side], timeouts)) for side in SIDES}
        for client in clients.values():
            await client.identify()
        yield clients
        for client in clients.values():  # a first text, for whatever a server does only once
            await client.complete(prompts[0].prompt, min(most, 16), prompts[0].chat)
        for number, (at_once, numbers) in enumerate(plan):
            for side in SIDES[:: -1 if number % 2 else 1]:
                repeats = -(-max(EACH * at_once, len(numbers)) // len(numbers))
                waiting = [(i, prompts[i]) for _ in range(repeats) for i in numbers][::-1]
                before = await _counters(clients[side])
                busy_s, texts = await _read(clients[side], waiting, at_once, most)
                after = await _counters(clients[side])
                counted = {name: after[name] - n for name, n in before.items()} if before and after else None
                tokens = round(sum(text.within(busy_s) for text in texts))
                yield Block(side, at_once, busy_s, tokens, tuple(texts), counted)


async def _read(
    client: Client, waiting: list[tuple[int, Question]], at_once: int, most: int
) -> tuple[float, list[Written]]:
    """Return the seconds in which all readers were busy, and all texts."""
    start, idle, texts = perf_counter(), [], []

    async def reader() -> None:
        while waiting:
            (i, prompt), begun_s, answer, failed = waiting.pop(), perf_counter() - start, None, None
            try:
                answer = await client.complete(prompt.prompt, most, prompt.chat)
            except RemoteError as error:
                failed = str(error)
            texts.append(Written(i, begun_s, answer, failed))
        idle.append(perf_counter() - start)

    async with asyncio.TaskGroup() as group:
        for _ in range(at_once):
            group.create_task(reader())
    return min(idle), texts


async def _counters(client: Client) -> dict[str, int] | None:
    """Return what a server has counted since its start, by its Prometheus metrics; None if it does not show them."""
    generated = client.kind.generated
    if not generated:
        return None
    prefix = generated.partition(":")[0]
    names = {name: f"{prefix}:spec_decode_num_{counter}_total" for name, counter in COUNTERS.items()}
    try:
        samples = lines(await client.get_text("/metrics"))
        return {name: _sum(samples, counter) for name, counter in {"generated": generated, **names}.items()}
    except ValueError:  # a RemoteError too
        return None


def _sum(samples: Sequence[str], name: str) -> int:
    # A line is `name{labels} value`.
    values = (line.rpartition(" ")[2] for line in samples if line.startswith((f"{name}{{", f"{name} ")))
    return int(sum(map(float, values)))
