"""The claims that everybody quotes, measured here: the table of speedups and the list of when it helps.

An experiment is data: the claim in the words it is quoted in, and arms, each a method on some of the
bundled prompts under some settings. The first arm is the claim's; the others are what it is compared
with. `run` measures all of them against naive, one lane at a time, and yields what is known so far.

The two claims about machines (memory-bound, compute-bound) cannot be had by another prompt. They are
read from passes measured on this machine: how much a pass with more rows costs. What rows of one text
cost stands there for what rows of many texts at once would cost; an arm that is arithmetic on such
costs, and not a run, says so (`computed`). It is no overestimate: rows of one text also attend to each other,
which makes the largest passes a little dearer than a batch of texts.

Knows lanes and costs. It does not know pages.
"""

from __future__ import annotations

import statistics
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from itertools import groupby
from typing import Any

from ..calibration import cost
from ..core.costs import PassCosts
from ..core.events import SettingsError
from ..core.numbers import decimal, ratio
from ..family.models import Models
from ..model.lm import CachedLM
from ..race.methods import needed_by
from .progress import Arm, Progress, because, difference, questions, rows_of
from .timing import Question, read_entry, samples

NAIVE = "naive"
TABLE, HELPS, HURTS = "performance expectations", "when most effective", "when least effective"
NEWER = "generations of drafters"
LENGTH, SHORT, LONG = 96, 12, 192
K = 4
BATCHES = (1, 2, 4, 8, 16, 32, 64)  # texts at once
SAME = 1.05  # medians closer than this are no difference


@dataclass(frozen=True, slots=True)
class Plan:
    """One arm to be: a method (with options, as in `bench`), the prompts by category or id, and settings."""

    label: str
    method: str
    prompts: tuple[str, ...]
    settings: dict[str, Any] = field(default_factory=dict)

    def questions(self, most: int | None, tokens: int | None) -> list[Question]:
        """The prompts with the plan's settings; `tokens` caps the length."""
        settings = {"max_new_tokens": LENGTH, **self.settings}
        settings["max_new_tokens"] = min(settings["max_new_tokens"], tokens or settings["max_new_tokens"])
        return questions(*self.prompts, most=most, **settings)


@dataclass(frozen=True, slots=True)
class Experiment:
    """A claim and what is run here for it.

    `group` is the list that the claim stands in. `low` and `high` are the speedups it promises, None for a claim
    that only says that something helps or hurts. With `batches` passes of so many texts are measured too.
    """

    id: str
    title: str
    group: str
    claim: str
    plans: tuple[Plan, ...]
    low: float | None = None
    high: float | None = None
    batches: tuple[int, ...] = ()

    def missing(self, models: Models) -> list[str]:
        """The draft models and trained heads it needs that this family does not have."""
        entries = [read_entry(plan.method) for plan in self.plans]
        needed = {entry.options.get("draft", needed_by(entry.method)) for entry in entries}
        return sorted(needed - {None, *models.drafts, *models.heads})

    def run(
        self, models: Models, repeats: int = 3, *, prompts: int | None = None, tokens: int | None = None
    ) -> Iterator[Progress]:
        """Measure it; every `Progress` holds the `Result` so far, the last one all of it. May be closed at any point.

        `prompts` and `tokens` cap how many prompts an arm has and how long their texts get.
        """
        result = Result(self, tuple(Arm.of(plan.label, plan.method, ()) for plan in self.plans))
        by_plan = [plan.questions(prompts, tokens) for plan in self.plans]
        total = sum(len(q) for q in by_plan) * repeats + repeats * bool(self.batches)
        done = 0
        # Neighbouring plans with the same questions are measured side by side.
        for shared, group in groupby(range(len(by_plan)), key=by_plan.__getitem__):
            indices, taken = list(group), []
            methods = [self.plans[i].method for i in indices]
            entries = [read_entry(method) for method in dict.fromkeys([NAIVE, *methods])]
            for sample in samples(models, entries, shared, repeats, {}):
                taken.append(sample)
                done += methods.count(sample.entry.label)
                arms = list(result.arms)
                for i in indices:
                    plan = self.plans[i]
                    arms[i] = Arm.of(plan.label, plan.method, rows_of(taken, plan.method))
                result = replace(result, arms=tuple(arms))
                yield Progress(done, total, f"{sample.question.id}: {sample.entry.label}", result)
        if self.batches:
            for measured in _batch_costs(models, self.batches, repeats):
                done += 1
                result = replace(result, batches=tuple(_batches(result.arms[0], self.batches, measured)))
                yield Progress(done, total, "passes with more and more rows", result)


