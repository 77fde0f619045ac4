"""Measured tables: every method on every prompt, one lane at a time, against naive.

Lanes run as `timing.py` runs them, and the median counts.

Knows timings and tables. It does not know the page.
"""

from __future__ import annotations

import statistics
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from itertools import chain
from typing import Any, Protocol

from ..core.numbers import counted, decimal, percent, ranged, ratio
from ..drafting import DRAFTERS
from ..family.models import Models
from ..race.external import EXTERNAL
from ..trace.race import measured_on
from .intervals import interval
from .scenarios import USUAL
from .tables import markdown_table, measured_where
from .timing import Question, Sample, Timing, blocks, middle, paired, predicted, read_entry, samples, token_s

FIXED = (1, 2, 3, 4, 6, 8, 12, 16, 24, 32, 48)  # draft lengths that `auto` is compared with
PEERS = tuple(f"{name}:{settings}" for name, peer in EXTERNAL.items() for settings in peer.bench_settings)
LOST = ("lost_to_passes", "lost_to_drafting", "lost_to_engine")  # where a lane's time goes beyond what theory predicts
ENGINES = ("vllm", "llama.cpp")  # without speculation
Progress = Callable[[int, int, str], None]


class Rival(Protocol):
    """Another engine, which writes texts of its own. `servers.engines.Engine` is one."""

    label: str
    technique: str  # of `drafting.base`

    def samples(
        self, models: Models, questions: Sequence[tuple[int, Question]], repeat: int, options: Mapping[str, Any], block: int
    ) -> Iterator[Sample]:  # fmt: skip
        """Time every question, given with its number, `repeat` times, each time with a naive lane of ours in the same block."""


def marks(spec: str) -> tuple[str, str]:
    """Between what a family's table stands in a file."""
    name = "bench" if spec == USUAL else f"bench {spec}"
    return f"<!-- {name} -->", f"<!-- /{name} -->"


def run(
    models: Models,
    methods: Sequence[str],
    questions: Iterable[Question],
    *,
    repeat: int = 3,
    progress: Progress | None = None,
    others: Sequence[Rival] = (),
    **options: Any,
) -> dict[str, Any]:
    """Every method on every question, and other engines beside naive: the document that `bench --json` prints."""
    questions = list(questions)
    entries = [read_entry("naive"), *(read_entry(m) for m in dict.fromkeys(methods) if m != "naive")]
    taken: list[list[Sample]] = [[] for _ in questions]
    lanes = len(questions) * sum(map(len, blocks(entries)))
    greedy = [(n, q) for n, q in enumerate(questions) if not {**options, **q.settings}.get("temperature")]
    total = repeat * (lanes + 2 * len(greedy) * len(others))
    work = chain(
        samples(models, entries, questions, repeat, options),
        *(other.samples(models, greedy, repeat, options, -number) for number, other in enumerate(others, start=1)),
    )
    for done, sample in enumerate(work, start=1):
        taken[sample.number].append(sample)
        if progress:
            progress(done, total, f"{sample.question.id}: {sample.entry.label}")
    ordered = [*(entry.label for entry in entries), *(other.label for other in others)]
    pairs = [(q, m, paired(runs, m)) for q, runs in zip(questions, taken, strict=True) for m in ordered]
    of_others = {other.label.partition(":")[0]: other.technique for other in others}
    rows = [_row(q, label, timings) for q, label, timings in pairs if timings]
    return {
        **measured_on(models),
        "options": {"repeat": repeat, **options},
        "note": "seconds exclude reading the prompt, for every method alike; every run beside a naive one; medians over the repetitions; 90% intervals over prompts",
        "rows": rows,
        "summary": _summary(rows, ordered),
        "against": _against(rows, {name: peer.technique for name, peer in EXTERNAL.items()} | of_others),
        "fixed": _fixed(rows),
    }


def markdown(report: dict[str, Any]) -> str:
    """The summary as Markdown tables, with what it was measured on."""
    parts = [_speedups(report["summary"]), _shares(report["summary"])]
    if report["against"]:
        parts.append(_peers(report["against"]))
    if report["fixed"]:
        parts.append(_lengths(report["fixed"]))
    end = f"{measured_where(report)}; {report['note']}."
    return "\n\n".join([*parts, end])


def _aside(method: str) -> bool:
    """Whether it stands in a table of its own: other engines, settings of transformers', fixed draft lengths."""
    return method in PEERS or ":k=" in method or method in ENGINES


