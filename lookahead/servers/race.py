"""A race between servers: one prompt, a lane for each server, recorded like any race.

A lane's seconds are the client's, with the network, from its first token on. The time before that is the lane's prefill.
Servers on one machine take turns, a whole text each, because together they would share its cores. Others write at the same
time. No server reports which tokens were rejected, so a pass has counts and no draft.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator, Mapping, Sequence
from statistics import median
from typing import Any
from urllib.parse import urlsplit

from ..core.events import PromptError, Settings, SettingsError
from ..trace.schema import LaneRecord, ModelNames, PromptRecord, StepRecord
from ..trace.trace import Trace
from ..trace.wire import LaneStep, LaneSteps
from .addresses import RemoteError, Server, servers_of
from .background import arriving, complete
from .client import Client, Timeouts
from .records import now, origins, trace_of
from .replies import Answer, Pass, text_in

TIMEOUTS = Timeouts(first_s=60, between_s=30, whole_s=300)
ENDS = {"length": "length", "stop": "eos"}
UNCHANGED = {"top_k": 0, "top_p": 1, "repetition_penalty": 1, "stop": ()}


def race_of(spec: str, prompt: Any, options: Mapping[str, Any]) -> ServerRace:
    """Return the race of a visitor's choice of servers. Raises a `LookaheadError`, also for options that servers do not get."""
    if options.get("temperature"):
        raise SettingsError("temperature", options["temperature"], "servers are raced at temperature 0.")
    for name, usual in UNCHANGED.items():
        if options.get(name, usual) != usual:
            raise SettingsError(name, options[name], "servers are raced without; leave it as it was.")
    return ServerRace(servers_of(spec), prompt, options.get("max_new_tokens", 128), bool(options.get("chat")))


class ServerRace(LaneSteps):
    """Iterate for lane_steps, as of `race.Race`, and None while nothing is new. `result()` is the trace so far.

    The first server is the one without speculation. Raises `LookaheadError` for bad input, and if a server cannot be reached.
    If a server fails later, its lane keeps what arrived, and a `RemoteError` follows the last lane_step.
    """

    def __init__(
        self, servers: Sequence[Server], prompt: str, most: int = 128, chat: bool = False, timeouts: Timeouts = TIMEOUTS
    ):
        if len(servers) < 2 or len({server.name for server in servers}) < len(servers):
            raise SettingsError("servers", [server.name for server in servers], "name two or more, each once.")
        if not isinstance(prompt, str) or not prompt.strip():
            raise PromptError("prompt", prompt, "write something for the servers to continue.")
        self.settings = Settings(max_new_tokens=most, chat=chat)
        self.prompt_text = text_in(prompt)
        self._clients = [Client(server, timeouts) for server in servers]
        self._failed: list[RemoteError] = []
        self._lanes = [_Lane() for _ in servers]
        self._created = now()
        self._prompt_ids: tuple[int, ...] = ()
        complete(self._identify)
        self._lane_steps = self._run()

    async def _identify(self) -> None:
        for client in self._clients:
            async with client:  # closed again, because the race may never begin
                await client.identify()

    @property
    def methods(self) -> list[str]:
        return ["naive", *(client.server.name for client in self._clients[1:])]

    @property
    def together(self) -> bool:
        """Whether the servers write at the same time, because each is on a machine of its own."""
        return len({urlsplit(client.server.url).hostname for client in self._clients}) == len(self._clients)

    def _run(self) -> Iterator[LaneStep | None]:
        yield from arriving(self._write_all)
        if self._failed:
            raise RemoteError(self._failed[0].value, " ".join([self._failed[0].hint, *map(str, self._failed[1:])]))

    async def _write_all(self, put: Callable[[LaneStep], None]) -> None:
        numbers = range(len(self._clients))
        for at_once in [[*numbers]] if self.together else [[number] for number in numbers]:
            await asyncio.gather(*(self._write(number, put) for number in at_once))

    async def _write(self, number: int, put: Callable[[LaneStep], None]) -> None:
        """Write one lane. Its last pass waits for the next one, because it may still grow or be the end of the text."""
        lane, client, s = self._lanes[number], self._clients[number], self.settings

        def record(passes: Sequence[Pass], answer: Answer | None = None) -> None:
            for step in lane.add(passes, answer):
                put(LaneStep(lane=number, clock_s=lane.clock_s, step=step))

        try:
            async with client:
                reply = client.kind()
                async for _ in client.read(reply, self.prompt_text, s.max_new_tokens, s.chat):
                    record(reply.passes[:-1])
                answer = client.answer(reply)
                self._prompt_ids = self._prompt_ids or reply.prompt_ids
                record(answer.passes, answer)
        except RemoteError as error:
            self._failed.append(error)
        except ValueError:  # pydantic's: ids below 0, a piece of text without an end
            self._failed.append(client.error("what it sends is more than a recording can hold."))

    def result(self) -> Trace:
        names = ", ".join(client.server.name for client in self._clients)
        gaps = [step.seconds for step in self._lanes[0].steps[1:] if step.emitted]
        ids = self._prompt_ids
        return trace_of(
            f"servers: {names}",
            ModelNames(spec=f"servers:{names}"[:200], target=self._clients[0].model[:200]),
            PromptRecord(text=self.prompt_text, tokens=list(ids), pieces=[""] * len(ids)),
            [
                LaneRecord(
                    method=method, opaque=True, options={"server": client.server.name, "kind": client.kind.name}, steps=lane.steps,
                    streamed=lane.streamed, differs=lane.differs[:200],
                )
                for method, client, lane in zip(self.methods, self._clients, self._lanes, strict=True)
            ],
            median(gaps) if gaps else 0.0, self.settings.max_new_tokens, chat=self.settings.chat, created=self._created,
        )  # fmt: skip