@dataclass(frozen=True, slots=True)
class Batch:
    """Speculation on so many `texts` at once, by measured passes: a pass of their drafts against one without.

    `verify_cost` is pass_s(texts * (1 + k)) / pass_s(texts); `speedup` what it leaves of the tokens a pass wrote:
    the median over the repetitions, with the extremes. `token_share` is what a row of the larger pass costs against
    a row alone: 1 is no parallelism left, and 1 / rows is parallelism for nothing.
    """

    texts: int
    rows: int
    verify_cost: float
    token_share: float
    speedup: float
    low: float
    high: float


@dataclass(frozen=True, slots=True)
class Result:
    """The measurements of an experiment so far. The first arm is the claim's."""

    experiment: Experiment
    arms: tuple[Arm, ...]
    batches: tuple[Batch, ...] = ()

    @property
    def measured(self) -> Arm:
        """The arm to set beside the claim: the first, or for the compute-bound claim the largest batch."""
        if self.experiment.id == "compute-bound":
            if not self.batches:
                return Arm("many texts at once", self.arms[0].method, computed=True)
            last = self.batches[-1]
            label = f"{last.texts} texts at once"
            return Arm(label, self.arms[0].method, (), last.speedup, last.low, last.high, computed=True)
        return self.arms[0]

    @property
    def compared(self) -> Arm | None:
        """What a claim without numbers is compared with."""
        if self.experiment.id == "compute-bound":
            return self.arms[0]
        return self.arms[1] if self.experiment.low is None and len(self.arms) > 1 else None

    @property
    def outcome(self) -> str:
        """Whether the claim holds: "as claimed", "more", "less", "no difference", "not so"; "" before it is measured."""
        median, e = self.measured.median, self.experiment
        if median is None:
            return ""
        if e.low is not None:
            return "less" if median < e.low else "more" if median > e.high else "as claimed"
        if self.compared is None:
            return "as claimed" if (median > 1) == (e.group != HURTS) else "not so"
        if self.compared.median is None:
            return ""
        if 1 / SAME < median / self.compared.median < SAME:
            return "no difference"
        return "as claimed" if (median > self.compared.median) == (e.group != HURTS) else "not so"

    @property
    def why(self) -> str:
        """Sentences on why, out of what was measured."""
        sentences = [because(arm) for arm in self.arms if arm.rows]
        if self.compared and self.compared.rows and self.measured.rows:
            sentences.append(difference(self.measured, self.compared))
        return " ".join([*sentences, *_on_batches(self)])


def _batch_costs(models: Models, batches: Sequence[int], repeats: int) -> Iterator[list[PassCosts]]:
    """What passes cost up to the largest batch, measured once more with every repetition."""
    target, draft = CachedLM(models.target.passes, models.target.vocab), models.draft("draft")
    room = target.context_length - 64
    texts = [n for n in sorted({1, *batches}) if n * (1 + K) <= room]
    sizes = sorted({*texts, *(n * (1 + K) for n in texts)})
    measured = []
    for _ in range(repeats):
        curve = cost.measure(target, sizes)
        measured.append(PassCosts(curve, {DRAFT: cost.measure_drafter(draft, target, curve, texts)}))
        yield measured


def _batches(arm: Arm, batches: Sequence[int], measured: Sequence[PassCosts]) -> Iterator[Batch]:
    """Every batch, by the tokens a pass that were counted and by each measurement of the costs."""
    tokens = arm.mean("tokens_per_pass")
    if tokens is None:
        return
    for texts in (b for b in batches if b * (1 + K) <= measured[0].target.rows[-1]):
        rows = texts * (1 + K)
        expected = [costs.predict(0.0, K, DRAFT, tokens=tokens, texts=texts) for costs in measured]
        verify_cost = statistics.median(one.verify_s / one.plain_s for one in expected)
        token_share = statistics.median(costs.target.ratio(rows) / rows for costs in measured)
        speedups = [one.speedup for one in expected]
        yield Batch(texts, rows, verify_cost, token_share, statistics.median(speedups), min(speedups), max(speedups))


def _on_batches(result: Result) -> list[str]:
    """Sentences on the measured passes; none where no batch was measured."""
    if not result.batches:
        return []
    one, last = result.batches[0], result.batches[-1]
    tokens = result.arms[0].mean("tokens_per_pass")
    free = (
        f"A pass of {one.rows} rows costs {decimal(one.verify_cost)} one-row passes here; where rows cost what they compute, it "
        f"would cost {one.rows}, and {decimal(tokens)} tokens a pass would make {ratio(tokens / one.rows)}."
    )
    if result.experiment.id == "memory-bound":
        return [free]
    lost = next((b for b in result.batches if b.speedup < 1), None)
    loses = f"from {lost.texts} texts on it loses" if lost else f"up to {last.texts} texts it still gains"
    return [
        free,
        f"With {last.texts} texts in a pass, drafts make it {last.rows} rows instead of {last.texts}, which costs "
        f"{decimal(last.verify_cost)} times as much ({1 + K} where nothing is idle). By these passes {loses}: "
        f"{ratio(last.speedup)} at {last.texts}. Computed from measured passes; rows stand for texts.",
    ]


