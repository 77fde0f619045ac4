"""A method compared with naive on one prompt (`Row`) and on several (`Arm`), and sentences on why it is faster or slower."""

from __future__ import annotations

import statistics
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from itertools import groupby
from math import log
from typing import Any

from ..core.numbers import decimal, percent, ratio
from ..family.models import Models
from .intervals import interval
from .scenarios import ANSWERS_BENCH, BENCH, USUAL
from .timing import Question, Sample, by_question, median_run, read_entry, samples, token_s

LENGTH = 96  # tokens of an arm's texts, unless its plan says otherwise


@dataclass(frozen=True, slots=True)
class Row:
    """One prompt: the ratio of median times, with the extremes of single repetitions.

    `acceptance` is the share of the tested tokens that were accepted. Costs are those of a pass, in naive passes: all of it,
    the target's part, the drafting. `predicted` is the speedup by the measured cost curves, None if drafts are not visible.
    """

    question: str
    category: str
    new_tokens: int
    speedup: float
    low: float
    high: float
    tokens_per_pass: float
    acceptance: float | None
    drafted_per_pass: float
    pass_cost: float
    verify_cost: float
    draft_cost: float
    predicted: float | None
    identical: bool
    depth_per_pass: float = 0.0  # the longest path in a draft; the most tokens that a pass can accept


@dataclass(frozen=True, slots=True)
class Arm:
    """What was measured under one name: `median`, `low` and `high` speedup over its rows; None before the first."""

    label: str
    method: str
    rows: tuple[Row, ...] = ()
    median: float | None = None
    low: float | None = None
    high: float | None = None

    @classmethod
    def of(cls, label: str, method: str, rows: Sequence[Row]) -> Arm:
        if not rows:
            return cls(label, method)
        return cls(
            label, method, tuple(rows), statistics.median(row.speedup for row in rows),
            min(row.low for row in rows), max(row.high for row in rows),
        )  # fmt: skip

    @property
    def interval(self) -> tuple[float, float] | None:
        """The median's 90% interval over prompts; None for fewer than two."""
        return interval([row.speedup for row in self.rows], statistics.median)

    def mean(self, name: str) -> float | None:
        """The mean of a number of the rows; None where none of them has it."""
        values = [value for row in self.rows if (value := getattr(row, name)) is not None]
        return statistics.mean(values) if values else None


@dataclass(frozen=True, slots=True)
class Plan:
    """An arm to be measured: a method (with options, as in `bench`), the prompts by category or id, and settings."""

    label: str
    method: str
    prompts: tuple[str, ...] = ("story",)
    settings: dict[str, Any] = field(default_factory=dict)

    def questions(self, most: int | None = None, tokens: int | None = None) -> list[Question]:
        """Return the prompts with the plan's settings; `tokens` caps the length."""
        length = self.settings.get("max_new_tokens", LENGTH)
        return questions(*self.prompts, most=most, **self.settings | {"max_new_tokens": min(length, tokens or length)})

    def arm(self, taken: Iterable[Sample]) -> Arm:
        return Arm.of(self.label, self.method, rows_of(taken, self.method))


@dataclass(frozen=True, slots=True)
class Progress:
    """The state of a measurement: `done` of `total`, `text` for people, the `result` so far."""

    done: int
    total: int
    text: str
    result: Any


def questions(*categories: str, most: int | None = None, family: str = USUAL, **settings: Any) -> list[Question]:
    """Return at most so many of a family's bundled prompts, of these categories or ids (default: all), with `settings`."""
    bundled = [s for s in ANSWERS_BENCH if s.family == family] or BENCH
    chosen = [s for s in bundled if not categories or s.category in categories or s.id in categories]
    return [Question(s.id, s.category, s.prompt, s.chat, {**s.options, **settings}) for s in chosen[:most]]


