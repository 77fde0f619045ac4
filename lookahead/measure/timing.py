"""Lanes on the clock: one at a time, after a warm-up, in an order that is reversed with every repetition.

A machine's speed varies within seconds, so naive runs again with every few lanes, for comparison. A lane's seconds
exclude reading the prompt. Its overhead is the share of its time outside models' passes.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import groupby
from operator import attrgetter
from time import perf_counter
from typing import Any

from ..core.acceptance import UNTESTED, Acceptance
from ..core.costs import PricedRun
from ..core.events import ACCEPTED, REJECTED, LookaheadError, Settings, whole_number
from ..core.tree import depths
from ..drafting import level_rows
from ..engine.batch import Batch
from ..engine.lane import Lane
from ..engine.methods import method_class, read_options
from ..family.models import Models

BESIDE = 3  # entries that share a naive run


@dataclass(frozen=True, slots=True)
class Question:
    """One prompt to be measured on; `settings` differ from the run's own."""

    id: str
    category: str
    prompt: str
    chat: bool
    settings: dict[str, Any] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Entry:
    """A method with its settings and options; `label` is the text that it was read from."""

    label: str
    method: str
    settings: dict[str, Any]
    options: dict[str, Any]


def read_entry(label: str) -> Entry:
    """`method` or `method:name=value,name=value`, such as `draft:draft=offdomain` or `hf-assisted:k=5`."""
    method, _, rest = label.strip().partition(":")
    method_class(method)
    given = read_options(filter(None, rest.split(",")))
    settings = {name: value for name, value in given.items() if name in Settings.names()}
    options = {name: value for name, value in given.items() if name not in settings}
    return Entry(label.strip(), method, settings, options)


def lane_of(models: Models, q: Question, entry: Entry, options: Mapping[str, Any]) -> Lane:
    """Return an entry's lane on a question. Its settings replace the question's, and these the run's `options`."""
    given = {"costs": "measured", **options, **q.settings, **entry.settings, "chat": q.chat, "details": False}
    return Lane(models, q.prompt, entry.method, Settings(**given), entry.options)


def check(
    models: Models, questions: Sequence[Question], entries: Sequence[Entry], options: Mapping[str, Any], *, shared: bool = False
) -> None:  # fmt: skip
    """Raise a `LookaheadError` for the first entry that cannot run on a question, or cannot share a batch if `shared`."""
    for q in questions:
        for entry in entries:
            try:
                lane = lane_of(models, q, entry, options)
                if shared:
                    Batch([lane])
            except LookaheadError as error:
                raise type(error)(f"question {q.id!r}, {error.field}", error.value, error.hint) from None


@dataclass(frozen=True, slots=True)
class Timing:
    """One lane, run once and alone.

    `verify_s` and `propose_s` are the parts of its `seconds` that the target's passes and the drafting took; `acceptance`
    is by position. `predicted` is the calibrated time of its passes, None if the lane does not report its drafts.
    """

    tokens: tuple[int, ...]
    seconds: float
    passes: int
    drafted: int
    tested: int
    accepted: int
    verify_s: float
    propose_s: float
    overhead: float | None
    predicted: PricedRun | None
    acceptance: Acceptance = UNTESTED
    depth: int = 0  # sum over passes of the longest path in the draft


@dataclass(frozen=True, slots=True)
class Sample:
    """An entry on the `number`th question, timed once, and the `naive` run next to it."""

    number: int
    question: Question
    entry: Entry
    timing: Timing
    naive: Timing


def time_lane(lane: Lane) -> Timing:
    """Run a lane to its end and time it."""
    steps, costs = lane.steps(), lane.models.costs
    next(steps)  # the prompt is read, off the clock
    inside = lane.forward_seconds()
    start = perf_counter()
    done = list(steps)
    wall = perf_counter() - start
    return Timing(
        tokens=tuple(token for step in done for token in step.emitted),
        seconds=wall,
        passes=len(done),
        drafted=sum(len(step.draft) for step in done),
        tested=sum(step.statuses.count(ACCEPTED) + step.statuses.count(REJECTED) for step in done),
        accepted=sum(step.accepted for step in done),
        verify_s=sum(step.verify_s for step in done),
        propose_s=sum(step.propose_s for step in done),
        overhead=1 - (lane.forward_seconds() - inside) / wall if lane.reports_drafts else None,
        predicted=costs.price_passes(done, lane.options.get("draft"), level_rows(lane.options))
        if lane.reports_drafts
        else None,
        acceptance=Acceptance.from_steps(done),
        depth=sum(max(depths(step.draft.parents[: step.draft.tested]), default=0) for step in done),
    )


def samples(
    models: Models, entries: Sequence[Entry], questions: Sequence[Question], repeat: int, options: Mapping[str, Any]
) -> Iterator[Sample | None]:
    """Time every entry on every question `repeat` times. The first entry is naive; it runs again with every few others.

    Yields None after every run. Raises `LookaheadError` for bad input before anything is measured.
    """
    whole_number("repeat", repeat, 1, 1000)
    check(models, questions, entries, options)

    def timed(entry: Entry, q: Question) -> Timing:
        return time_lane(lane_of(models, q, entry, options))

    timed(entries[0], questions[0])
    for number, q in enumerate(questions):
        for entry in entries[1:]:
            timed(entry, q)
        for turn in range(repeat):
            direction = 1 if turn % 2 == 0 else -1
            for block in blocks(entries)[::direction]:
                timings: dict[str, Timing] = {}
                for entry in block[::direction]:
                    timings[entry.label] = timed(entry, q)
                    yield None
                for entry in block:
                    yield Sample(number, q, entry, timings[entry.label], timings[entries[0].label])


def blocks(entries: Sequence[Entry]) -> list[list[Entry]]:
    """The entries in blocks of a few, each with the first one before the others."""
    first, *others = entries
    return [[first, *others[i : i + BESIDE]] for i in range(0, max(1, len(others)), BESIDE)]


def by_question(taken: Iterable[Sample], label: str) -> list[list[Sample]]:
    """The samples of an entry, question by question."""
    of_entry = sorted((sample for sample in taken if sample.entry.label == label), key=attrgetter("number"))
    return [[*of] for _, of in groupby(of_entry, key=attrgetter("number"))]


def median_pairs(taken: Iterable[Sample], label: str) -> list[tuple[Timing, Timing]]:
    """Return for every question the median run of an entry, and the median naive run next to it."""
    return [
        (median_run([sample.timing for sample in of]), median_run([sample.naive for sample in of]))
        for of in by_question(taken, label)
    ]


def median_run(runs: Sequence[Timing]) -> Timing:
    """The run of median seconds; of two in the middle the slower."""
    return sorted(runs, key=lambda t: t.seconds)[len(runs) // 2]


def token_s(runs: Sequence[Timing]) -> float:
    """Seconds per token of the median run. (The rejection rule writes another text, perhaps of another length.)"""
    return median_run(runs).seconds / len(runs[0].tokens)
