"""Experiments that test common claims about speculative decoding: its speedups, and when it helps most and least.

The first arm of an experiment tests the claim. The other arms are for comparison.
"""

import re
import statistics
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from math import inf
from typing import Any

from ..core.events import SettingsError
from ..core.numbers import counted, ranged, ratio
from ..engine.methods import needed_by
from ..family.models import Models
from ..trace.race import measured_on
from . import batches
from .decision import Level, levels_of, texts_at_once
from .intervals import interval
from .progress import LENGTH, Arm, Plan, Progress, explain_difference, explain_speedup, measure
from .tables import Table
from .timing import read_entry

TABLE, HELPS, HURTS = "performance expectations", "when most effective", "when least effective"
NEWER = "generations of drafters"
SHORT, LONG = 12, 192  # tokens
K = 4
BATCHES = (1, 4, 16, 64)  # texts at once
CLAIMED, NOT, UNSURE = "as claimed", "not as claimed", "inconclusive"


@dataclass(frozen=True, slots=True)
class Experiment:
    """A claim of the list `group`, and the runs that test it.

    `low` and `high` are the claimed speedups, None if the claim has no numbers. `batches` are batch sizes, which are measured
    with the first plan's method.
    """

    id: str
    title: str
    group: str
    claim: str
    plans: tuple[Plan, ...]
    low: float | None = None
    high: float | None = None
    batches: tuple[int, ...] = ()

    @property
    def claimed(self) -> str:
        """The claim in the form that follows its title."""
        if self.group in (TABLE, NEWER):
            return self.claim
        why = re.search(r"\((.*?)\)", self.claim)
        return ("to help less" if self.group == HURTS else "to help") + (f": {why[1]}" if why else "")

    def listing(self) -> dict[str, Any]:
        fields = {name: getattr(self, name) for name in ("id", "title", "group", "claim", "claimed")}
        return {**fields, "runs": [f"{plan.method}: {plan.label}" for plan in self.plans]}

    def missing(self, models: Models) -> list[str]:
        """Return the draft models and trained heads that the experiment needs and the family does not have."""
        entries = [read_entry(plan.method) for plan in self.plans]
        needed = {entry.options.get("draft", needed_by(entry.method)) for entry in entries}
        return sorted(needed - {None, *models.drafts, *models.heads})

    def run(
        self, models: Models, repeats: int = 3, *, prompts: int | None = None, tokens: int | None = None
    ) -> Iterator[Progress | None]:
        """Run the experiment; yields the `Result` so far, and None after runs without a new result.

        `prompts` limits the number of prompts of an arm, `tokens` the length of their texts.
        """
        result = Result(self, tuple(plan.arm(()) for plan in self.plans))
        arms, done = [(plan.method, plan.questions(prompts, tokens)) for plan in self.plans], 0
        for update in measure(models, arms, repeats):
            if update:
                measured = (plan.arm(samples) for plan, samples in zip(self.plans, update.result, strict=True))
                result, done = replace(result, arms=tuple(measured)), update.done
            yield update and replace(update, result=result)
        for update in batches.measure(models, arms[0][1], [arms[0][0]], self.batches) if self.batches else ():
            if update is None:
                yield None
                continue
            levels = tuple(levels_of(update.result["rows"]))
            yield Progress(done + update.done, done + update.total, update.text, replace(result, batches=levels))


