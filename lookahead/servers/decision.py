"""Measure whether speculation pays on two servers, with a user's prompts and a time budget.

Half of the budget is for one text at a time, the rest for several texts at once. Servers do not report the time of drafting, so
a pass and its draft have one cost.
"""

from collections.abc import Iterator, Mapping, Sequence
from time import perf_counter
from typing import Any

from ..measure.decision import Option, Report, check_budget, levels_of
from ..measure.progress import Progress
from ..measure.timing import Question
from . import report
from .addresses import RemoteError
from .load import Plan, Sides

SIZES = (2, 4, 8, 16, 32, 64)
SLICE, MAX_TOKENS = 4, 64  # prompts between two checks of the time; tokens per text
ALONE = 0.5  # share of the budget for one text at a time


def decide(
    sides: Sides, questions: Sequence[Question], budget_s: float, most: int = MAX_TOKENS
) -> Iterator[Progress | None]:
    """Measure for about `budget_s` seconds, and yield the `Report` so far, or None while there is no new result.

    The first few prompts are always measured. Raises `LookaheadError` for invalid input or an unreachable server.
    """
    check_budget(questions, budget_s)
    start, has_result = perf_counter(), False

    def spent() -> float:
        return perf_counter() - start

    def plan() -> Plan:
        seen = 0
        while seen < len(questions) and (not seen or spent() < ALONE * budget_s):
            first, seen = seen, min(seen + SLICE, len(questions))
            yield 1, range(first, seen)
        for at_once in SIZES:
            yield at_once, range(seen)

    for progress in report.measure(sides, questions, plan(), most):
        if progress and progress.result:
            has_result, result = True, from_load_report(progress.result, questions, budget_s)
            yield Progress(round(min(spent(), budget_s)), round(budget_s), progress.text, result, "s")
        else:
            yield None
        if has_result and spent() > budget_s:
            return


def from_load_report(measured: Mapping[str, Any], questions: Sequence[Question], budget_s: float) -> Report:
    """Return the decision for a report of `report.from_blocks`. Raises `RemoteError` if no prompt has text from both servers."""
    alone, name = measured["levels"][0], measured["servers"]["speculative"]["name"]
    if not alone["speedup"]:
        raise RemoteError(name, " ".join(alone["errors"]) or "no prompt has text from both servers.")
    length, rate = alone["mean_acceptance_length"], alone["draft_acceptance_rate"]
    drafted = (length - 1) / rate if rate else None
    rows = [row for row in measured["rows"] if row["concurrency"] == 1]
    identical = [row["identical"] for row in rows if row["identical"] is not None]
    option = Option(
        name, len(rows), alone["speedup"], alone["interval"], rate, all(identical) if identical else None, tokens_per_pass=length,
        drafted_per_pass=drafted, depth_per_pass=drafted,  # servers do not report depths; they draft chains by default
        pass_cost=length / alone["speedup"] if length else None,
    )  # fmt: skip
    categories = {question.id: question.category for question in questions}
    rows = tuple({
        "method": name, "question": row["id"], "category": categories[row["id"]], "speedup": row["speedup"],
        "tokens_per_pass": row["mean_acceptance_length"], "acceptance": row["draft_acceptance_rate"], "identical": row["identical"],
    } for row in rows)  # fmt: skip
    settings = {"seconds": budget_s, "max_new_tokens": measured["options"]["max_new_tokens"]}
    return Report(
        (option,), tuple(levels_of(measured["levels"], "concurrency")), (), rows, {"servers": measured["servers"]}, settings,
        ", with its current settings", measured["note"],
    )  # fmt: skip
