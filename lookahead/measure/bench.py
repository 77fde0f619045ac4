"""The bench: each method on each prompt, one lane at a time, compared with naive decoding. Results are medians of repetitions."""

import statistics
from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import chain
from typing import Any, Protocol

from ..core.events import SettingsError
from ..core.numbers import counted, decimal, percent, ranged, ratio
from ..drafting import DRAFTERS
from ..engine.external import EXTERNAL
from ..family.models import Models
from ..trace.race import measured_on
from .intervals import interval
from .progress import Progress, row_of
from .tables import Table
from .timing import Question, Sample, blocks, by_question, median_run, read_entry, run_samples

FIXED = (1, 2, 3, 4, 6, 8, 12, 16, 24, 32, 48)  # draft lengths to compare with `auto`
PEERS = tuple(f"{name}:{settings}" for name, peer in EXTERNAL.items() for settings in peer.bench_settings)
ENGINES = ("vllm", "llama.cpp")  # labels of other engines without speculative decoding
Rows = Sequence[Mapping[str, Any]]


class ExternalEngine(Protocol):
    """Another inference engine to compare with, such as `servers.engines.Engine`."""

    label: str
    technique: str  # one of those in `drafting.base`

    def samples(
        self, models: Models, questions: Sequence[tuple[int, Question]], repeat: int, options: Mapping[str, Any]
    ) -> Iterator[Sample]:
        """Yield `repeat` timings of each (number, question), each with one of our naive lanes."""


def measure(
    models: Models, methods: Sequence[str], questions: Sequence[Question], *, repeat: int = 3,
    others: Sequence[ExternalEngine] = (), **options: Any,
) -> Iterator[Progress]:  # fmt: skip
    """Measure methods and other engines; the last result is the document of `bench --json`.

    Raises `LookaheadError` for invalid input before the first measurement.
    """
    if others and any({**options, **q.settings}.get("schema") for q in questions):
        raise SettingsError("schema", "set", "other engines are measured without a schema; remove it, or the engines.")
    entries = [read_entry("naive"), *(read_entry(m) for m in dict.fromkeys(methods) if m != "naive")]
    samples: list[Sample] = []
    lanes = len(questions) * sum(map(len, blocks(entries)))
    greedy = [(n, q) for n, q in enumerate(questions) if not {**options, **q.settings}.get("temperature")]
    total = repeat * (lanes + len(greedy) * len(others))
    external = (other.samples(models, greedy, repeat, options) for other in others)
    for sample in filter(None, chain(run_samples(models, entries, questions, repeat, options), *external)):
        samples.append(sample)
        yield Progress(len(samples), total, f"{sample.question.id}: {sample.entry.label}", None)
    labels = [*(entry.label for entry in entries), *(other.label for other in others)]
    techniques = {name: peer.technique for name, peer in EXTERNAL.items()}
    techniques |= {other.label.partition(":")[0]: other.technique for other in others}
    groups = [group for label in labels for group in by_question(samples, label)]
    rows = [_row(group) for group in sorted(groups, key=lambda group: group[0].number)]
    report = {
        **measured_on(models),
        "options": {"repeat": repeat, **options},
        "note": "seconds exclude prefill (reading the prompt); each run is paired with a naive run; medians over the repetitions; 90% intervals over prompts",
        "rows": rows,
        "summary": [*_summary(rows, labels)],
        "against": [*_against(rows, techniques)],
        "fixed": [*_fixed(rows)],
    }
    yield Progress(total, total, "done", report)


def tables(report: Mapping[str, Any]) -> list[Table]:
    """Return three tables of a report: speedups, other engines, draft lengths. A table may have no rows."""
    compared = {*PEERS, *ENGINES}  # in the second table; fixed draft lengths are in the third
    summary = [line for line in report["summary"] if line["method"] not in compared and ":k=" not in line["method"]]
    return [_speedups(summary), _peers(report["against"]), _lengths(report["fixed"])]


def _speedups(summary: Rows) -> Table:
    categories = {line["category"]: line["prompts"] for line in summary if line["category"] != "all"}
    head = [
        "method", *(f"{category} ({prompts})" for category, prompts in categories.items()), "all, worst to best",
        "median", "90% interval", "tokens/s", "tokens per pass", "measured / predicted", "overhead", "identical",
    ]  # fmt: skip
    rows = []
    for method in dict.fromkeys(line["method"] for line in summary):
        lines = {line["category"]: line for line in summary if line["method"] == method}
        total = lines["all"]
        rows.append([
            f"`{method}`", *(ratio(lines[category]["speedup_median"]) for category in categories),
            f"{ratio(total['speedup_min'])} to {ratio(total['speedup_max'])}", ratio(total["speedup_median"]),
            ranged(total["speedup_interval"]), decimal(total["tokens_per_second_median"]),
            decimal(total["mean_acceptance_length"]), percent(total["of_predicted"]), percent(total["overhead_fraction"]),
            percent(total["identical_share"])
            + (f", {percent(total['changed_share'])} of tokens changed" if total["changed_share"] else ""),
        ])  # fmt: skip
    return head, rows


