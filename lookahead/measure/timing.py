"""Time lanes one at a time, after a warm-up, in an order that is reversed with each repetition.

A machine's speed varies within seconds, so a naive run is repeated with every few lanes for comparison. A lane's seconds
exclude prefill. Its overhead is the share of its time outside the passes of models.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import groupby
from operator import attrgetter
from time import perf_counter
from typing import Any

from ..core.acceptance import UNTESTED, Acceptance
from ..core.costs import PricedRun
from ..core.events import ACCEPTED, REJECTED, Change, LookaheadError, Settings, whole_number
from ..core.tree import depths
from ..drafting import level_rows
from ..engine.batch import Batch
from ..engine.lane import Lane
from ..engine.methods import method_class, read_options
from ..family.models import Models

BLOCK = 3  # methods that share a naive run


@dataclass(frozen=True, slots=True)
class Question:
    """A prompt (text or ids) for measurements, with `settings` that replace those of the run."""

    id: str
    category: str
    prompt: str | list[int]
    chat: bool
    settings: dict[str, Any] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Entry:
    """A method with its settings and options, parsed from `label`."""

    label: str
    method: str
    settings: dict[str, Any]
    options: dict[str, Any]


def read_entry(label: str) -> Entry:
    """Parse `method` or `method:name=value,name=value`, such as `draft:draft=offdomain` or `hf-assisted:k=5`.

    Raises a `LookaheadError` for an unknown method.
    """
    method, _, pairs = label.strip().partition(":")
    method_class(method)
    values = read_options(filter(None, pairs.split(",")))
    settings = {name: value for name, value in values.items() if name in Settings.names()}
    options = {name: value for name, value in values.items() if name not in settings}
    return Entry(label.strip(), method, settings, options)


def lane_of(models: Models, q: Question, entry: Entry, options: Mapping[str, Any]) -> Lane:
    """Return a lane for an entry and a question. The entry's settings override the question's, which override `options`."""
    settings = {"costs": "measured", **options, **q.settings, **entry.settings, "chat": q.chat, "details": False}
    return Lane(models, q.prompt, entry.method, Settings(**settings), entry.options)


def check(
    models: Models, questions: Sequence[Question], entries: Sequence[Entry], options: Mapping[str, Any], *, shared: bool = False
) -> None:  # fmt: skip
    """Raise a `LookaheadError` for the first entry that cannot run on a question, or in a batch if `shared`."""
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
    """The result of running one lane once.

    `verify_s` and `propose_s` are the parts of `seconds` for the target's passes and for drafting. `acceptance` is by position.
    `predicted` is the calibrated time of the passes, None if the lane does not report its drafts. `changes` has an entry for each
    of the `tokens`: None, or the `Change` by a lossy rule.
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
    depth: int = 0  # sum over passes of the length of the draft's longest path
    changes: tuple[Change | None, ...] = ()

    @property
    def changed(self) -> float:
        """The share of the tokens that naive would not have written after the same text."""
        return sum(change is not None for change in self.changes) / len(self.tokens)

    @property
    def lost(self) -> float:
        """The log-probability per token under the target, in nats, that is lost by writing other tokens than naive."""
        return sum(change.lost for change in self.changes if change) / len(self.tokens)


@dataclass(frozen=True, slots=True)
class Sample:
    """A timing of an entry on a question, and that of its naive run. `number` is the index of the question."""

    number: int
    question: Question
    entry: Entry
    timing: Timing
    naive: Timing


def time_lane(lane: Lane) -> Timing:
    """Run a lane to its end, and time it without prefill."""
    prefilled, costs = lane.steps(), lane.models.costs
    next(prefilled)
    prefill_s = lane.forward_seconds()
    start = perf_counter()
    steps = list(prefilled)
    total_s, rows, prompt = perf_counter() - start, level_rows(lane.options), len(lane.prompt)
    return Timing(
        tokens=tuple(token for step in steps for token in step.emitted),
        seconds=total_s,
        passes=len(steps),
        drafted=sum(len(step.draft) for step in steps),
        tested=sum(step.statuses.count(ACCEPTED) + step.statuses.count(REJECTED) for step in steps),
        accepted=sum(step.accepted for step in steps),
        verify_s=sum(step.verify_s for step in steps),
        propose_s=sum(step.propose_s for step in steps),
        overhead=1 - (lane.forward_seconds() - prefill_s) / total_s if lane.reports_drafts else None,
        predicted=costs.price_passes(steps, lane.options.get("draft"), rows, prompt) if lane.reports_drafts else None,
        acceptance=Acceptance.from_steps(steps),
        depth=sum(max(depths(step.draft.parents[: step.draft.tested]), default=0) for step in steps),
        changes=tuple(test.change for step in steps for test in step.tests if test.outcome != REJECTED),
    )


def run_samples(
    models: Models, entries: Sequence[Entry], questions: Sequence[Question], repeat: int, options: Mapping[str, Any]
) -> Iterator[Sample | None]:
    """Time each entry on each question `repeat` times. The first entry is naive, and is repeated in each block of others.

    Yields None after each run. Raises `LookaheadError` for invalid input before the first run.
    """
    whole_number("repeat", repeat, 1, 1000)
    check(models, questions, entries, options)

    def timed(entry: Entry, q: Question) -> Timing:
        return time_lane(lane_of(models, q, entry, options))

    timed(entries[0], questions[0])
    for number, q in enumerate(questions):
        for entry in entries[1:]:
            timed(entry, q)
        for repetition in range(repeat):
            direction = 1 if repetition % 2 == 0 else -1
            for block in blocks(entries)[::direction]:
                timings: dict[str, Timing] = {}
                for entry in block[::direction]:
                    timings[entry.label] = timed(entry, q)
                    yield None
                for entry in block:
                    yield Sample(number, q, entry, timings[entry.label], timings[entries[0].label])


def blocks(entries: Sequence[Entry]) -> list[list[Entry]]:
    """Return blocks of up to `BLOCK` entries, each after the first entry, which is naive."""
    naive, *others = entries
    return [[naive, *others[i : i + BLOCK]] for i in range(0, max(1, len(others)), BLOCK)]


def by_question(taken: Iterable[Sample], label: str) -> list[list[Sample]]:
    """Return the samples of an entry, grouped by question."""
    chosen = sorted((sample for sample in taken if sample.entry.label == label), key=attrgetter("number"))
    return [[*group] for _, group in groupby(chosen, key=attrgetter("number"))]


def median_pairs(taken: Iterable[Sample], label: str) -> list[tuple[Timing, Timing]]:
    """Return for each question the median run of an entry, and the median of its naive runs."""
    groups = by_question(taken, label)
    return [(median_run([s.timing for s in group]), median_run([s.naive for s in group])) for group in groups]


def median_run(runs: Sequence[Timing]) -> Timing:
    """Return the run with median seconds; for an even number, the slower of the two median runs."""
    return sorted(runs, key=lambda run: run.seconds)[len(runs) // 2]


def token_s(runs: Sequence[Timing]) -> float:
    """Return seconds per token of the median run. Under the rejection rule, texts may have different lengths."""
    return median_run(runs).seconds / len(runs[0].tokens)
