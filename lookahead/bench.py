"""Measured tables: every method on every prompt, one lane at a time, against naive.

Lanes run as `timing.py` runs them, and the median counts.

Knows timings and tables. It does not know the page.
"""

from __future__ import annotations

import json
import statistics
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import Any

from .events import SettingsError
from .models import Models
from .race import describe_machine
from .scenarios import BENCH
from .timing import Question, Sample, Timing, blocks, middle, paired, read_entry, samples, token_s

MARKS = ("<!-- bench -->", "<!-- /bench -->")
FIXED = (1, 2, 3, 4, 6, 8, 12, 16)  # draft lengths that `auto` is compared with
PEERS = (
    "hf-generate:attention=sdpa", "hf-assisted:attention=sdpa", *(f"hf-assisted:attention=sdpa,k={k}" for k in (3, 5, 8, 20)),
    *(f"hf-lookup:attention=sdpa,k={k}" for k in (3, 5, 10)),
)  # fmt: skip
LOST = ("lost_to_passes", "lost_to_drafting", "lost_to_engine")  # where a lane's time goes that theory does not know of
RIVALS = {"naive": "hf-generate", "draft": "hf-assisted", "ngram": "hf-lookup", "suffix": "hf-lookup"}
Progress = Callable[[int, int, str], None]


def default_questions() -> list[Question]:
    """The bundled prompts."""
    return [Question(s.id, s.category, s.prompt, s.chat, s.options) for s in BENCH]


def read_questions(path: str) -> list[Question]:
    """JSON lines `{"id", "category", "prompt", "chat"}`, or Spec-Bench's `{"question_id", "category", "turns"}`.

    Of several turns the first is asked. `SettingsError` names the line that is off.
    """
    try:
        lines = Path(path).read_text(encoding="utf-8").splitlines()
    except (OSError, UnicodeDecodeError) as error:
        raise SettingsError("prompts", path, f"it cannot be read as UTF-8 text ({error.__class__.__name__}).") from None
    questions = []
    for number, line in enumerate(lines, start=1):
        if not line.strip():
            continue
        try:
            data = json.loads(line)
            asked = "turns" in data and "prompt" not in data
            question = Question(
                str(data.get("question_id" if asked else "id", number)),
                str(data.get("category", "all")),
                data["turns"][0] if asked else data["prompt"],
                data.get("chat", asked),
                {},
            )
            if not isinstance(question.prompt, str) or not isinstance(question.chat, bool):
                raise TypeError
        except (ValueError, TypeError, LookupError, AttributeError, RecursionError):
            mend = 'each line must be {"id": ..., "category": ..., "prompt": "text", "chat": true or false}.'
            raise SettingsError("prompts", f"{path}:{number}", mend) from None
        questions.append(question)
    if not questions:
        raise SettingsError("prompts", path, "it holds no prompt.")
    return questions


def run(
    models: Models,
    methods: Sequence[str],
    questions: Iterable[Question],
    *,
    repeat: int = 3,
    progress: Progress | None = None,
    **options: Any,
) -> dict[str, Any]:
    """Every method on every question: the document that `bench --json` prints."""
    questions = list(questions)
    entries = [read_entry("naive"), *(read_entry(m) for m in dict.fromkeys(methods) if m != "naive")]
    taken: list[list[Sample]] = [[] for _ in questions]
    total = len(questions) * sum(map(len, blocks(entries))) * repeat
    for done, sample in enumerate(samples(models, entries, questions, repeat, options), start=1):
        taken[sample.number].append(sample)
        if progress:
            progress(done, total, f"{sample.question.id}: {sample.entry.label}")
    rows = [_row(q, e.label, paired(held, e.label)) for q, held in zip(questions, taken, strict=True) for e in entries]
    ordered = [entry.label for entry in entries]
    return {
        "machine": describe_machine(models).model_dump(),
        "models": {"spec": models.spec, **models.names},
        "exactness": models.exactness,
        "options": {"repeat": repeat, **options},
        "note": "seconds exclude reading the prompt, for every method alike; every run beside a naive one; medians over the repetitions",
        "rows": rows,
        "summary": _summary(rows, ordered),
        "against": _against(rows),
        "fixed": _fixed(rows),
    }