def _peers(against: Rows) -> Table:
    head = [
        "our method", "other engine, with its best settings for each prompt", "tokens/s, ours / theirs", "worst to best",
        "identical",
    ]  # fmt: skip
    rows = [
        [
            f"`{row['method']}`", f"`{row['rival']}`, {counted(row['settings'], 'setting')}", decimal(row["ratio_median"]),
            f"{decimal(row['ratio_min'])} to {decimal(row['ratio_max'])}", percent(row["rival_identical_share"]),
        ]
        for row in against
    ]  # fmt: skip
    return head, rows


def _lengths(fixed: Rows) -> Table:
    head = [
        "method", "`auto`, mean speedup", "best fixed k, mean speedup", "`auto` / best k of each prompt, median", "worst",
    ]  # fmt: skip
    rows = [
        [
            f"`{row['method']}`", ratio(row["auto_speedup"]),
            f"k = {row['best_fixed']}: {ratio(row['best_fixed_speedup'])}",
            decimal(row["of_oracle_median"]), decimal(row["of_oracle_min"]),
        ]
        for row in fixed
    ]  # fmt: skip
    return head, rows


def _row(samples: Sequence[Sample]) -> dict[str, Any]:
    """Return the report's row for one entry's samples of one question."""
    question, runs = samples[0].question, [sample.timing for sample in samples]
    row, run, naive = row_of(samples), median_run(runs), median_run([sample.naive for sample in samples])
    return {
        "id": question.id,
        "category": question.category,
        "method": samples[0].entry.label,
        "new_tokens": row.new_tokens,
        "seconds": run.seconds,
        "seconds_min": min(t.seconds for t in runs),
        "seconds_max": max(t.seconds for t in runs),
        "naive_seconds": naive.seconds,
        "tokens_per_second": row.new_tokens / run.seconds,
        "speedup": row.speedup,
        "mean_acceptance_length": 1 + run.accepted / run.passes,
        "draft_acceptance_rate": run.accepted / run.drafted if run.drafted else None,
        "acceptance_rate_per_position": list(run.acceptance.rates),
        "identical": row.identical,
        "changed": run.changed,
        "overhead_fraction": run.overhead,
        "predicted_speedup": row.predicted,
    }


def _summary(rows: Rows, methods: Sequence[str]) -> Iterator[dict[str, Any]]:
    """Yield a line for each method and category, and one for each method over all categories."""
    for method in methods:
        method_rows = [row for row in rows if row["method"] == method]
        for category in dict.fromkeys([*(row["category"] for row in method_rows), "all"]):
            part = [row for row in method_rows if category in (row["category"], "all")]
            speedups = [row["speedup"] for row in part]
            yield {
                "method": method,
                "category": category,
                "prompts": len(part),
                "speedup_median": statistics.median(speedups),
                "speedup_interval": interval(speedups, statistics.median),
                "speedup_min": min(speedups),
                "speedup_max": max(speedups),
                "tokens_per_second_median": statistics.median(row["tokens_per_second"] for row in part),
                "mean_acceptance_length": statistics.mean(row["mean_acceptance_length"] for row in part),
                "identical_share": statistics.mean(row["identical"] for row in part),
                "changed_share": statistics.mean(row["changed"] for row in part),
                "of_predicted": _median(r["predicted_speedup"] and r["speedup"] / r["predicted_speedup"] for r in part),
                "overhead_fraction": _median(r["overhead_fraction"] for r in part),
            }


def _median(values: Iterable[float | None]) -> float | None:
    known = [value for value in values if value is not None]
    return statistics.median(known) if known else None


def _ratios(rows: Iterable[Mapping[str, Any]], others: Rows) -> list[float]:
    """Divide each speedup by the best speedup in `others` on the same prompt."""
    best = {row["id"]: row["speedup"] for row in sorted(others, key=lambda row: row["speedup"])}
    return [row["speedup"] / best[row["id"]] for row in rows if row["id"] in best]


def _against(rows: Rows, techniques: Mapping[str, str | None]) -> Iterator[dict[str, Any]]:
    """Compare our methods with other engines' of the same technique, with their best settings for each prompt."""
    for rival, technique in techniques.items():
        others = [row for row in rows if row["method"].partition(":")[0] == rival]
        for method in [name for name, drafter in DRAFTERS.items() if technique and drafter.technique == technique]:
            if ratios := _ratios((row for row in rows if row["method"] == method), others):
                yield {
                    "method": method, "rival": rival, "settings": len({row["method"] for row in others}),
                    "ratio_median": statistics.median(ratios), "ratio_min": min(ratios), "ratio_max": max(ratios),
                    "rival_identical_share": statistics.mean(row["identical"] for row in others),
                }  # fmt: skip


def _fixed(rows: Rows) -> Iterator[dict[str, Any]]:
    """Compare `auto` with the best fixed draft length over all prompts, and with the best for each prompt."""
    for method in dict.fromkeys(row["method"] for row in rows):
        fixed = [row for row in rows if row["method"].startswith(f"{method}:k=")]
        if not fixed:
            continue
        auto = [row for row in rows if row["method"] == method]
        lengths = {row["method"] for row in fixed}
        means = {name: statistics.mean(row["speedup"] for row in fixed if row["method"] == name) for name in lengths}
        best, ratios = max(means, key=means.get), _ratios(auto, fixed)
        yield {
            "method": method, "best_fixed": int(best.rpartition("=")[2]), "best_fixed_speedup": means[best],
            "auto_speedup": statistics.mean(row["speedup"] for row in auto),
            "of_oracle_median": statistics.median(ratios), "of_oracle_min": min(ratios),
        }  # fmt: skip