def measure(models: Models, arms: Sequence[tuple[str, list[Question]]], repeats: int) -> Iterator[Progress | None]:
    """Measure methods (with options, as in `bench`), each on its questions, against naive.

    Yields the samples of each so far, and None after every run. Neighbours with the same questions are measured together.
    """
    taken: list[list[Sample]] = [[] for _ in arms]
    total = repeats * sum(len(prompts) for _, prompts in arms)
    for shared, group in groupby(range(len(arms)), key=lambda i: arms[i][1]):
        methods = {i: arms[i][0] for i in group}
        entries = [read_entry(method) for method in dict.fromkeys(["naive", *methods.values()])]
        for sample in samples(models, entries, shared, repeats, {}):
            if sample is None:
                yield None
                continue
            for i, method in methods.items():
                if method == sample.entry.label:
                    taken[i].append(sample)
            yield Progress(sum(map(len, taken)), total, f"{sample.question.id}: {sample.entry.label}", taken)


def rows_of(taken: Iterable[Sample], label: str) -> list[Row]:
    """Return the rows of an entry, one for each question."""
    return [row_of(of) for of in by_question(taken, label)]


def row_of(taken: Sequence[Sample]) -> Row:
    """Return the row of an entry's samples of one question."""
    question, runs, naive = taken[0].question, [s.timing for s in taken], [s.naive for s in taken]
    run, new_tokens = median_run(runs), len(runs[0].tokens)
    plain_s = median_run(naive).seconds / naive[0].passes
    single = [token_s([s.naive]) / token_s([s.timing]) for s in taken]
    return Row(
        question=question.id,
        category=question.category,
        new_tokens=new_tokens,
        speedup=token_s(naive) / token_s(runs),
        low=min(single),
        high=max(single),
        tokens_per_pass=new_tokens / run.passes,
        acceptance=run.accepted / run.tested if run.tested else None,
        drafted_per_pass=run.drafted / run.passes,
        pass_cost=run.seconds / run.passes / plain_s,
        verify_cost=run.verify_s / run.passes / plain_s,
        draft_cost=run.propose_s / run.passes / plain_s,
        predicted=run.predicted.speedup if run.predicted else None,
        identical=all(t.tokens == naive[0].tokens for t in runs),
        depth_per_pass=run.depth / run.passes,
    )


def because(arm: Arm) -> str:
    """Return a sentence that derives the arm's speedup from its tokens per pass and its cost per pass."""
    if not arm.rows:
        return f"{arm.label}: not measured."
    if not arm.mean("drafted_per_pass"):
        return f"{arm.label}: nothing was drafted, so a pass wrote one token as in naive decoding: {ratio(arm.median)}."
    tokens, cost, target, drafting = map(arm.mean, ("tokens_per_pass", "pass_cost", "verify_cost", "draft_cost"))
    return (
        f"{arm.label}: of {decimal(arm.mean('drafted_per_pass'))} tokens drafted per pass, {percent(arm.mean('acceptance'))} of the "
        f"tested ones were accepted. A pass wrote {decimal(tokens)} tokens and cost {decimal(cost)} naive passes "
        f"({decimal(target)} the target's, {decimal(drafting)} drafting, {decimal(max(0.0, cost - target - drafting))} the loop): "
        f"{decimal(tokens)} / {decimal(cost)} = {ratio(tokens / cost)} on average; the median prompt had {ratio(arm.median)}."
    )


def difference(one: Arm, other: Arm) -> str:
    """Return a sentence on whether tokens per pass or the cost of a pass makes `one` faster or slower than `other`."""
    tokens, cost = (one.mean(name) / other.mean(name) for name in ("tokens_per_pass", "pass_cost"))
    main = "what a pass writes" if abs(log(tokens)) >= abs(log(cost)) else "what a pass costs"
    return (
        f"{one.label} against {other.label}: a pass writes {decimal(tokens)} times as many tokens and costs {decimal(cost)} times "
        f"as much, so the difference is mostly in {main}."
    )