DRAFT, FIXED = "draft", f"draft:k={K}"
STORIES = ("story",)
EXPERIMENTS: dict[str, Experiment] = {
    e.id: e
    for e in (
        Experiment(
            "good-match", "Good draft model match", TABLE, "2-3×",
            (Plan("stories, the small model's own ground", DRAFT, STORIES),), 2.0, 3.0,
        ),
        Experiment(
            "similar-style", "Similar domain/style", TABLE, "2-4×",
            (Plan("bedtime tales", DRAFT, ("tale",)),), 2.0, 4.0,
        ),
        Experiment(
            "repetitive", "Repetitive content", TABLE, "3-5× (n-gram)",
            (Plan("records, JSON and copying, n-gram", "ngram", ("repetitive",)), Plan("the same, suffix automaton", "suffix", ("repetitive",))),
            3.0, 5.0,
        ),
        Experiment(
            "different-domain", "Different domain", TABLE, "1.5-2×",
            (Plan("code and explanations", DRAFT, ("code", "explain")),), 1.5, 2.0,
        ),
        Experiment(
            "mismatched", "Mismatched draft", TABLE, "~1× (no benefit)",
            (
                Plan("a draft that never saw a story", "draft:draft=offdomain", STORIES),
                Plan(f"that draft, {K} tokens in every pass", f"draft:draft=offdomain,k={K}", STORIES),
            ),
            0.9, 1.1,
        ),
        Experiment(
            "long-outputs", "Long outputs", HELPS, "Long outputs (more speculation opportunities)",
            (
                Plan(f"{LONG} tokens", "hybrid", STORIES, {"max_new_tokens": LONG}),
                Plan(f"{SHORT} tokens", "hybrid", STORIES, {"max_new_tokens": SHORT}),
            ),
        ),
        Experiment(
            "predictable", "Predictable patterns", HELPS, "Predictable patterns",
            (Plan("records, JSON and copying", "hybrid", ("repetitive",)), Plan("explanations", "hybrid", ("explain",))),
        ),
        Experiment(
            "memory-bound", "Memory-bound inference", HELPS, "Memory-bound inference (spare compute)",
            (Plan("one text at a time", FIXED, STORIES),), batches=(1,),
        ),
        Experiment(
            "alignment", "Good draft model alignment", HELPS, "Good draft model alignment",
            (Plan("the aligned draft", FIXED, STORIES), Plan("a draft of another domain", f"draft:draft=offdomain,k={K}", STORIES)),
        ),
        Experiment(
            "short-outputs", "Short outputs", HURTS, "Short outputs",
            (
                Plan(f"{SHORT} tokens", "hybrid", STORIES, {"max_new_tokens": SHORT}),
                Plan(f"{LENGTH} tokens", "hybrid", STORIES, {"max_new_tokens": LENGTH}),
            ),
        ),
        Experiment(
            "high-entropy", "High entropy", HURTS, "High entropy (unpredictable) text",
            (
                Plan("temperature 1.2", FIXED, STORIES, {"temperature": 1.2}),
                Plan("temperature 0", FIXED, STORIES, {"temperature": 0.0}),
                Plan("temperature 0.6", FIXED, STORIES, {"temperature": 0.6}),
            ),
        ),
        Experiment(
            "compute-bound", "Compute-bound", HURTS, "Compute-bound scenarios",
            (Plan("one text at a time", FIXED, STORIES),), batches=BATCHES,
        ),
        Experiment(
            "generations", "Block drafters", NEWER, f"A block in one pass beats token by token (each drafts {K})",
            (
                Plan("block head", f"block:k={K}", STORIES), Plan("EAGLE-3 head", f"eagle:k={K}", STORIES),
                Plan("Medusa heads", f"medusa:k={K}", STORIES), Plan("draft model", FIXED, STORIES),
            ),
        ),
    )
}  # fmt: skip


def choose(names: str) -> list[Experiment]:
    """The experiments of "id,id", or every one for "all"; a `SettingsError` lists them."""
    wanted = list(EXPERIMENTS) if names == "all" else [name.strip() for name in names.split(",")]
    for name in wanted:
        if name not in EXPERIMENTS:
            raise SettingsError("experiment", name, f"choose from all, {', '.join(EXPERIMENTS)}.")
    return [EXPERIMENTS[name] for name in wanted]
