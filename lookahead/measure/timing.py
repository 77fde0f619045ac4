"""Lanes on the clock: one at a time, after a warm-up, in an order that turns round with every repetition.

What the bench, the lab's experiments and its sweeps share. A machine has quicker and slower spells of a few
seconds, so naive runs again beside every few lanes, and a lane is compared with that run. A lane's seconds
exclude reading the prompt; its overhead is the share of its wall time spent outside models' passes, the
drafter's included; positions and mask are part of a pass, as they are of a forward of transformers.

Knows lanes and clocks. It does not know tables or claims.
"""

from __future__ import annotations

import statistics
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from time import perf_counter
from typing import Any

from ..core.acceptance import UNTESTED, Acceptance
from ..core.costs import PricedRun
from ..core.events import ACCEPTED, REJECTED, LookaheadError, Settings, whole_number
from ..core.tree import depths
from ..drafting import level_rows
from ..family.models import Models
from ..race.batch import Batch
from ..race.lane import Lane
from ..race.methods import method_class, read_options

MOST_REPEATS = 1000
BESIDE = 3  # lanes that share a naive run


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
    """What takes part: a method, with its settings and options; `label` is the text it was read from."""

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
    """An entry's lane on a question; of settings the entry's go before the question's, and these before the run's `options`.
    Measurements decide with the costs of the machine that they measure."""
    settings = Settings(
        **{"costs": "measured", **options, **q.settings, **entry.settings, "chat": q.chat, "details": False}
    )
    return Lane(models, q.prompt, entry.method, settings, entry.options)


def check(
    models: Models,
    questions: Sequence[Question],
    entries: Sequence[Entry],
    options: Mapping[str, Any],
    *,
    shared: bool = False,
) -> None:
    """Raise for the first entry that cannot be run on a question a `LookaheadError` that names it. `shared`: nor may a method run a
    loop of its own, which writes one text at a time."""
    for q in questions:
        for entry in entries:
            try:
                lane = lane_of(models, q, entry, options)
                if shared:
                    Batch([lane])
            except LookaheadError as error:
                raise type(error)(f"question {q.id!r}, {error.field}", error.value, error.mend) from None


@dataclass(frozen=True, slots=True)
class Timing:
    """One lane, run once and alone. `predicted` is what its passes should take; None for an opaque lane.

    `tested` of the `drafted` tokens were verified, `accepted` of these passed. `verify_s` and `propose_s` are the
    parts of its `seconds` that the target's passes and the drafting took; `acceptance` is by position.
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
    """An entry on a question, the `number`th of them, timed once; `turn` counts the repetitions.

    Samples of the same question, turn and `block` were taken one right after another, the first entry's among them.
    """

    number: int
    question: Question
    entry: Entry
    turn: int
    block: int
    timing: Timing


def time_lane(lane: Lane) -> Timing:
    """Run a lane to its end and time it."""
    steps = lane.steps()
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
        overhead=None if lane.opaque else 1 - (lane.forward_seconds() - inside) / wall,
        predicted=None
        if lane.opaque
        else lane.models.costs.of_passes(done, lane.options.get("draft"), level_rows(lane.options)),
        acceptance=Acceptance.of(done),
        depth=sum(max(depths(step.draft.parents[: step.draft.tested]), default=0) for step in done),
    )


def samples(
    models: Models, entries: Sequence[Entry], questions: Sequence[Question], repeat: int, options: Mapping[str, Any]
) -> Iterator[Sample]:
    """Time every entry on every question `repeat` times, the first one (naive, as a rule) in every block of others.

    May be closed after any sample. The first entry is warmed up once, the others on every question. Bad input of
    any of them raises a `LookaheadError` before the first second is spent.
    """
    whole_number("repeat", repeat, 1, MOST_REPEATS)
    check(models, questions, entries, options)

    def lane(entry: Entry, q: Question) -> Lane:
        return lane_of(models, q, entry, options)

    time_lane(lane(entries[0], questions[0]))
    for number, q in enumerate(questions):
        for entry in entries[1:]:
            time_lane(lane(entry, q))
        for turn in range(repeat):
            order = [(block, entry) for block, beside in enumerate(blocks(entries)) for entry in beside]
            for block, entry in order if turn % 2 == 0 else reversed(order):
                yield Sample(number, q, entry, turn, block, time_lane(lane(entry, q)))


def blocks(entries: Sequence[Entry]) -> list[list[Entry]]:
    """The entries in blocks of a few, each with the first one before the others."""
    first, *others = entries
    return [[first, *others[i : i + BESIDE]] for i in range(0, max(1, len(others)), BESIDE)]


def paired(taken: Iterable[Sample], label: str) -> list[tuple[Timing, Timing]]:
    """An entry's timings on one question, each with naive's beside it."""
    taken = list(taken)
    beside = {(s.turn, s.block): s.timing for s in taken if s.entry.label == "naive"}
    pairs = [(s.timing, beside.get((s.turn, s.block))) for s in taken if s.entry.label == label]
    return [(timing, plain) for timing, plain in pairs if plain]


def by_question(taken: Iterable[Sample]) -> list[list[Sample]]:
    """The samples of every question."""
    out: dict[int, list[Sample]] = {}
    for sample in taken:
        out.setdefault(sample.number, []).append(sample)
    return [*out.values()]


def middle_pairs(taken: Iterable[Sample], label: str) -> list[tuple[Timing, Timing]]:
    """For every question the median run, and the median naive run beside it."""
    pairs = [paired(of, label) for of in by_question(taken)]
    return [tuple(map(_median_run, zip(*of, strict=True))) for of in pairs if of]


def _median_run(runs: Sequence[Timing]) -> Timing:
    """The run of median seconds; of two around it the mean seconds of every part."""
    around = middle(runs)
    parts = {name: statistics.mean(getattr(t, name) for t in around) for name in ("seconds", "verify_s", "propose_s")}
    return replace(around[0], **parts)


def middle(runs: Sequence[Timing]) -> list[Timing]:
    """The run of median seconds, or the two around it: whose passes and acceptance go with the median."""
    return sorted(runs, key=lambda t: t.seconds)[(len(runs) - 1) // 2 : len(runs) // 2 + 1]


def predicted(runs: Sequence[Timing]) -> PricedRun | None:
    """What the run of median seconds should have taken; None for an opaque lane."""
    priced = [t.predicted for t in middle(runs) if t.predicted]
    if not priced:
        return None
    verify_s, draft_s = statistics.mean(p.verify_s for p in priced), statistics.mean(p.draft_s for p in priced)
    return PricedRun(priced[0].tokens, priced[0].plain_s, verify_s, draft_s)


def token_s(runs: Sequence[Timing]) -> float:
    """Seconds a token: the median run's. (The rejection rule writes another text, perhaps of another length.)"""
    return statistics.median(t.seconds for t in runs) / len(runs[0].tokens)
