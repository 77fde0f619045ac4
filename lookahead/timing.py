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
from dataclasses import dataclass, field
from time import perf_counter
from typing import Any

from .events import ACCEPTED, REJECTED, LookaheadError, Settings, SettingsError, Step
from .lane import MODEL_SOURCES, Lane
from .methods import method_class, read_options
from .models import Models
from .tree import branch_count, depths

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
    """What takes part: a method, with settings and options of its own; `label` is how it was asked for."""

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


@dataclass(frozen=True, slots=True)
class Timing:
    """One lane, run once and alone. The `predicted` ones are what its passes and drafts should take by the measured costs.

    `tested` of the `drafted` tokens were looked at, `accepted` of these stood. `verify_s` and `propose_s` are the
    parts of its `seconds` that the target's passes and the drafting took.
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
    predicted_verify_s: float | None
    predicted_propose_s: float | None

    @property
    def predicted_s(self) -> float | None:
        """Both together; None where nobody looks inside."""
        return None if self.predicted_verify_s is None else self.predicted_verify_s + self.predicted_propose_s


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
    verify_s, propose_s = (None, None) if lane.opaque else _predicted(lane, done)
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
        predicted_verify_s=verify_s,
        predicted_propose_s=propose_s,
    )


def _predicted(lane: Lane, steps: Sequence[Step]) -> tuple[float, float]:
    """Seconds by theory, of passes and of drafting: each pass at its measured cost, each drafted token also at a choice's."""
    costs, verify_s, propose_s = lane.models.costs, 0.0, 0.0
    draft = lane.models.draft_costs.get(lane.options.get("draft", ""))
    unread = 1  # tokens that the draft model has not read yet
    for step in steps:
        parents = step.draft.parents
        verify_s += costs.pass_s(1 + len(parents), branch_count(parents))
        if draft and parents and step.draft.sources[0] in MODEL_SOURCES:
            # One pass a level: the first reads up, the others read one row for a chain, a level's rows for a tree.
            levels, tree = max(depths(parents)), step.draft.sources[0] == "tree"
            propose_s += draft.pass_s(1 << (unread - 1).bit_length()) + levels * draft.choose_s
            propose_s += (levels - 1) * (draft.pass_s(lane.own.branches, 2) if tree else draft.pass_s(1))
            propose_s += sum(draft.after_s[:levels])
            verify_s += draft.back_s
            unread = -min(step.accepted, levels - 1)
        unread += len(step.emitted)
    return verify_s, propose_s


def samples(
    models: Models, entries: Sequence[Entry], questions: Sequence[Question], repeat: int, options: Mapping[str, Any]
) -> Iterator[Sample]:
    """Time every entry on every question `repeat` times, the first one (naive, as a rule) in every block of others.

    May be closed after any sample. The first entry is warmed up once, the others on every question. Bad input of
    any of them raises a `LookaheadError` before the first second is spent.
    """
    if isinstance(repeat, bool) or not isinstance(repeat, int) or not 1 <= repeat <= MOST_REPEATS:
        raise SettingsError("repeat", repeat, f"give a whole number from 1 to {MOST_REPEATS:,}.")

    def lane(entry: Entry, q: Question) -> Lane:
        settings = Settings(**{**options, **q.settings, **entry.settings, "chat": q.chat, "details": False})
        return Lane(models, q.prompt, entry.method, settings, entry.options)

    for q in questions:
        for entry in entries:
            try:
                lane(entry, q)
            except LookaheadError as error:
                raise type(error)(f"question {q.id!r}, {error.field}", error.value, error.mend) from None
    time_lane(lane(entries[0], questions[0]))
    for number, q in enumerate(questions):
        for entry in entries[1:]:
            time_lane(lane(entry, q))
        for turn in range(repeat):
            order = [(block, entry) for block, held in enumerate(blocks(entries)) for entry in held]
            for block, entry in order if turn % 2 == 0 else reversed(order):
                yield Sample(number, q, entry, turn, block, time_lane(lane(entry, q)))


def blocks(entries: Sequence[Entry]) -> list[list[Entry]]:
    """The entries in blocks of a few, each with the first one before the others."""
    first, *others = entries
    return [[first, *others[i : i + BESIDE]] for i in range(0, max(1, len(others)), BESIDE)]


def paired(taken: Iterable[Sample], label: str, base: str = "naive") -> list[tuple[Timing, Timing]]:
    """An entry's timings on one question, each with that of `base` beside it."""
    held = list(taken)
    beside = {(s.turn, s.block): s.timing for s in held if s.entry.label == base}
    own = [(s.timing, beside.get((s.turn, s.block))) for s in held if s.entry.label == label]
    return [(timing, plain) for timing, plain in own if plain]


def middle(runs: Sequence[Timing]) -> list[Timing]:
    """The run of median seconds, or the two around it: whose passes and acceptance go with the median."""
    return sorted(runs, key=lambda t: t.seconds)[(len(runs) - 1) // 2 : len(runs) // 2 + 1]


def token_s(runs: Sequence[Timing]) -> float:
    """Seconds a token: the median run's. (The rejection rule writes another text, perhaps of another length.)"""
    return statistics.median(t.seconds for t in runs) / len(runs[0].tokens)
