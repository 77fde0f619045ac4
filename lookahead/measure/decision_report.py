"""What "Should I turn it on?" found, to take away: Markdown to read, CSV to compute with.

Knows the document of `decision`. It does not know how it was measured.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from ..core.numbers import decimal, percent, ranged, ratio
from ..core.text_files import csv_text
from .tables import markdown_table

UNKNOWN = "\u2013"
COLUMNS = (
    "method", "question", "category", "speedup", "low", "high", "new_tokens", "tokens_per_pass", "acceptance",
    "drafted_per_pass", "pass_cost", "verify_cost", "draft_cost", "identical",
)  # fmt: skip
SAME = {True: "yes", False: "no", None: "no text"}
LIMITS = {
    "acceptance": "what is accepted", "drafting": "what drafting takes", "verifying": "what verifying takes",
    "cost": "what a pass with its draft takes",
}  # fmt: skip


def reasons(answer: Mapping[str, Any]) -> str:
    """Up to how many texts at once, what limits the winner, and what would have to be otherwise."""
    of, parts = answer["limit"], []
    if answer["at_once"]:
        parts.append(f"Several texts at once: {answer['at_once']}")
    if of:
        parts.append(
            f"It is limited by {LIMITS[of['name']]}: were that perfect, the mean prompt would have {ratio(of['perfect'])} and not "
            f"{ratio(of['now'])}."
        )
    return " ".join([*parts, answer["change"]]).strip()


def method_rows(answer: Mapping[str, Any]) -> tuple[list[str], list[list[str]]]:
    """Heads and rows of a table of the methods, the fastest first, those that were let go last."""
    heads = [
        "method", "speedup", "90% interval", "prompts", "tokens a pass", "accepted", "draft cost", "verify cost",
        "identical",
    ]  # fmt: skip
    rows = [
        [
            of["method"], ratio(of["speedup"]), ranged(of["interval"]), f"{of['prompts']}{', let go' if of['let_go'] else ''}", _known(of["tokens_per_pass"]),
            percent(of["acceptance"]), _known(of["draft_cost"]), _known(of["verify_cost"]), SAME[of["identical"]],
        ]
        for of in answer["methods"]
    ]  # fmt: skip
    return heads, rows


def _known(value: float | None) -> str:
    return UNKNOWN if value is None else decimal(value)


def to_markdown(answer: Mapping[str, Any]) -> str:
    """The answer, why, and the tables."""
    parts = ["# Should I turn it on?", answer["sentence"], reasons(answer), markdown_table(*method_rows(answer))]
    for name, title in (("lengths", "drafted tokens"), ("levels", "texts at once")):
        if answer[name]:
            rows = [
                [str(one.get("k", one.get("at_once"))), ratio(one["speedup"]), ranged(one["interval"])]
                for one in answer[name]
            ]
            note = "predicted from runs with 1 and 8" if name == "lengths" else "measured"
            parts.append(markdown_table([title, f"speedup, {note}", "90% interval"], rows))
    parts.append(f"{_where(answer)}; {answer['note']}.")
    return "\n\n".join(parts) + "\n"


def _where(answer: Mapping[str, Any]) -> str:
    """What it was measured on."""
    if "servers" in answer:
        return "; ".join(f"{side}: {of['name']}, {of['kind']}, {of['model']}" for side, of in answer["servers"].items())
    machine = answer["machine"]
    return f"{machine['cpu']}, {machine['cores']} cores, {machine['dtype']}, {answer['exactness']}"


def to_csv(answer: Mapping[str, Any]) -> str:
    """A row for every method and prompt (RFC 4180)."""
    return csv_text(COLUMNS, ([row.get(name) for name in COLUMNS] for row in answer["rows"]))
