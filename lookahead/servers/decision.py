"""Whether to turn speculation on, measured on two servers with a user's own prompts and a budget of seconds.

Half of the budget goes to one text at a time, the rest to more texts at once. A server does not report how long it drafted,
so a pass with its draft is one cost.
"""

from collections.abc import Iterator, Mapping, Sequence
from time import perf_counter
from typing import Any

from ..measure.decision import Option, Report, check_budget, levels_of
from ..measure.progress import Progress
from ..measure.timing import Question
from . import report
from .addresses import RemoteError, Server
from .load import Plan

SIZES = (2, 4, 8, 16, 32, 64)
SLICE, MOST = 4, 64  # prompts between two looks at the clock; tokens per text
ALONE = 0.5  # of the budget, for one text at a time


def decide(
    sides: Mapping[str, Server], questions: Sequence[Question], budget_s: float, most: int = MOST
) -> Iterator[Progress | None]:
    """Measure for about `budget_s` seconds, the first few prompts at least, and yield the `Report` so far; None while nothing
    is new. Raises `LookaheadError` for bad prompts and budgets, and for servers that cannot be reached."""
    check_budget(questions, budget_s)
    begun, answered = perf_counter(), False

    def spent() -> float:
        return perf_counter() - begun

    def plan() -> Plan:
        seen = 0
        while seen < len(questions) and (not seen or spent() < ALONE * budget_s):
            first, seen = seen, min(seen + SLICE, len(questions))
            yield 1, range(first, seen)
        for at_once in SIZES:
            yield at_once, range(seen)

    for progress in report.measure(sides, questions, plan(), most):
        if progress and progress.result:
            answered, answer = True, of(progress.result, questions, budget_s)
            yield Progress(round(min(spent(), budget_s)), round(budget_s), progress.text, answer)
        else:
            yield None
        if answered and spent() > budget_s:
            return


def of(measured: Mapping[str, Any], questions: Sequence[Question], budget_s: float) -> Report:
    """The answer that follows from what was measured under load."""
    alone, name = measured["levels"][0], measured["servers"]["speculative"]["name"]
    if not alone["speedup"]:
        raise RemoteError(name, " ".join(alone["errors"]) or "no text was written by both.")
    length, rate = alone["mean_acceptance_length"], alone["draft_acceptance_rate"]
    drafted = (length - 1) / rate if rate else None
    rows = [row for row in measured["rows"] if row["concurrency"] == 1]
    same = [row["identical"] for row in rows if row["identical"] is not None]
    option = Option(
        name, len(rows), alone["speedup"], alone["interval"], rate, all(same) if same else None, tokens_per_pass=length,
        drafted_per_pass=drafted, depth_per_pass=drafted,  # servers do not report depths; by default they draft chains
        pass_cost=length / alone["speedup"] if length else None,
    )  # fmt: skip
    by_prompt = {question.id: question.category for question in questions}
    rows = tuple(
        {
            "method": name, "question": row["id"], "category": by_prompt[row["id"]], "speedup": row["speedup"],
            "tokens_per_pass": row["mean_acceptance_length"], "acceptance": row["draft_acceptance_rate"], "identical": row["identical"],
        }
        for row in rows
    )  # fmt: skip
    settings = {"seconds": budget_s, "max_new_tokens": measured["options"]["max_new_tokens"]}
    return Report(
        (option,), tuple(levels_of(measured["levels"], "concurrency")), (), rows, {"servers": measured["servers"]}, settings,
        ", as it drafts now", measured["note"],
    )  # fmt: skip