def markdown(report: dict[str, Any]) -> str:
    """The summary as a Markdown table, with what it was measured on."""
    machine, summary = report["machine"], report["summary"]
    categories = list(dict.fromkeys(s["category"] for s in summary if s["category"] != "all"))
    prompts = {s["category"]: s["prompts"] for s in summary}
    heads = [f"{c} ({prompts[c]})" for c in categories]
    lines = [
        f"| method | {' | '.join(heads)} | all, worst to best | tokens/s | tokens a pass | of predicted | overhead | naive's ids |",
        "|---" * (len(categories) + 7) + "|",
    ]
    for method in dict.fromkeys(s["method"] for s in summary):
        if method in PEERS or ":k=" in method:  # these stand in the tables below
            continue
        of = {s["category"]: s for s in summary if s["method"] == method}
        whole = of["all"]
        speedups = [f"{of[c]['speedup_median']:.2f}x" for c in categories]
        spread = f"{whole['speedup_min']:.2f}x to {whole['speedup_max']:.2f}x"
        lines.append(
            f"| `{method}` | {' | '.join(speedups)} | {spread} | {whole['tokens_per_second_median']:.0f} "
            f"| {whole['mean_acceptance_length']:.2f} | {share(whole['of_predicted'])} "
            f"| {share(whole['overhead_fraction'])} | {whole['identical_share']:.0%} |"
        )
    lines += [
        "",
        "| method | of predicted, mean of the prompts | the rest: passes dearer than calibrated | drafting dearer | the engine |",
        "|---|---|---|---|---|",
    ]
    for s in summary:
        known = s["of_predicted_mean"] is not None and s["method"] != "naive" and ":k=" not in s["method"]
        if s["category"] == "all" and known:
            shares = (f"{s[name]:.1%}" for name in ("of_predicted_mean", *LOST))
            lines.append(f"| `{s['method']}` | {' | '.join(shares)} |")
    if report["against"]:
        lines += [
            "",
            "| ours | transformers', the best of its settings for every prompt | tokens/s, ours to theirs | worst to best | their ids are naive's |",
            "|---|---|---|---|---|",
        ]
        for a in report["against"]:
            lines.append(
                f"| `{a['method']}` | `{a['rival']}`, {a['settings']} setting{'s' if a['settings'] > 1 else ''} | {a['ratio_median']:.2f} "
                f"| {a['ratio_min']:.2f} to {a['ratio_max']:.2f} | {a['rival_identical_share']:.0%} |"
            )
    if report["fixed"]:
        lines += [
            "",
            "| method | `auto`, mean speedup | best fixed k, mean speedup | `auto` to the best k of every single prompt | worst |",
            "|---|---|---|---|---|",
        ]
        for f in report["fixed"]:
            lines.append(
                f"| `{f['method']}` | {f['auto_speedup']:.2f}x | k = {f['best_fixed']}: {f['best_fixed_speedup']:.2f}x "
                f"| {f['of_oracle_median']:.2f} | {f['of_oracle_min']:.2f} |"
            )
    lines += [
        "",
        f"{machine['cpu']}, {machine['cores']} cores, {machine['dtype']}, {report['exactness']}; {report['note']}.",
    ]
    return "\n".join(lines)


def share(value: float | None) -> str:
    """A share as a percentage, or a dash where it cannot be known."""
    return "-" if value is None else f"{value:.0%}"


def update(path: str, report: dict[str, Any]) -> None:
    """Replace what stands between the bench markers of a Markdown file."""
    replace_between(path, MARKS, markdown(report))


def replace_between(path: str, marks: tuple[str, str], new: str) -> None:
    """Replace what stands between two markers of a text file."""
    before, after = between(path, marks)
    Path(path).write_text(f"{before}\n{new}\n{after}", encoding="utf-8")


def between(path: str, marks: tuple[str, str]) -> tuple[str, str]:
    """What stands before and after the place between two markers of a file, or a `SettingsError`."""
    try:
        text = Path(path).read_text(encoding="utf-8")
        start, stop = text.index(marks[0]) + len(marks[0]), text.index(marks[1])
    except (OSError, ValueError):
        raise SettingsError("update", path, f"give a file that holds {marks[0]} and {marks[1]}.") from None
    return text[:start], text[stop:]


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
        "identical": all(t.tokens == naive[0].tokens for t in runs),
        "overhead_fraction": None if first.overhead is None else statistics.median(t.overhead for t in runs),
        **_theory(runs, naive),
    }