def _speedups(summary: Sequence[dict[str, Any]]) -> str:
    """Every method's speedup in each category. Peers and fixed draft lengths have tables of their own."""
    categories = {s["category"]: s["prompts"] for s in summary if s["category"] != "all"}
    head = [
        "method", *(f"{category} ({prompts})" for category, prompts in categories.items()), "all, worst to best",
        "median", "90% interval", "tokens/s", "tokens a pass", "of predicted", "overhead", "naive's ids",
    ]  # fmt: skip
    rows = []
    for method in dict.fromkeys(s["method"] for s in summary):
        if _aside(method):
            continue
        of = {s["category"]: s for s in summary if s["method"] == method}
        whole = of["all"]
        rows.append([
            f"`{method}`", *(ratio(of[category]["speedup_median"]) for category in categories),
            f"{ratio(whole['speedup_min'])} to {ratio(whole['speedup_max'])}", ratio(whole["speedup_median"]),
            ranged(whole["speedup_interval"]), decimal(whole["tokens_per_second_median"]),
            decimal(whole["mean_acceptance_length"]), percent(whole["of_predicted"]), percent(whole["overhead_fraction"]),
            percent(whole["identical_share"]),
        ])  # fmt: skip
    return markdown_table(head, rows)


def _shares(summary: Sequence[dict[str, Any]]) -> str:
    """What became of a lane's time that theory does not predict."""
    known = [s for s in summary if s["category"] == "all" and s["of_predicted_mean"] is not None]
    rows = [
        [f"`{s['method']}`", *(percent(s[name], 1) for name in ("of_predicted_mean", *LOST))]
        for s in known
        if s["method"] != "naive" and not _aside(s["method"])
    ]
    passes, drafting = "the rest: passes dearer than calibrated", "drafting dearer"
    return markdown_table(["method", "of predicted, mean of the prompts", passes, drafting, "the engine"], rows)


def _peers(against: Sequence[dict[str, Any]]) -> str:
    """Our methods beside those of transformers and other engines."""
    head = [
        "ours", "theirs, the best of its settings for every prompt", "tokens/s, ours to theirs", "worst to best",
        "their ids are naive's",
    ]  # fmt: skip
    rows = [
        [
            f"`{a['method']}`", f"`{a['rival']}`, {counted(a['settings'], 'setting')}", decimal(a["ratio_median"]),
            f"{decimal(a['ratio_min'])} to {decimal(a['ratio_max'])}", percent(a["rival_identical_share"]),
        ]
        for a in against
    ]  # fmt: skip
    return markdown_table(head, rows)


def _lengths(fixed: Sequence[dict[str, Any]]) -> str:
    """`auto` beside fixed draft lengths."""
    head = [
        "method", "`auto`, mean speedup", "best fixed k, mean speedup", "`auto` to the best k of every single prompt", "worst",
    ]  # fmt: skip
    rows = [
        [
            f"`{f['method']}`", ratio(f["auto_speedup"]), f"k = {f['best_fixed']}: {ratio(f['best_fixed_speedup'])}",
            decimal(f["of_oracle_median"]), decimal(f["of_oracle_min"]),
        ]
        for f in fixed
    ]  # fmt: skip
    return markdown_table(head, rows)


def _row(q: Question, method: str, timings: Sequence[tuple[Timing, Timing]]) -> dict[str, Any]:
    runs, naive = zip(*timings, strict=True)
    seconds = statistics.median(t.seconds for t in runs)
    naive_seconds = statistics.median(t.seconds for t in naive)
    first, shown = runs[0], middle(runs)
    accepted, drafted = (sum(getattr(t, name) for t in shown) for name in ("accepted", "drafted"))
    return {
        "id": q.id,
        "category": q.category,
        "method": method,
        "new_tokens": len(first.tokens),
        "seconds": seconds,
        "seconds_min": min(t.seconds for t in runs),
        "seconds_max": max(t.seconds for t in runs),
        "naive_seconds": naive_seconds,
        "tokens_per_second": len(first.tokens) / seconds,
        "speedup": token_s(naive) / token_s(runs),
        "mean_acceptance_length": 1 + accepted / sum(t.passes for t in shown),
        "draft_acceptance_rate": accepted / drafted if drafted else None,
        "acceptance_rate_per_position": list(shown[0].acceptance.rates),
        "identical": all(t.tokens == naive[0].tokens for t in runs),
        "overhead_fraction": None if first.overhead is None else statistics.median(t.overhead for t in runs),
        **_theory(runs, naive),
    }


