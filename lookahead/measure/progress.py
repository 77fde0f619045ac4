"""A method compared with naive decoding on one prompt (`Row`) and on several (`Arm`), and sentences that explain speedups."""

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
from .scenarios import ANSWERS_BENCH, BENCH, DEFAULT_FAMILY
from .timing import Question, Sample, by_question, median_run, read_entry, run_samples, token_s

LENGTH = 96  # default number of tokens of each text


@dataclass(frozen=True, slots=True)
class Row:
    """The result on one prompt: the ratio of median times, and the lowest and highest ratio of single repetitions.

    `acceptance` is the share of the tested tokens that were accepted. Costs are per pass, in naive passes: the total, the
    target's part and drafting. `predicted` is the speedup that the measured cost curves predict, None if the method does not
    report its drafts.
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
    depth_per_pass: float = 0.0  # the longest path of a draft: the most tokens that a pass can accept


@dataclass(frozen=True, slots=True)
class Arm:
    """The rows of one method, with the `median`, `low` and `high` speedup; None without rows."""

    label: str
    method: str
    rows: tuple[Row, ...] = ()
    median: float | None = None
    low: float | None = None
    high: float | None = None

    @classmethod
    def from_rows(cls, label: str, method: str, rows: Sequence[Row]) -> Arm:
        if not rows:
            return cls(label, method)
        return cls(
            label, method, tuple(rows), statistics.median(row.speedup for row in rows),
            min(row.low for row in rows), max(row.high for row in rows),
        )  # fmt: skip

    @property
    def interval(self) -> tuple[float, float] | None:
        """The 90% interval of the median, over prompts; None for fewer than two."""
        return interval([row.speedup for row in self.rows], statistics.median)

    def mean(self, name: str) -> float | None:
        """Return the mean of a field over the rows that have it; None if no row has it."""
        values = [value for row in self.rows if (value := getattr(row, name)) is not None]
        return statistics.mean(values) if values else None


@dataclass(frozen=True, slots=True)
class Plan:
    """An arm to measure: a method (with options, as in `bench`), prompts by category or id, and settings."""

    label: str
    method: str
    prompts: tuple[str, ...] = ("story",)
    settings: dict[str, Any] = field(default_factory=dict)

    def questions(self, most: int | None = None, tokens: int | None = None) -> list[Question]:
        """Return up to `most` prompts with the plan's settings. `tokens` limits the length."""
        length = self.settings.get("max_new_tokens", LENGTH)
        return questions(*self.prompts, most=most, **self.settings | {"max_new_tokens": min(length, tokens or length)})

    def arm(self, samples: Iterable[Sample]) -> Arm:
        """Return the arm with the samples of the plan's method."""
        return Arm.from_rows(self.label, self.method, rows_of(samples, self.method))


@dataclass(frozen=True, slots=True)
class Progress:
    """The state of a measurement: `done` of `total` work in a `unit`, a `text` for display and the `result` so far."""

    done: int
    total: int
    text: str
    result: Any
    unit: str = ""


def questions(*names: str, most: int | None = None, family: str = DEFAULT_FAMILY, **settings: Any) -> list[Question]:
    """Return up to `most` of a family's bundled prompts, with `settings`; `names` are categories or ids, by default all."""
    bundled = [s for s in ANSWERS_BENCH if s.family == family] or BENCH
    chosen = [s for s in bundled if not names or s.category in names or s.id in names]
    return [Question(s.id, s.category, s.prompt, s.chat, {**s.options, **settings}) for s in chosen[:most]]


def measure(models: Models, arms: Sequence[tuple[str, list[Question]]], repeats: int) -> Iterator[Progress | None]:
    """Measure methods (with options, as in `bench`), each on its questions, and compare them with naive decoding.

    Yields the samples of each arm so far, and None after each run. Adjacent arms with the same questions share naive runs.
    """
    samples: list[list[Sample]] = [[] for _ in arms]
    total = repeats * sum(len(prompts) for _, prompts in arms)
    for prompts, group in groupby(range(len(arms)), key=lambda i: arms[i][1]):
        methods = {i: arms[i][0] for i in group}
        entries = [read_entry(method) for method in dict.fromkeys(["naive", *methods.values()])]
        for sample in run_samples(models, entries, prompts, repeats, {}):
            if sample is None:
                yield None
                continue
            for i, method in methods.items():
                if method == sample.entry.label:
                    samples[i].append(sample)
            yield Progress(sum(map(len, samples)), total, f"{sample.question.id}: {sample.entry.label}", samples)


def rows_of(samples: Iterable[Sample], label: str) -> list[Row]:
    """Return the rows of an entry, one per question."""
    return [row_of(group) for group in by_question(samples, label)]


def row_of(samples: Sequence[Sample]) -> Row:
    """Return the row for one entry's samples of one question."""
    question, runs, naive = samples[0].question, [s.timing for s in samples], [s.naive for s in samples]
    run, new_tokens = median_run(runs), len(runs[0].tokens)
    naive_pass_s = median_run(naive).seconds / naive[0].passes
    single = [token_s([s.naive]) / token_s([s.timing]) for s in samples]
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
        pass_cost=run.seconds / run.passes / naive_pass_s,
        verify_cost=run.verify_s / run.passes / naive_pass_s,
        draft_cost=run.propose_s / run.passes / naive_pass_s,
        predicted=run.predicted.speedup if run.predicted else None,
        identical=all(t.tokens == naive[0].tokens for t in runs),
        depth_per_pass=run.depth / run.passes,
    )


def explain_speedup(arm: Arm) -> str:
    """Return sentences that derive the arm's speedup from its tokens per pass and its cost per pass."""
    if not arm.rows:
        return f"{arm.label}: not measured."
    if not arm.mean("drafted_per_pass"):
        return f"{arm.label}: no tokens were drafted, so each pass wrote one token, as in naive decoding: {ratio(arm.median)}."
    tokens, cost, target, drafting = map(arm.mean, ("tokens_per_pass", "pass_cost", "verify_cost", "draft_cost"))
    return (
        f"{arm.label}: {decimal(arm.mean('drafted_per_pass'))} tokens were drafted per pass, and {percent(arm.mean('acceptance'))} "
        f"of the tested tokens were accepted. A pass wrote {decimal(tokens)} tokens and cost {decimal(cost)} naive passes "
        f"({decimal(target)} target, {decimal(drafting)} drafting, {decimal(max(0.0, cost - target - drafting))} loop). The mean "
        f"speedup is {decimal(tokens)} / {decimal(cost)} = {ratio(tokens / cost)}, the median over prompts {ratio(arm.median)}."
    )


def explain_difference(arm: Arm, other: Arm) -> str:
    """Return sentences on whether tokens per pass or the cost of a pass makes `arm` faster or slower than `other`."""
    tokens, cost = (arm.mean(name) / other.mean(name) for name in ("tokens_per_pass", "pass_cost"))
    cause = "tokens per pass" if abs(log(tokens)) >= abs(log(cost)) else "the cost of a pass"
    return (
        f"{arm.label} compared with {other.label}: a pass writes {decimal(tokens)} times as many tokens and costs {decimal(cost)} "
        f"times as much. The difference is mainly in {cause}."
    )
