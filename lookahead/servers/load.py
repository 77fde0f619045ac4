"""Measurements under load: several concurrent readers, each of which requests the next text after the previous one.

Both servers get the same prompts at every load, one server after the other. The order changes with every round. The
measured time is that in which all readers are busy. It ends when a reader has no further prompt.
"""

import asyncio
from collections.abc import AsyncIterator, Iterable, Mapping, Sequence
from contextlib import AsyncExitStack
from dataclasses import dataclass
from time import perf_counter
from typing import Any

from ..core.text_files import lines
from ..measure.timing import Question
from .addresses import RemoteError, Server
from .client import Client, Timeouts
from .replies import Completion, json_schema

SIDES = ("baseline", "speculative")
TEXTS_PER_READER = 2  # at least
COUNTERS = {"passes": "drafts", "drafted": "draft_tokens", "accepted": "accepted_tokens"}  # of servers with speculation
Sides = Mapping[str, Server]  # the servers of both sides
Plan = Iterable[tuple[int, Sequence[int]]]  # for each round, the number of texts at once and the indices of its prompts


def rounds_of(levels: Iterable[int], prompts: int, rounds: int = 1) -> Plan:
    """Return a plan with `rounds` rounds of all prompts for each number of texts at once."""
    return [(at_once, range(prompts)) for at_once in levels for _ in range(rounds)]


@dataclass(frozen=True, slots=True)
class CompletedRequest:
    """A completion or error under load. `prompt` is the prompt's index, `start_s` the seconds from the block's start to the request."""

    prompt: int
    start_s: float
    completion: Completion | None
    error: str | None = None

    def within(self, seconds: float) -> float:
        """Return the tokens received in the first `seconds`: the server's count, distributed over the chunks."""
        if self.completion is None:
            return 0
        passes = self.completion.passes
        received = sum(part.tokens for part in passes if self.start_s + part.at_s <= seconds)
        return received * self.completion.tokens / max(1, sum(part.tokens for part in passes))


@dataclass(frozen=True, slots=True)
class Block:
    """All texts of one server, the `side`, in one round.

    All readers were busy for `busy_s` seconds, in which `tokens` tokens were received. `counted` has the increases of the
    server's own counters.
    """

    side: str
    at_once: int
    busy_s: float
    tokens: int
    texts: tuple[CompletedRequest, ...]
    counted: dict[str, int] | None = None

    @property
    def tokens_per_second(self) -> float:
        return self.tokens / self.busy_s if self.busy_s > 0 else 0.0


async def blocks(
    sides: Sides, prompts: Sequence[Question], plan: Plan, most: int, timeouts: Timeouts | None = None
) -> AsyncIterator[Block | dict[str, Client]]:
    """Yield the clients of both servers, then two blocks for each round of the plan.

    Raises `RemoteError` if a server cannot be reached, and `SettingsError` for an invalid schema of a prompt. If a later request
    fails, its block has the error.
    """
    schemas = [json_schema(prompt.settings.get("schema")) for prompt in prompts]
    async with AsyncExitStack() as stack:
        clients = {side: await stack.enter_async_context(Client(sides[side], timeouts)) for side in SIDES}
        for client in clients.values():
            await client.identify()
        yield clients
        for client in clients.values():  # the first text is a warm-up
            await client.complete(prompts[0].prompt, min(most, 16), prompts[0].chat)
        for number, (at_once, numbers) in enumerate(plan):
            for side in SIDES[:: -1 if number % 2 else 1]:
                repeats = -(-max(TEXTS_PER_READER * at_once, len(numbers)) // len(numbers))
                waiting = [(i, prompts[i], schemas[i]) for _ in range(repeats) for i in numbers][::-1]
                before = await _counters(clients[side])
                busy_s, texts = await _read(clients[side], waiting, at_once, most)
                after = await _counters(clients[side])
                counted = {name: after[name] - n for name, n in before.items()} if before and after else None
                tokens = round(sum(text.within(busy_s) for text in texts))
                yield Block(side, at_once, busy_s, tokens, tuple(texts), counted)


async def _read(
    client: Client, waiting: list[tuple[int, Question, dict[str, Any] | None]], at_once: int, most: int
) -> tuple[float, list[CompletedRequest]]:
    """Return the seconds in which all readers were busy, and all completed requests."""
    start, idle, texts = perf_counter(), [], []

    async def reader() -> None:
        while waiting:
            (i, prompt, schema), start_s, completion, message = waiting.pop(), perf_counter() - start, None, None
            try:
                completion = await client.complete(prompt.prompt, most, prompt.chat, schema)
            except RemoteError as error:
                message = str(error)
            texts.append(CompletedRequest(i, start_s, completion, message))
        idle.append(perf_counter() - start)

    async with asyncio.TaskGroup() as group:
        for _ in range(at_once):
            group.create_task(reader())
    return min(idle), texts


async def _counters(client: Client) -> dict[str, int] | None:
    """Return a server's Prometheus counters, None if it does not publish them."""
    generated = client.kind.generated
    if not generated:
        return None
    prefix = generated.partition(":")[0]
    names = {name: f"{prefix}:spec_decode_num_{counter}_total" for name, counter in COUNTERS.items()}
    try:
        samples = lines(await client.get_text("/metrics"))
        return {name: _sum(samples, counter) for name, counter in {"generated": generated, **names}.items()}
    except ValueError:  # includes RemoteError
        return None


def _sum(samples: Sequence[str], name: str) -> int:
    # A line is `name{labels} value`.
    values = (line.rpartition(" ")[2] for line in samples if line.startswith((f"{name}{{", f"{name} ")))
    return int(sum(map(float, values)))
