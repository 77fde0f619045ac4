"""A race between servers: one prompt, and a lane for each server, recorded as other races are.

A lane's time starts with its first token. It is measured by the client and includes the network. The time before is the lane's
prefill. Servers on one machine generate one after the other, because they share its cores. Servers on different machines generate
at the same time. No server reports which tokens were rejected, so a pass has counts and no draft.
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
from .background import complete, stream
from .client import Client, Timeouts
from .records import build_trace, now, origins
from .replies import Completion, Pass, text_in

TIMEOUTS = Timeouts(first_s=60, between_s=30, total_s=300)
ENDS = {"length": "length", "stop": "eos"}
UNCHANGED = {"top_k": 0, "top_p": 1, "repetition_penalty": 1, "stop": (), "schema": ""}


def race_of(spec: str, prompt: Any, options: Mapping[str, Any]) -> ServerRace:
    """Return the race of a visitor's choice of servers. Raises `LookaheadError`, also for options that servers do not support."""
    if options.get("temperature"):
        raise SettingsError("temperature", options["temperature"], "servers race at temperature 0 only.")
    for name, default in UNCHANGED.items():
        if options.get(name, default) != default:
            raise SettingsError(name, options[name], "servers race without this option; use its default.")
    return ServerRace(servers_of(spec), prompt, options.get("max_new_tokens", 128), bool(options.get("chat")))


class ServerRace(LaneSteps):
    """Yields the lane steps of a race of servers, and None while there is no new step. `result()` is the trace so far.

    The first server is the one without speculation. Raises `LookaheadError` for invalid input, or if a server cannot be
    reached. If a server fails later, its lane keeps the received steps, and a `RemoteError` is raised after the last step.
    """

    def __init__(
        self, servers: Sequence[Server], prompt: str, most: int = 128, chat: bool = False, timeouts: Timeouts = TIMEOUTS
    ):
        if len(servers) < 2 or len({server.name for server in servers}) < len(servers):
            raise SettingsError("servers", [server.name for server in servers], "name two or more different servers.")
        if not isinstance(prompt, str) or not prompt.strip():
            raise PromptError("prompt", prompt, "enter a text for the servers to continue.")
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
            async with client:  # closed again, because the race may never start
                await client.identify()

    @property
    def methods(self) -> list[str]:
        return ["naive", *(client.server.name for client in self._clients[1:])]

    @property
    def in_parallel(self) -> bool:
        """Whether the servers generate at the same time. True if all are on different machines."""
        return len({urlsplit(client.server.url).hostname for client in self._clients}) == len(self._clients)

    def _run(self) -> Iterator[LaneStep | None]:
        yield from stream(self._run_lanes)
        if self._failed:
            raise RemoteError(self._failed[0].value, " ".join([self._failed[0].hint, *map(str, self._failed[1:])]))

    async def _run_lanes(self, put: Callable[[LaneStep], None]) -> None:
        numbers = range(len(self._clients))
        for at_once in [[*numbers]] if self.in_parallel else [[number] for number in numbers]:
            await asyncio.gather(*(self._run_lane(number, put) for number in at_once))

    async def _run_lane(self, number: int, put: Callable[[LaneStep], None]) -> None:
        """Record one lane. The last pass is recorded when the next one is received, because it may be extended."""
        lane, client, s = self._lanes[number], self._clients[number], self.settings

        def record(passes: Sequence[Pass], completion: Completion | None = None) -> None:
            for step in lane.add(passes, completion):
                put(LaneStep(lane=number, clock_s=lane.clock_s, step=step))

        try:
            async with client:
                reply = client.kind()
                async for _ in client.read(reply, self.prompt_text, s.max_new_tokens, s.chat):
                    record(reply.passes[:-1])
                completion = client.completion(reply)
                self._prompt_ids = self._prompt_ids or reply.prompt_ids
                record(completion.passes, completion)
        except RemoteError as error:
            self._failed.append(error)
        except ValueError:  # of pydantic: negative ids, or a text that is too long
            self._failed.append(client.error("its response does not fit the format of a recording."))

    def result(self) -> Trace:
        names = ", ".join(client.server.name for client in self._clients)
        gaps = [step.seconds for step in self._lanes[0].steps[1:] if step.emitted]
        ids = self._prompt_ids
        return build_trace(
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
    """The records of one lane. The time until the first token is the prefill, and the clock starts after it."""

    def __init__(self) -> None:
        self.steps: list[StepRecord] = []
        self.clock_s = 0.0
        self.streamed = False  # without ids, each event counts as one token
        self.differs = ""  # how the server's counts differ from the received tokens
        self._at_s = 0.0

    def add(self, passes: Sequence[Pass], completion: Completion | None = None) -> list[StepRecord]:
        """Return the records of new passes. The `completion` ends the text and corrects earlier counts."""
        before = len(self.steps)
        if passes and not self.steps:
            self._at_s = passes[0].at_s
            self.steps.append(StepRecord(kind="prefill", index=0, verify_s=self._at_s))
        for part in passes[len(self.steps) - 1 :]:
            seconds = max(0.0, part.at_s - self._at_s)
            self._at_s, self.clock_s = part.at_s, self.clock_s + seconds
            self.streamed = self.streamed or not part.ids
            is_last = completion and part is passes[-1]
            finish = ENDS.get(completion.finish or "", "stop") if is_last else None
            ids = part.ids or (0,)
            # If pieces are unknown, the first token has the whole text.
            pieces = part.pieces or (part.text, *[""] * (len(ids) - 1))
            step = StepRecord(
                kind="verify", index=len(self.steps), emitted=list(ids), pieces=list(pieces), verify_s=seconds,
                finish=finish, **_counts(part),
            )  # fmt: skip
            self.steps.append(step)
        records = self.steps[before:]
        if completion:
            self.differs = completion.differs or ""
            counted = zip(self.steps[1:], completion.passes, strict=True)
            self.steps[1:] = [step.model_copy(update=_counts(part)) for step, part in counted]
        return records


def _counts(part: Pass) -> dict[str, Any]:
    """Return the counts of a pass as fields of a record. Without counts, all tokens but the last count as accepted."""
    accepted = min(part.tokens, part.accepted) if part.accepted is not None else part.tokens - 1
    return {"drafted": part.drafted, "origins": origins(part.tokens, accepted, part.drafted)}