@dataclass(frozen=True, slots=True)
class Result:
    """The measurements of an experiment so far. The first arm tests the claim."""

    experiment: Experiment
    arms: tuple[Arm, ...]
    batches: tuple[Level, ...] = ()

    @property
    def measured(self) -> Arm:
        """The arm that tests the claim: the first, or the largest batch if the claim is about batches."""
        method = self.arms[0].method
        if not self.experiment.batches:
            return self.arms[0]
        if not self.batches:
            return Arm("many texts at once", method)
        last = self.batches[-1]
        return Arm(f"{last.at_once} texts at once", method, (), last.speedup, *(last.interval or (last.speedup,) * 2))

    @property
    def interval(self) -> tuple[float, float] | None:
        """The 90% interval of the measured median, over prompts or groups of prompts; None for fewer than two."""
        return self.batches[-1].interval if self.batches else self.measured.interval

    @property
    def between(self) -> tuple[float | None, float | None]:
        """The interval; for one prompt, the extremes of its repetitions."""
        return self.interval or (self.measured.low, self.measured.high)

    @property
    def compared(self) -> Arm | None:
        """The arm for comparison, if the claim has no numbers."""
        if self.experiment.batches:
            return self.arms[0]
        return self.arms[1] if self.experiment.low is None and len(self.arms) > 1 else None

    @property
    def outcome(self) -> str:
        """`CLAIMED` or `NOT` if the 90% interval decides, else `UNSURE`; "" before the measurement."""
        e = self.experiment
        if self.measured.median is None or (self.compared and self.compared.median is None):
            return ""
        if e.low is not None:
            return _decided(self.interval, e.low, e.high)
        ratios = _ratio_interval(self) if self.compared else self.interval
        return _decided(ratios, 0, 1) if e.group == HURTS else _decided(ratios, 1, inf)

    @property
    def why(self) -> str:
        sentences = [explain_speedup(arm) for arm in self.arms if arm.rows]
        if self.compared and self.compared.rows and self.measured.rows:
            sentences.append(explain_difference(self.measured, self.compared))
        if self.batches:
            texts = self.batches[-1].at_once
            rows = f"a pass with {K} drafted tokens per text has {texts * (1 + K)} rows instead of {texts}"
            sentences.append(f"With {counted(texts, 'text')} at once, {rows}. {texts_at_once(self.batches)}")
        return " ".join(sentences)

    def document(self) -> dict[str, Any]:
        arm = self.measured
        return {
            **self.experiment.listing(),
            "measured": arm.label,
            **{name: getattr(arm, name) for name in ("median", "low", "high")},
            "interval": self.interval,
            "compared": self.compared and asdict(self.compared),
            "outcome": self.outcome,
            "why": self.why,
            "arms": [asdict(arm) for arm in self.arms],
            "batches": [level._asdict() for level in self.batches],
        }


def _decided(interval: tuple[float, float] | None, low: float, high: float) -> str:
    if interval is None or interval[0] < low <= interval[1] or interval[0] <= high < interval[1]:
        return UNSURE
    return CLAIMED if low <= interval[0] and interval[1] <= high else NOT


def _ratio_interval(result: Result) -> tuple[float, float] | None:
    """Return the 90% interval of the speedup ratio of both arms.

    It is computed over common prompts. Without any, it is the widest interval that the arms' intervals allow.
    """
    arm, reference = result.measured, result.compared
    speedups = {row.question: row.speedup for row in reference.rows}
    ratios = [row.speedup / speedups[row.question] for row in arm.rows if row.question in speedups]
    paired = interval(ratios, statistics.median)
    if paired or not result.interval or not reference.interval:
        return paired
    return result.interval[0] / reference.interval[1], result.interval[1] / reference.interval[0]


def document(models: Models, results: Sequence[Result], repeat: int) -> dict[str, Any]:
    """Return results as plain data, with the machine and the models: the document of `lab --json`."""
    return {
        **measured_on(models),
        "options": {"repeat": repeat},
        "note": "speedups over naive decoding, without prefill on both sides; medians over prompts; extremes over all prompts and repetitions",
        "experiments": [result.document() for result in results],
    }


def tables(report: Mapping[str, Any]) -> list[Table]:
    """Return a table for each list of claims."""
    groups: dict[str, list[list[str]]] = {}
    for experiment in report["experiments"]:
        groups.setdefault(experiment["group"], []).append(_cells(experiment))
    heads = ["claimed", "measured here", "90% interval", "lowest to highest", "compared with", "result"]
    return [([group, *heads], rows) for group, rows in groups.items()]


