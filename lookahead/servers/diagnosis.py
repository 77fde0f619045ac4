"""The report of the doctor: findings, gains by category, load, context and kind of output, the best draft length, and advice."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from datetime import date
from statistics import median
from typing import Any

from ..core.numbers import UNKNOWN, decimal, percent, ranged, ratio
from ..measure.decision import Level, texts_at_once
from ..measure.tables import Table, markdown_table, measured_where
from . import report
from .findings import HEALTHY, PUBLISHED, Finding, Measurements, diagnose, first_position, forecasts, levels
from .load import SIDES
from .probes import SCHEMA
from .replies import Completion

NOTE = (
    "seconds are measured by the client and include the network. Speedups are for complete texts; in long contexts and in reasoning, "
    "they are for the tokens after the first one. Intervals are 90%, by resampling prompts. Predicted speedups assume that the cost "
    "of a pass grows linearly with the draft length, so a fixed cost of speculation makes those of short drafts too high"
)
TITLES = {
    "categories": "Gain by category", "load": "Gain by texts at once", "context": "Gain by context length",
    "output": "Gain with structured output", "reasoning": "Gain in reasoning", "positions": "Acceptance by position",
    "lengths": "Draft length with one text at a time", "questions": "Questions with known answers",
}  # fmt: skip
HEADS = {
    "name": "", "prompts": "prompts", "baseline_tokens_per_second": "tokens/s without", "tokens_per_second": "with",
    "speedup": "speedup", "interval": "90% interval", "mean_acceptance_length": "tokens per pass", "draft_acceptance_rate": "accepted",
    "first_position": "at the first position", "accepted": "accepted", "tested": "tested", "rate": "rate",
    "predicted": "predicted speedup", "trial": "measured speedup", "total": "questions", "baseline": "right without",
    "speculative": "right with", "identical": "same answer",
}  # fmt: skip
FORMATS: dict[str, Callable[[Any], str]] = {
    "baseline_tokens_per_second": decimal, "tokens_per_second": decimal, "speedup": ratio, "interval": ranged,
    "mean_acceptance_length": decimal, "draft_acceptance_rate": percent, "first_position": percent, "rate": percent,
    "predicted": ratio, "trial": ratio,
}  # fmt: skip
ENOUGH_RIGHT = 0.5  # share of the questions that the baseline must answer
TIME_OVER, YET = "the time was over", "not yet"
REASONS = {  # of sections without rows
    "reasoning": "the model streams no reasoning",
    "positions": "the server does not report its drafts",
    "lengths": "the draft length is unknown or varies",
}
Row = dict[str, Any]


@dataclass(frozen=True, slots=True)
class Diagnosis:
    """The report on two servers.

    `sections` have rows by name. `missing` are the reasons why a section has no rows, or only some. `best_k` is the draft length with the highest
    measured or predicted speedup for one text at a time: 0 if none pays, None if it is unknown.
    """

    findings: tuple[Finding, ...]
    sections: Mapping[str, Sequence[Row]]
    missing: Mapping[str, str]
    best_k: int | None
    advice: str
    source: Mapping[str, Any]
    settings: Mapping[str, Any]

    def table(self, name: str) -> Table:
        """Return the table of a section."""
        rows = self.sections[name]
        keys = [key for key in HEADS if any(row.get(key) is not None for row in rows)]
        return [HEADS[key] for key in keys], [[_cell(key, row.get(key)) for key in keys] for row in rows]

    def reason(self, name: str) -> str:
        """Return a sentence on why a section has no rows or only some, "" for a complete one."""
        start, reason = (
            "Further rows were not measured" if name in self.sections else "Not measured",
            self.missing.get(name),
        )
        return f"{start} yet." if reason == YET else f"{start}: {reason}." if reason else ""

    def markdown(self) -> str:
        """Return the report in Markdown. The last paragraph is the advice."""
        parts = ["# Diagnosis of speculation"]
        for finding in self.findings:
            parts += [f"## {finding.severity.capitalize()}: {finding.title}", finding.evidence, finding.fix]
            parts += [f"    {finding.flag}"] if finding.flag else []
        for name, title in TITLES.items():
            parts += [
                f"## {title}",
                markdown_table(*self.table(name)) if name in self.sections else "",
                self.reason(name),
            ]
        parts += ["## Published acceptance at the first position", markdown_table(*published())]
        parts += [f"{measured_where(self.source)}; {NOTE}; measured on {date.today()}.", "## Advice", self.advice]
        return "\n\n".join(filter(None, parts)) + "\n"

    def document(self) -> dict[str, Any]:
        """Return the report as plain data, the document of `doctor --json`."""
        return {
            **self.source, "options": dict(self.settings), "findings": [asdict(finding) for finding in self.findings],
            "sections": {name: [*rows] for name, rows in self.sections.items()}, "missing": dict(self.missing),
            "published": [entry._asdict() for entry in PUBLISHED], "best_k": self.best_k, "note": NOTE, "advice": self.advice,
        }  # fmt: skip


def published() -> Table:
    """Return the table of published acceptance at the first position, with sources."""
    rows = [[entry.drafter, f"{percent(entry.low)} to {percent(entry.high)}", entry.source] for entry in PUBLISHED]
    return ["drafter", "accepted", "source"], rows


def _cell(key: str, value: Any) -> str:
    if value is None:
        return UNKNOWN
    return FORMATS[key](value) if key in FORMATS else str(value)


def from_measurements(
    measured: Measurements, source: Mapping[str, Any], settings: Mapping[str, Any], missing: Mapping[str, str],
    *, complete: bool = True,
) -> Diagnosis:  # fmt: skip
    """Return the report. `missing` has the reasons of incomplete sections. If not `complete`, it is an interim report."""
    gains = levels(measured)
    findings = tuple(diagnose(measured, gains))
    builders = {
        "categories": _categories, "load": _load, "context": _context, "output": _output, "reasoning": _reasoning,
        "positions": _positions, "lengths": _lengths, "questions": _questions,
    }  # fmt: skip
    sections = {name: rows for name, build in builders.items() if (rows := build(measured))}
    missing = {"output": missing.get("questions"), **missing}
    empty = {name: REASONS.get(name, TIME_OVER) if complete else YET for name in TITLES if name not in sections}
    missing = {name: reason for name in TITLES if (reason := missing.get(name) or empty.get(name))}
    best_k = _best_k(sections.get("lengths", ()))
    return Diagnosis(findings, sections, missing, best_k, _advice(gains, findings, sections), source, settings)


def gain_row(name: str, pairs: Sequence[report.Pair], *, without_first: bool = False) -> Row:
    """Return speedup and acceptance over the prompts of both servers."""
    fast = [completion for pair in pairs for completion in pair[1]]
    first = first_position(fast)
    return {
        "name": name, "prompts": len(pairs), **report.rates(pairs), **report.gain(pairs, without_first=without_first),
        **report.acceptance(fast), "first_position": first[0] if first else None,
    }  # fmt: skip


def _categories(measured: Measurements) -> list[Row]:
    names = dict.fromkeys(question.category for question in measured.questions)
    rows = [gain_row(name, pairs) for name in names if (pairs := measured.pairs(1, name))]
    return [*rows, gain_row("all", measured.pairs())] if len(rows) > 1 else rows


def _load(measured: Measurements) -> list[Row]:
    rows = []
    for load in measured.loads:
        speeds = {
            side: [block.tokens_per_second for block in measured.blocks if (block.side, block.at_once) == (side, load)]
            for side in SIDES
        }
        if all(speeds.values()) and (pairs := measured.pairs(load)):
            plain, fast = (median(speeds[side]) for side in SIDES)
            row = gain_row(str(load), pairs)
            rows.append({**row, "baseline_tokens_per_second": plain, "tokens_per_second": fast})
    return rows


def _context(measured: Measurements) -> list[Row]:
    return [gain_row(f"{tokens} tokens", [pair], without_first=True) for tokens, pair in measured.contexts]


def _output(measured: Measurements) -> list[Row]:
    kinds: dict[str, list[report.Pair]] = {"text": [], SCHEMA: []}
    for probe, pair in measured.answers:
        kinds[SCHEMA if probe.question.category == SCHEMA else "text"].append(pair)
    return [gain_row(name, pairs) for name, pairs in kinds.items() if pairs] if kinds[SCHEMA] else []


def _reasoning(measured: Measurements) -> list[Row]:
    rows = []
    for name, is_reasoning in (("reasoning", True), ("answer", False)):
        pairs = [
            [[_part(item, is_reasoning) for item in side] for side in pair]
            for pair in measured.pairs()
            if all(any(part.reasoning for part in item.passes) for side in pair for item in side)
        ]
        rows += [gain_row(name, pairs, without_first=True)] if pairs else []
    return rows


def _part(completion: Completion, is_reasoning: bool) -> Completion:
    """Return the reasoning or the answer of a completion."""
    passes = tuple(part for part in completion.passes if part.reasoning == is_reasoning)
    drafted = [part for part in passes if part.drafted]
    sums = sum(part.drafted for part in drafted), sum(part.accepted for part in drafted), len(drafted)
    return replace(
        completion, passes=passes, tokens=sum(part.tokens for part in passes), counts=sums if drafted else None, histogram=()
    )  # fmt: skip


def _positions(measured: Measurements) -> list[Row]:
    acceptance = report.tested(measured.completions(SIDES[1], 1))
    numbers = zip(acceptance.accepted, acceptance.tested, acceptance.rates, strict=True)
    return [
        {"name": str(position), "accepted": accepted, "tested": tests, "rate": rate}
        for position, (accepted, tests, rate) in enumerate(numbers, start=1)
    ]


def _lengths(measured: Measurements) -> list[Row]:
    predicted = {forecast.k: forecast.speedup for forecast in forecasts(measured.pairs())}
    trials = {k: report.gain(pairs)["speedup"] for k, pairs in measured.trials.items()}
    return [
        {"name": f"k = {k}", "k": k, "predicted": predicted.get(k), "trial": trials.get(k)}
        for k in sorted({*predicted, *trials})
    ]


def _questions(measured: Measurements) -> list[Row]:
    rows = []
    for name in dict.fromkeys(probe.question.category for probe, _ in measured.answers):
        answers = [(probe, pair) for probe, pair in measured.answers if probe.question.category == name]
        right = [[probe.is_correct(side[0].text) for side in pair] for probe, pair in answers]
        same = sum(pair[0][0].text == pair[1][0].text for _, pair in answers)
        plain, fast = map(sum, zip(*right, strict=True))
        rows.append({"name": name, "total": len(right), "baseline": plain, "speculative": fast, "identical": same})
    return rows


def _best_k(rows: Sequence[Row]) -> int | None:
    """Return the length with the highest speedup of the trial, or without a trial of the prediction; 0 if none pays."""
    for key in ("trial", "predicted"):
        known = [row for row in rows if row[key]]
        if known:
            best = max(known, key=lambda row: row[key])
            return best["k"] if best[key] > 1 else 0
    return None


def _advice(gains: Sequence[Level], findings: Sequence[Finding], sections: Mapping[str, Sequence[Row]]) -> str:
    first, parts = findings[0], []
    if first.severity == HEALTHY:
        parts.append("Keep speculation on.")
    else:
        parts.append(f"{first.title} {first.fix} Then run the doctor again.")
    if first.id != "off":
        parts.append(texts_at_once(gains))
    best_k = _best_k(sections.get("lengths", ()))
    if best_k is not None and first.id not in ("off", "broken-drafter"):
        parts.append(
            f"The best draft length for one text is {best_k}." if best_k else "No draft length pays for one text."
        )
    rows = [row for row in sections.get("categories", ()) if row["speedup"] and row["name"] != "all"]
    if len(rows) > 1 and first.id != "off":
        low, high = (choose(rows, key=lambda row: row["speedup"]) for choose in (min, max))
        parts.append(
            f"The gain is {ratio(high['speedup'])} for {high['name']} and {ratio(low['speedup'])} for {low['name']}."
        )
    right, total = (sum(row[key] for row in sections.get("questions", ())) for key in ("baseline", "total"))
    if right < ENOUGH_RIGHT * total:
        parts.append(f"The baseline has only {right} of {total} answers right, so corrupted answers may be missed.")
    return " ".join(parts)
