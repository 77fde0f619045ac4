"""Should I turn it on, on the server that I run? One's own prompts at two servers, and a budget of seconds.

The first half of the budget goes to one text at a time, a few prompts after the other; what is left to ever more texts at
once. A server tells what it accepted and not how long it drafted, so what limits it is what is accepted or what a pass
costs with its draft.

Knows servers, blocks and seconds. It does not know who asks.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from time import perf_counter
from typing import Any

from ..measure import decision
from ..measure.paying import PAYS, Level, advice, crossing
from ..measure.progress import Progress
from ..measure.timing import Question
from . import report
from .addresses import RemoteError, Server
from .background import arriving
from .completion import Known
from .load import Block, blocks

SIZES = (2, 4, 8, 16, 32, 64)
SLICE, MOST = 4, 64  # prompts asked one after the other before the next look at the clock; tokens a text
ALONE = 0.5  # of the budget, for one text at a time


def decide(
    sides: Mapping[str, Server], questions: Sequence[Question], budget_s: float, most: int = MOST
) -> Iterator[Progress | None]:
    """Answer within about so many seconds, once a first few prompts are through; the result so far is a document like that of
    `measure.decision.decide`. None while nothing is new.

    Raises `LookaheadError` for prompts and budgets that make no sense, and for servers that cannot be reached.
    """
    decision.check_budget(questions, budget_s)
    begun = perf_counter()

    def spent() -> float:
        return perf_counter() - begun

    async def work(put: Callable[[Progress], None]) -> None:
        done: list[Block] = []
        known: dict[str, Known] = {}

        async def more(first: int, last: int, at_once: int) -> None:
            nonlocal known
            async for what in blocks(
                *(sides[side] for side in report.SIDES), questions[first:last], [at_once], most, rounds=1
            ):
                if isinstance(what, Block):
                    texts = tuple(replace(text, prompt=first + text.prompt) for text in what.texts)
                    done.append(replace(what, texts=texts))
                else:
                    known = what
            measured = report.of(known, questions[:seen], done, most)
            text = f"{at_once} at once" if at_once > 1 else f"{seen} of {len(questions)} prompts"
            put(Progress(round(min(spent(), budget_s)), round(budget_s), text, document(measured, questions, budget_s)))

        seen = 0
        while seen < len(questions) and (not seen or spent() < ALONE * budget_s):
            first, seen = seen, min(seen + SLICE, len(questions))
            await more(first, seen, 1)
        for at_once in SIZES:
            await more(0, seen, at_once)

    answered = False
    for progress in arriving(work):
        answered = answered or progress is not None
        yield progress
        if answered and spent() > budget_s:
            return


def document(measured: Mapping[str, Any], questions: Sequence[Question], budget_s: float) -> dict[str, Any]:
    """The answer that follows from a report, as plain data."""
    levels = [Level(one["concurrency"], one["speedup"], one["interval"]) for one in measured["levels"]]
    alone = measured["levels"][0]
    if not alone["speedup"]:
        raise RemoteError(
            measured["servers"]["speculative"]["name"], " ".join(alone["errors"]) or "no text was written by both."
        )
    length, rate = alone["mean_acceptance_length"], alone["draft_acceptance_rate"]
    drafted = (length - 1) / rate if rate else None
    rows = [row for row in measured["rows"] if row["concurrency"] == 1]
    same = [row["identical"] for row in rows if row["identical"] is not None]
    winner = {
        "method": measured["servers"]["speculative"]["name"], "prompts": len(rows), "speedup": alone["speedup"],
        "interval": alone["interval"], "acceptance": rate, "identical": all(same) if same else None, "let_go": False,
        "tokens_per_pass": length, "drafted_per_pass": drafted,
        "depth_per_pass": drafted,  # servers do not report depths; they draft chains unless told otherwise
        "pass_cost": length / alone["speedup"] if length else None, "verify_cost": None, "draft_cost": None,
    }  # fmt: skip
    sure = winner["interval"] is None or winner["interval"][0] >= 1
    on = winner["speedup"] >= PAYS and sure
    limit = decision.limits(winner) if rate else None
    by_prompt = {question.id: question.category for question in questions}
    return {
        "servers": measured["servers"], "options": {"seconds": budget_s, "max_new_tokens": measured["options"]["max_new_tokens"]},
        "on": on, "method": winner["method"], "best_fixed_k": None, "up_to": decision.up_to(levels) if on else 0,
        "stops_paying_at": crossing(levels) if on else None, "speedup": winner["speedup"], "interval": winner["interval"],
        "sentence": decision.sentence(on, winner, ", as it drafts now"), "at_once": advice(levels) if levels[1:] else None,
        "limit": limit, "change": decision.change(winner, limit["name"], on) if limit else "",
        "methods": [winner], "lengths": [], "levels": [level._asdict() for level in levels],
        "rows": [
            {
                "method": winner["method"], "question": row["id"], "category": by_prompt[row["id"]], "speedup": row["speedup"],
                "tokens_per_pass": row["mean_acceptance_length"], "acceptance": row["draft_acceptance_rate"], "identical": row["identical"],
            }
            for row in rows
        ],
        "note": measured["note"],
    }  # fmt: skip
