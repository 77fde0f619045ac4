"""A race between servers: one prompt, a lane for each, recorded like any race.

A lane's seconds are the client's, the network included, from its first token on; what came before stands where our lanes
have the reading of the prompt. Servers on one machine take turns, a whole text each, for together they would share its
cores; others write at the same time. No server tells which words it rejected, so a pass has counts and no draft.

Knows servers and records. It does not know who is watching.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator, Sequence
from datetime import UTC, datetime
from itertools import pairwise
from statistics import median
from typing import Any
from urllib.parse import urlsplit

from ...core.events import ACCEPTED, BONUS, CORRECTION, PromptError, Settings, SettingsError
from ...core.version import VERSION
from ...trace.race import Lap
from ...trace.records import Costs, Machine, ModelNames, PromptRecord, SettingsRecord
from ...trace.schema import LaneRecord, StepRecord
from ...trace.trace import Trace
from .asking import Asking, Known, look
from .bridge import arriving, complete
from .reply import Answer, Pass, text_in
from .servers import RemoteError, Server
from .stream import Patience, client

PATIENCE = Patience(first_s=60, between_s=30, whole_s=300)
ENDS = {"length": "length", "stop": "eos"}


class ServerRace:
    """Iterate for laps, as of `race.Race`, and None while nothing is new; `result()` is the trace of what has come so far.

    The first server is the one without speculation. Raises `LookaheadError` for bad input, and for servers that cannot be
    reached. A server that fails later leaves its lane with what arrived, and a `RemoteError` behind the last lap.
    """

    def __init__(
        self, servers: Sequence[Server], prompt: str, most: int = 128, chat: bool = False, patience: Patience = PATIENCE
    ):
        if len(servers) < 2 or len({server.name for server in servers}) < len(servers):
            raise SettingsError("servers", [server.name for server in servers], "name two or more, each once.")
        if not isinstance(prompt, str) or not prompt.strip():
            raise PromptError("prompt", prompt, "write something for the servers to continue.")
        self.settings = Settings(max_new_tokens=most, chat=chat)
        self._servers, self.prompt_text, self._patience = servers, text_in(prompt), patience
        self._failed: list[RemoteError] = []
        self._lanes = [_Lane() for _ in servers]
        self._created = datetime.now(UTC).isoformat(timespec="seconds")
        self._prompt_ids: tuple[int, ...] = ()
        self._known = complete(self._look)
        self._laps = self._run()

    async def _look(self) -> list[Known]:
        """What runs at every server; whoever gives the race up before it has begun leaves no connection open."""
        known = []
        for server in self._servers:
            async with client(server, self._patience) as opened:
                known.append(await look(opened, server, self._patience))
        return known

    @property
    def methods(self) -> list[str]:
        """What the lanes are called."""
        return ["naive", *(server.name for server in self._servers[1:])]

    @property
    def together(self) -> bool:
        """Whether the servers write at the same time: each is on a machine of its own."""
        hosts = [urlsplit(server.url).hostname for server in self._servers]
        return len(set(hosts)) == len(hosts)

    def __iter__(self) -> Iterator[Lap | None]:
        return self._laps

    def _run(self) -> Iterator[Lap | None]:
        yield from arriving(self._write_all)
        if self._failed:
            raise RemoteError(self._failed[0].value, " ".join([self._failed[0].mend, *map(str, self._failed[1:])]))

    async def _write_all(self, put: Callable[[Lap], None]) -> None:
        """All lanes, their laps as they come."""
        numbers = range(len(self._servers))
        for at_once in [[*numbers]] if self.together else [[number] for number in numbers]:
            await asyncio.gather(*(self._write(number, put) for number in at_once))

    async def _write(self, number: int, put: Callable[[Lap], None]) -> None:
        """One lane. Its last pass is not passed on before the next has come, for it may still grow, or be the text's end."""
        lane, server, s = self._lanes[number], self._servers[number], self.settings

        def record(passes: Sequence[Pass], answer: Answer | None = None) -> None:
            for step in lane.add(passes, answer):
                put(Lap(number, None, step, lane.clock_s))

        try:
            async with client(server, self._patience) as opened:
                asking = Asking(opened, self._known[number], self.prompt_text, s.max_new_tokens, s.chat, self._patience)
                async for _ in asking.passes():
                    record(asking.arrived[:-1])
                answer = asking.answer()
                self._prompt_ids = self._prompt_ids or asking.prompt_ids
                record(answer.passes, answer)
        except RemoteError as error:
            self._failed.append(error)
        except ValueError:  # pydantic's: ids below 0, a piece of text without an end
            self._failed.append(RemoteError(server.name, "what it sends is more than a recording can hold."))

    def close(self) -> None:
        """Stop early; what has come stays in `result()`."""
        self._laps.close()

    def result(self) -> Trace:
        """The trace so far."""
        s = self.settings
        names = ", ".join(server.name for server in self._servers)
        gaps = [b.seconds for lane in self._lanes[:1] for _, b in pairwise(lane.steps) if b.emitted]
        return Trace(
            created=self._created,
            version=VERSION,
            machine=Machine(cpu=f"servers: {names}", cores=1, threads=1, device="server", dtype="unknown", torch="unknown"),
            models=ModelNames(spec=f"servers:{names}"[:200], target=self._known[0].model[:200]),
            exactness="tie-aware",
            settings=SettingsRecord(
                max_new_tokens=s.max_new_tokens, k=s.k, temperature=0, top_k=0, top_p=1, repetition_penalty=1, seed=0,
                rule="greedy", stop=[], chat=s.chat,
            ),
            prompt=PromptRecord(
                text=self.prompt_text, tokens=list(self._prompt_ids), pieces=[""] * len(self._prompt_ids)
            ),
            costs=Costs(rows=[1], seconds=[median(gaps) if gaps else 0.0]),
            lanes=[
                LaneRecord(
                    method=method, opaque=True, options={"server": known.server.name, "kind": known.kind}, steps=lane.steps,
                    streamed=lane.streamed, differs=lane.differs[:200],
                )
                for method, known, lane in zip(self.methods, self._known, self._lanes, strict=True)
            ],
        )  # fmt: skip