def _theory(runs: Sequence[Timing], naive: Sequence[Timing]) -> dict[str, float | None]:
    """The speedup that theory predicts, and what the lane's time went to beyond it, as shares of that time.

    Theory knows models' passes only, and naive is one a token. What naive takes beyond its own prediction, in passes
    and outside them, is every lane's share; what is left and the measured share of the prediction make 1.
    """
    priced, naive_priced = predicted(runs), predicted(naive)
    if priced is None or naive_priced is None:
        return dict.fromkeys(("predicted_speedup", *LOST))
    spent, (naive_verify_s, naive_propose_s, naive_rest_s) = _spent(runs), _spent(naive)
    plain_s = naive_priced.seconds
    dearer = naive_verify_s / plain_s
    expected = (
        priced.verify_s * dearer,
        priced.draft_s * dearer + priced.seconds * naive_propose_s / plain_s,
        priced.seconds * naive_rest_s / plain_s,
    )
    lost = ((s - e) / sum(spent) for s, e in zip(spent, expected, strict=True))
    return {"predicted_speedup": priced.speedup, **dict(zip(LOST, lost, strict=True))}


def _spent(runs: Sequence[Timing]) -> list[float]:
    """Seconds of the median run, or of the two around it: passes, drafting, the rest."""
    parts = ((t.verify_s, t.propose_s, t.seconds - t.verify_s - t.propose_s) for t in middle(runs))
    return [statistics.mean(part) for part in zip(*parts, strict=True)]


def _summary(rows: list[dict[str, Any]], methods: Sequence[str]) -> list[dict[str, Any]]:
    """One line for each method and category, and one over all categories."""
    out = []
    for method in methods:
        method_rows = [row for row in rows if row["method"] == method]
        for category in [*dict.fromkeys(row["category"] for row in method_rows), "all"]:
            part = [row for row in method_rows if category in (row["category"], "all")]
            speedups = [row["speedup"] for row in part]
            of_predicted = [row["speedup"] / row["predicted_speedup"] for row in part if row["predicted_speedup"]]
            overheads = [row["overhead_fraction"] for row in part if row["overhead_fraction"] is not None]
            out.append(
                {
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
                    "of_predicted": statistics.median(of_predicted) if of_predicted else None,
                    "overhead_fraction": statistics.median(overheads) if overheads else None,
                    # Means, for these four make 1.
                    "of_predicted_mean": statistics.mean(of_predicted) if of_predicted else None,
                    **{name: statistics.mean(r[name] for r in part) if of_predicted else None for name in LOST},
                }
            )
    return out


def _best(rows: Iterable[dict[str, Any]]) -> dict[str, dict[str, Any]]:
    """Of several methods' rows, the fastest for every prompt."""
    return {row["id"]: row for row in sorted(rows, key=lambda row: row["speedup"])}


def _ratios(rows: Sequence[dict[str, Any]], best: dict[str, dict[str, Any]]) -> list[float]:
    """Tokens a second to tokens a second, each in units of the naive run beside it."""
    return [row["speedup"] / best[row["id"]]["speedup"] for row in rows if row["id"] in best]


def _against(rows: list[dict[str, Any]], techniques: Mapping[str, str | None]) -> list[dict[str, Any]]:
    """Our methods against others' of the same technique, each with its best settings for every single prompt.

    `techniques` has those of the others by name.
    """
    out = []
    pairs = (
        (method, rival)
        for rival, technique in techniques.items()
        for method, drafter in DRAFTERS.items()
        if technique and drafter.technique == technique
    )
    for method, rival in pairs:
        rivals = [row for row in rows if row["method"].partition(":")[0] == rival]
        if ratios := _ratios([row for row in rows if row["method"] == method], _best(rivals)):
            out.append(
                {
                    "method": method, "rival": rival, "settings": len({row["method"] for row in rivals}),
                    "ratio_median": statistics.median(ratios), "ratio_min": min(ratios), "ratio_max": max(ratios),
                    "rival_identical_share": statistics.mean(row["identical"] for row in rivals),
                }
            )  # fmt: skip
    return out


def _fixed(rows: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Where fixed draft lengths ran beside `auto`: against the best one over all prompts, and the best of every prompt."""
    out = []
    for method in dict.fromkeys(row["method"] for row in rows):
        lengths = {row["method"] for row in rows if row["method"].startswith(f"{method}:k=")}
        if not lengths:
            continue
        auto = [row for row in rows if row["method"] == method]
        by_length = {name: statistics.mean(row["speedup"] for row in rows if row["method"] == name) for name in lengths}
        winner = max(by_length, key=by_length.get)
        ratios = _ratios(auto, _best(row for row in rows if row["method"] in lengths))
        out.append(
            {
                "method": method, "best_fixed": int(winner.rpartition("=")[2]), "best_fixed_speedup": by_length[winner],
                "auto_speedup": statistics.mean(row["speedup"] for row in auto),
                "of_oracle_median": statistics.median(ratios), "of_oracle_min": min(ratios),
            }
        )  # fmt: skip
    return out