class _Lane:
    """The records of one lane. The first arrival stands for the prefill, and the clock begins after it."""

    def __init__(self) -> None:
        self.steps: list[StepRecord] = []
        self.clock_s = 0.0
        self.streamed = False  # no ids: what arrives together counts as one token
        self.differs = ""  # how the server's counts differ from what arrived
        self._at_s = 0.0

    def add(self, passes: Sequence[Pass], answer: Answer | None = None) -> list[StepRecord]:
        """Return records of what is new in `passes`. The whole `answer` ends the text, and corrects earlier counts."""
        before = len(self.steps)
        if passes and not self.steps:
            self._at_s = passes[0].at_s
            self.steps.append(StepRecord(kind="prefill", index=0, verify_s=self._at_s))
        for part in passes[len(self.steps) - 1 :]:
            seconds = max(0.0, part.at_s - self._at_s)
            self._at_s, self.clock_s = part.at_s, self.clock_s + seconds
            self.streamed = self.streamed or not part.ids
            finish = ENDS.get(answer.finish or "", "stop") if answer and part is passes[-1] else None
            ids = part.ids or (0,)
            pieces = part.pieces or (part.text, *[""] * (len(ids) - 1))  # unless known, the first token gets all text
            step = StepRecord(
                kind="verify", index=len(self.steps), emitted=list(ids), pieces=list(pieces), verify_s=seconds,
                finish=finish, **_counts(part),
            )  # fmt: skip
            self.steps.append(step)
        records = self.steps[before:]
        if answer:
            self.differs = answer.differs or ""
            counted = zip(self.steps[1:], answer.passes, strict=True)
            self.steps[1:] = [step.model_copy(update=_counts(part)) for step, part in counted]
        return records


def _counts(part: Pass) -> dict[str, Any]:
    """Return a pass's counts as a record has them. Without counts, all tokens but the last are taken as accepted."""
    accepted = min(part.tokens, part.accepted) if part.accepted is not None else part.tokens - 1
    return {"drafted": part.drafted, "origins": origins(part.tokens, accepted, part.drafted)}