class _Lane:
    """A lane's records: the first arrival stands for the reading of the prompt, and the clock begins behind it."""

    def __init__(self) -> None:
        self.steps: list[StepRecord] = []
        self.clock_s = 0.0
        self.streamed = False  # no ids: what arrives together counts as one token
        self.differs = ""  # how the server's counts do
        self._at_s = 0.0

    def add(self, passes: Sequence[Pass], answer: Answer | None = None) -> list[StepRecord]:
        """Records of those of the passes so far that are new; with the whole `answer` the last of them ends the text, and
        those before get the counts that the server has told since."""
        records, recorded = [], max(0, len(self.steps) - 1)
        for part in passes[recorded:]:
            if not self.steps:
                records.append(StepRecord(kind="prefill", index=0, verify_s=part.at_s))
                self._at_s = part.at_s
                self.steps.append(records[0])
            seconds = max(0.0, part.at_s - self._at_s)
            self._at_s, self.clock_s = part.at_s, self.clock_s + seconds
            self.streamed = self.streamed or not part.ids
            finish = ENDS.get(answer.finish or "", "stop") if answer and part is passes[-1] else None
            records.append(_record(part, len(self.steps), seconds, finish))
            self.steps.append(records[-1])
        if answer:
            self.differs = answer.differs or ""
            counted = zip(self.steps[1:], answer.passes, strict=True)
            self.steps[1:] = [step.model_copy(update=_counts(part)) for step, part in counted]
        return records


def _record(part: Pass, index: int, seconds: float, finish: str | None) -> StepRecord:
    """An arrival as a pass. Where a server does not tell which text is whose, that of several tokens stands at the first."""
    ids = part.ids or (0,)
    pieces = list(part.pieces) or [part.text, *[""] * (len(ids) - 1)]
    return StepRecord(
        kind="verify", index=index, emitted=list(ids), pieces=pieces, verify_s=seconds, finish=finish, **_counts(part)
    )


def _counts(part: Pass) -> dict[str, Any]:
    """What a record has of a server's counts. Of a pass without any, what came together is taken to be accepted but for its
    last token."""
    tokens = part.tokens
    accepted = min(tokens, part.accepted) if part.accepted is not None else tokens - 1
    extra = CORRECTION if part.drafted and accepted < part.drafted else BONUS
    return {"drafted": part.drafted, "origins": [*[ACCEPTED] * accepted, *[extra] * (tokens - accepted)]}