def _cells(experiment: Mapping[str, Any]) -> list[str]:
    if experiment["median"] is None:
        return [experiment["title"], experiment["claimed"], "not measured", "", "", "", ""]
    compared = experiment["compared"]
    return [
        experiment["title"], experiment["claimed"], f"{experiment['measured']}: {ratio(experiment['median'])}",
        ranged(experiment["interval"]), f"{ratio(experiment['low'])} to {ratio(experiment['high'])}",
        f"{compared['label']}: {ratio(compared['median'])}" if compared and compared["median"] else "",
        experiment["outcome"],
    ]  # fmt: skip


def _of_length(tokens: int) -> Plan:
    return Plan(f"{tokens} tokens", "hybrid", settings={"max_new_tokens": tokens})


FIXED, OTHER = f"draft:k={K}", f"draft:draft=offdomain,k={K}"
EXPERIMENTS: dict[str, Experiment] = {
    e.id: e
    for e in (
        Experiment(
            "good-match", "Good draft model match", TABLE, "2-3×", (Plan("stories, the draft model's domain", "draft"),),
            2.0, 3.0,
        ),
        Experiment(
            "similar-style", "Similar domain/style", TABLE, "2-4×", (Plan("bedtime tales", "draft", ("tale",)),), 2.0, 4.0,
        ),
        Experiment(
            "repetitive", "Repetitive content", TABLE, "3-5× (n-gram)",
            (Plan("records, JSON and copying, n-gram", "ngram", ("repetitive",)), Plan("the same prompts, suffix automaton", "suffix", ("repetitive",))),
            3.0, 5.0,
        ),
        Experiment(
            "different-domain", "Different domain", TABLE, "1.5-2×", (Plan("code and explanations", "draft", ("code", "explain")),),
            1.5, 2.0,
        ),
        Experiment(
            "mismatched", "Mismatched draft", TABLE, "~1× (no benefit)",
            (Plan("a draft model trained without stories", "draft:draft=offdomain"), Plan(f"the same draft model, {K} tokens in every pass", OTHER)),
            0.9, 1.1,
        ),
        Experiment(
            "long-outputs", "Long outputs", HELPS, "Long outputs (more speculation opportunities)",
            (_of_length(LONG), _of_length(SHORT)),
        ),
        Experiment(
            "predictable", "Predictable patterns", HELPS, "Predictable patterns",
            (Plan("records, JSON and copying", "hybrid", ("repetitive",)), Plan("explanations", "hybrid", ("explain",))),
        ),
        Experiment(
            "memory-bound", "Memory-bound inference", HELPS, "Memory-bound inference (spare compute)",
            (Plan("one text at a time", FIXED),),
        ),
        Experiment(
            "alignment", "Good draft model alignment", HELPS, "Good draft model alignment",
            (Plan("an aligned draft model", FIXED), Plan("a draft model of another domain", OTHER)),
        ),
        Experiment("short-outputs", "Short outputs", HURTS, "Short outputs", (_of_length(SHORT), _of_length(LENGTH))),
        Experiment(
            "high-entropy", "High entropy", HURTS, "High entropy (unpredictable) text",
            tuple(Plan(f"temperature {t:g}", FIXED, settings={"temperature": t}) for t in (1.2, 0.0, 0.6)),
        ),
        Experiment(
            "compute-bound", "Compute-bound", HURTS, "Compute-bound scenarios", (Plan("one text at a time", FIXED),),
            batches=BATCHES,
        ),
        Experiment(
            "generations", "Block drafters", NEWER, f"A block in one pass beats token by token (each drafts {K})",
            (
                Plan("block head", f"block:k={K}"), Plan("EAGLE-3 head", f"eagle:k={K}"), Plan("MTP module", f"mtp:k={K}"),
                Plan("Medusa heads", f"medusa:k={K}"), Plan("draft model", FIXED),
            ),
        ),
    )
}  # fmt: skip


def choose(names: str) -> list[Experiment]:
    """Return the experiments with ids in "id,id", or all for "all". Raises a `SettingsError` with all ids."""
    ids = list(EXPERIMENTS) if names == "all" else [name.strip() for name in names.split(",")]
    for id in ids:
        if id not in EXPERIMENTS:
            raise SettingsError("experiment", id, f"choose from all, {', '.join(EXPERIMENTS)}.")
    return [EXPERIMENTS[id] for id in ids]