def _theory(runs: Sequence[Timing], naive: Sequence[Timing]) -> dict[str, float | None]:
    """The speedup that theory predicts, and what the lane's time went to beyond it, as shares of that time.

    Theory knows models' passes only, and naive is one a token. What naive takes beyond its own prediction, in passes
    and outside them, is every lane's share; what is left and the measured share of the prediction make 1.
    """
    if runs[0].predicted_s is None:
        return dict.fromkeys(("predicted_speedup", *LOST))
    verify_s, propose_s, rest_s, passes_s, drafts_s = _spent(runs)
    naive_verify_s, naive_propose_s, naive_rest_s, plain_s, _ = _spent(naive)
    seconds, predicted_s, dearer = verify_s + propose_s + rest_s, passes_s + drafts_s, naive_verify_s / plain_s
    expected = (
        passes_s * dearer,
        drafts_s * dearer + predicted_s * naive_propose_s / plain_s,
        predicted_s * naive_rest_s / plain_s,
    )
    lost = ((s - e) / seconds for s, e in zip((verify_s, propose_s, rest_s), expected, strict=True))
    speedup = plain_s / len(naive[0].tokens) * len(runs[0].tokens) / predicted_s
    return {"predicted_speedup": speedup, **dict(zip(LOST, lost, strict=True))}


def _spent(runs: Sequence[Timing]) -> list[float]:
    """Seconds of the median run, or of the two around it: passes, drafting, the rest; and the first two as predicted."""
    parts = (
        (t.verify_s, t.propose_s, t.seconds - t.verify_s - t.propose_s, t.predicted_verify_s, t.predicted_propose_s)
        for t in middle(runs)
    )
    return [statistics.mean(part) for part in zip(*parts, strict=True)]


def _summary(rows: list[dict[str, Any]], methods: Sequence[str]) -> list[dict[str, Any]]:
    """One line for each method and category, and one over all categories."""
    out = []
    for method in methods:
        mine = [row for row in rows if row["method"] == method]
        for category in [*dict.fromkeys(row["category"] for row in mine), "all"]:
            part = [row for row in mine if category in (row["category"], "all")]
            of_predicted = [row["speedup"] / row["predicted_speedup"] for row in part if row["predicted_speedup"]]
            out.append(
                {
                    "method": method,
                    "category": category,
                    "prompts": len(part),
                    "speedup_median": statistics.median(row["speedup"] for row in part),
                    "speedup_min": min(row["speedup"] for row in part),
                    "speedup_max": max(row["speedup"] for row in part),
                    "tokens_per_second_median": statistics.median(row["tokens_per_second"] for row in part),
                    "mean_acceptance_length": statistics.mean(row["mean_acceptance_length"] for row in part),
                    "identical_share": statistics.mean(row["identical"] for row in part),
                    "of_predicted": _median(of_predicted),
                    "overhead_fraction": _median(
                        row["overhead_fraction"] for row in part if row["overhead_fraction"] is not None
                    ),
                    # Means, for these four make 1.
                    "of_predicted_mean": statistics.mean(of_predicted) if of_predicted else None,
                    **{name: statistics.mean(r[name] for r in part) if of_predicted else None for name in LOST},
                }
            )
    return out


def _best(rows: Iterable[dict[str, Any]]) -> dict[str, dict[str, Any]]:
    """Of several methods' rows, the fastest for every prompt."""
    out: dict[str, dict[str, Any]] = {}
    for row in rows:
        if row["id"] not in out or row["speedup"] > out[row["id"]]["speedup"]:
            out[row["id"]] = row
    return out


def _ratios(ours: Sequence[dict[str, Any]], best: dict[str, dict[str, Any]]) -> list[float]:
    """Tokens a second to tokens a second, each in units of the naive run beside it."""
    return [row["speedup"] / best[row["id"]]["speedup"] for row in ours if row["id"] in best]


def _against(rows: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Our methods against transformers' own, with its best settings for every single prompt."""
    out = []
    for method, rival in RIVALS.items():
        best = _best(row for row in rows if row["method"].partition(":")[0] == rival)
        if ratios := _ratios([row for row in rows if row["method"] == method], best):
            names = {row["method"] for row in rows if row["method"].partition(":")[0] == rival}
            out.append(
                {
                    "method": method, "rival": rival, "settings": len(names), "ratio_median": statistics.median(ratios),
                    "ratio_min": min(ratios), "ratio_max": max(ratios),
                    "rival_identical_share": statistics.mean(row["identical"] for row in rows if row["method"] in names),
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
        mine = [row for row in rows if row["method"] == method]
        by_length = {name: statistics.mean(row["speedup"] for row in rows if row["method"] == name) for name in lengths}
        winner = max(by_length, key=by_length.get)
        oracle = _best(row for row in rows if row["method"] in lengths)
        out.append(
            {
                "method": method, "best_fixed": int(winner.rpartition("=")[2]), "best_fixed_speedup": by_length[winner],
                "auto_speedup": statistics.mean(row["speedup"] for row in mine),
                "of_oracle_median": statistics.median(_ratios(mine, oracle)), "of_oracle_min": min(_ratios(mine, oracle)),
            }
        )  # fmt: skip
    return out


def _median(values: Iterable[float]) -> float | None:
    held = list(values)
    return statistics.median(held) if held else None
