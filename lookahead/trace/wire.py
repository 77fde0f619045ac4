"""The event log: a race as a sequence of events for the page.

`Begin` has the trace without its steps, and each `LaneStep` has one step and the lane's clock. `End` has the statistics, the
verdict and whether the texts agree. A live race and a recording have the same log, so the page plays both in the same way.
"""

from collections.abc import Generator, Iterator, Sequence
from typing import Annotated, Any, Literal, Self

from pydantic import AfterValidator, AliasChoices, Field, TypeAdapter, field_serializer

from ..drafting import level_rows
from .results import Badge, Statistics, Trust, Verdict
from .schema import RaceRecord, Record, Seconds, StepRecord
from .verdict import trust

Reason = Literal["finished", "stopped", "error", "asked"]
Clock = Annotated[Seconds, AfterValidator(lambda seconds: round(seconds, 7))]


class Event(Record):
    """Base of the events."""

    def to_json(self) -> str:
        return self.model_dump_json(by_alias=True)

    def to_dict(self) -> dict[str, Any]:
        return self.model_dump(by_alias=True, mode="json")


class Begin(Event):
    """The first event: the trace without its steps.

    `link` is the query that describes this race. `at` is the pass of the last lane at which a link sets the playhead.
    `model_sources` are the sources of drafts that a draft model or a trained head computes.
    """

    kind: Literal["begin"] = "begin"
    live: bool
    caption: str | None = None
    link: str | None = None
    at: int | None = Field(default=None, validation_alias=AliasChoices("pass", "at"), serialization_alias="pass")
    model_sources: list[str] = Field(default_factory=lambda: list(level_rows({})))
    trace: RaceRecord

    @field_serializer("trace")
    def _header(self, trace: RaceRecord) -> dict[str, Any]:
        return trace.model_dump(by_alias=True, mode="json", exclude={"lanes": {"__all__": {"steps"}}})


class Status(Event):
    """The server's work before the first step, and the share of it that is done."""

    kind: Literal["status"] = "status"
    text: str
    fraction: float | None = None


class LaneStep(Event):
    """One step of one lane, with that lane's clock at its end, in seconds without prefill."""

    kind: Literal["step"] = "step"
    lane: int
    clock_s: Clock
    step: StepRecord


class LaneSteps:
    """A running race. Iterating it yields the values of `_lane_steps`."""

    _lane_steps: Generator[LaneStep | None]

    def __iter__(self) -> Iterator[LaneStep | None]:
        return self._lane_steps

    def close(self) -> None:
        """Stop early. `result()` keeps the steps so far."""
        self._lane_steps.close()


class End(Event):
    """The last event. `drafted` has the counts of drafted tokens, per lane and pass, that servers send at the end."""

    kind: Literal["end"] = "end"
    reason: Reason
    message: str | None = None
    stats: list[Statistics] = []
    agreement: list[Badge | None] = []
    verdict: Verdict | None = None
    trust: Trust | None = None
    drafted: list[list[int | None]] | None = None

    @classmethod
    def from_trace(cls, trace: RaceRecord, reason: Reason, message: str | None = None) -> Self:
        lanes = range(len(trace.lanes))
        counts = [[step.drafted for step in lane.steps] for lane in trace.lanes]
        return cls(
            reason=reason,
            message=message,
            stats=[trace.stats(i) for i in lanes],
            agreement=[trace.agreement(i) for i in lanes],
            verdict=trace.verdict() if lanes else None,
            trust=trust(trace) if lanes else None,
            drafted=counts if any(any(lane) for lane in counts) else None,
        )


class Requested(End):
    """The only event of a race that a link describes and that has not run; `chips` describe its methods and settings."""

    reason: Reason = "asked"
    chips: Sequence[str]


EVENT: TypeAdapter[Event] = TypeAdapter(Begin | Status | LaneStep | Requested | End)  # to validate, and for a schema


def events(race: RaceRecord, caption: str | None = None, link: str | None = None, at: int | None = None) -> list[Event]:
    """Return the log of a recording, with steps in the order of the lanes' clocks."""
    lane_steps = []
    for i, lane in enumerate(race.lanes):
        clock = 0.0
        for step in lane.steps:
            start = clock
            clock += step.seconds if step.kind == "verify" else 0.0
            lane_steps.append((step.kind != "prefill", start, i, LaneStep(lane=i, clock_s=clock, step=step)))
    lane_steps.sort(key=lambda lane_step: lane_step[:3])
    begin = Begin(trace=race, live=False, caption=caption, link=link, at=at)
    return [begin, *(lane_step for *_, lane_step in lane_steps), End.from_trace(race, "finished")]
