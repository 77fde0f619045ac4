"""Measured tables: every method on every prompt, one lane at a time, against naive.

Lanes run alone, after a warm-up, in an order that turns round with every repetition, and the
median counts. `seconds` excludes reading the prompt, on both sides. `overhead_fraction` is the
share of a lane's wall time spent outside model forwards, the drafter's included.

Knows lanes and clocks. It does not know the page.
"""

from __future__ import annotations

import json
import statistics
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from time import perf_counter
from typing import Any

from .events import LookaheadError, Settings, SettingsError
from .lane import Lane
from .models import Models
from .race import describe_machine
from .scenarios import BENCH

MARKS = ("<!-- bench -->", "<!-- /bench -->")
Progress = Callable[[int, int, str], None]


@dataclass(frozen=True, slots=True)
class Question:
    """One prompt of a bench; `settings` differ from the bench's own."""

    id: str
    category: str
    prompt: str
    chat: bool
    settings: dict[str, Any]


@dataclass(frozen=True, slots=True)
class Timing:
    """One lane, run once and alone."""

    tokens: tuple[int, ...]
    seconds: float
    passes: int
    drafted: int
    accepted: int
    overhead: float


def default_questions() -> list[Question]:
    """The bundled prompts."""
    return [Question(s.id, s.category, s.prompt, s.chat, s.options) for s in BENCH]


def read_questions(path: str) -> list[Question]:
    """JSON lines `{"id", "category", "prompt", "chat"}`; `SettingsError` names the line that is off."""
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
            question = Question(
                str(data.get("id", number)),
                str(data.get("category", "all")),
                data["prompt"],
                data.get("chat", False),
                {},
            )
            if not isinstance(question.prompt, str) or not isinstance(question.chat, bool):
                raise TypeError
        except (ValueError, TypeError, KeyError, AttributeError, RecursionError):
            mend = 'each line must be {"id": ..., "category": ..., "prompt": "text", "chat": true or false}.'
            raise SettingsError("prompts", f"{path}:{number}", mend) from None
        questions.append(question)
    if not questions:
        raise SettingsError("prompts", path, "it holds no prompt.")
    return questions


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
        accepted=sum(step.accepted for step in done),
        overhead=1 - (lane.forward_seconds() - inside) / wall,
    )


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
    if isinstance(repeat, bool) or not isinstance(repeat, int) or not 1 <= repeat <= 1000:
        raise SettingsError("repeat", repeat, "give a whole number from 1 to 1,000.")
    questions = list(questions)
    ordered = ["naive", *(m for m in dict.fromkeys(methods) if m != "naive")]

    def lane(method: str, q: Question) -> Lane:
        settings = Settings(**{**options, **q.settings, "chat": q.chat, "details": False})
        return Lane(models, q.prompt, method, settings)

    for q in questions:
        for method in ordered:
            try:
                lane(method, q)  # every error before the first second is spent
            except LookaheadError as error:
                raise type(error)(f"question {q.id!r}, {error.field}", error.value, error.mend) from None
    time_lane(lane("naive", questions[0]))
    rows, done, total = [], 0, len(questions) * len(ordered) * repeat
    for q in questions:
        timings: dict[str, list[Timing]] = {m: [] for m in ordered}
        for method in ordered[1:]:
            time_lane(lane(method, q))  # warm-up
        for turn in range(repeat):
            for method in ordered if turn % 2 == 0 else reversed(ordered):
                timings[method].append(time_lane(lane(method, q)))
                done += 1
                if progress:
                    progress(done, total, f"{q.id}: {method}")
        rows += [_row(q, method, timings) for method in ordered]
    return {
        "machine": describe_machine(models).model_dump(),
        "models": {"spec": models.spec, **models.names},
        "exactness": models.exactness,
        "options": {"repeat": repeat, **options},
        "note": "seconds exclude reading the prompt, for every method alike; medians over the repetitions",
        "rows": rows,
        "summary": _summary(rows, ordered),
    }


def markdown(report: dict[str, Any]) -> str:
    """The summary as a Markdown table, with what it was measured on."""
    machine = report["machine"]
    lines = [
        "| method | prompts | speedup, median | worst to best | tokens/s | tokens a pass | same ids as naive |",
        "|---|---|---|---|---|---|---|",
    ]
    for s in report["summary"]:
        name = f"`{s['method']}`" + ("" if s["category"] == "all" else f", {s['category']}")
        spread = f"{s['speedup_min']:.2f}x to {s['speedup_max']:.2f}x"
        lines.append(
            f"| {name} | {s['prompts']} | {s['speedup_median']:.2f}x | {spread} | {s['tokens_per_second_median']:.0f} "
            f"| {s['mean_acceptance_length']:.2f} | {s['identical_share']:.0%} |"
        )
    lines += [
        "",
        f"{machine['cpu']}, {machine['cores']} cores, {machine['dtype']}, {report['exactness']}; {report['note']}.",
    ]
    return "\n".join(lines)


def update(path: str, report: dict[str, Any]) -> None:
    """Replace what stands between the bench markers of a Markdown file."""
    try:
        text = Path(path).read_text(encoding="utf-8")
        start, stop = text.index(MARKS[0]) + len(MARKS[0]), text.index(MARKS[1])
    except (OSError, ValueError):
        raise SettingsError("update", path, f"give a file that holds {MARKS[0]} and {MARKS[1]}.") from None
    Path(path).write_text(f"{text[:start]}\n{markdown(report)}\n{text[stop:]}", encoding="utf-8")


def _row(q: Question, method: str, timings: dict[str, list[Timing]]) -> dict[str, Any]:
    runs, naive = timings[method], timings["naive"]
    seconds = statistics.median(t.seconds for t in runs)
    naive_seconds = statistics.median(t.seconds for t in naive)
    first = runs[0]
    # The rejection rule writes another text, perhaps of another length: compare time per token.
    speedup = (naive_seconds / len(naive[0].tokens)) / (seconds / len(first.tokens))
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
        "speedup": speedup,
        "mean_acceptance_length": 1 + first.accepted / first.passes,
        "draft_acceptance_rate": first.accepted / first.drafted if first.drafted else None,
        "identical": all(t.tokens == naive[0].tokens for t in runs),
        "overhead_fraction": statistics.median(t.overhead for t in runs),
    }


def _summary(rows: list[dict[str, Any]], methods: Sequence[str]) -> list[dict[str, Any]]:
    """One line for each method and category, and one over all categories."""
    out = []
    for method in methods:
        mine = [row for row in rows if row["method"] == method]
        for category in [*dict.fromkeys(row["category"] for row in mine), "all"]:
            part = [row for row in mine if category in (row["category"], "all")]
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
                    "overhead_fraction": statistics.median(row["overhead_fraction"] for row in part),
                }
            )
    return out
