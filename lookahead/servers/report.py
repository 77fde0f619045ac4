"""The report on two servers under load: a row for every prompt, figures for every load with intervals, and a sentence of advice."""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence, Sized
from itertools import pairwise
from statistics import median
from typing import Any

import numpy as np

from ..core.acceptance import Acceptance
from ..core.numbers import UNKNOWN, counted, decimal, percent, ranged, ratio, seconds
from ..measure.decision import levels_of, texts_at_once
from ..measure.intervals import interval
from ..measure.progress import Progress
from ..measure.timing import Question
from ..trace.agreement import first_difference
from .addresses import Server
from .background import arriving
from .client import Client
from .load import SIDES, Block, Plan, blocks
from .replies import Answer

COUNTER_SHARE = 0.05  # by which a server's counters may differ, because it may have other readers


def measure(
    sides: Mapping[str, Server], prompts: Sequence[Question], plan: Plan, most: int
) -> Iterator[Progress | None]:
    """Yield the report so far after every block, and None while nothing is new. Raises what `blocks` does."""
    total = 2 * len(plan) if isinstance(plan, Sized) else 0  # a plan that depends on measurements has no length

    async def work(put: Callable[[Progress], None]) -> None:
        clients, done = {}, []
        async for what in blocks(sides, prompts, plan, most):
            if isinstance(what, Block):
                done.append(what)
                whole = done[: len(done) // 2 * 2]  # rounds of which both servers are done
                report = of(clients, prompts, whole, most) if whole else None
                put(Progress(len(done), total, f"{what.side}, {what.at_once} at once", report))
            else:
                clients = what

    yield from arriving(work)


def of(
    clients: Mapping[str, Client], prompts: Sequence[Question], blocks: Sequence[Block], most: int
) -> dict[str, Any]:
    """Return all that was measured, as plain data."""
    levels = [_level(at_once, prompts, blocks) for at_once in dict.fromkeys(block.at_once for block in blocks)]
    return {
        "servers": {side: {"name": of.server.name, "kind": of.kind.name, "model": of.model} for side, of in clients.items()},
        "options": {
            "max_new_tokens": most, "prompts": len(prompts), "concurrency": [level["concurrency"] for level in levels],
        },
        "rows": [row for level in levels for row in level.pop("rows")],
        "levels": levels,
        "advice": texts_at_once(levels_of(levels, "concurrency")),
        "note": "seconds are the client's, the network included. Speedups are of whole texts, from the request to the last token. "
        "Tokens per second are of all readers while all were busy. Intervals are 90%, by resampling prompts",
    }  # fmt: skip


def table(measured: Mapping[str, Any]) -> tuple[list[str], list[list[str]]]:
    """Return the heads of a table and a row for every load."""
    heads = [
        "at once", "tokens/s without", "with", "speedup", "90% interval", "tokens per pass", "accepted", "first token",
        "longest gaps (p99)", "same text", "failed",
    ]  # fmt: skip
    prompts, rows = len({row["id"] for row in measured["rows"]}), []
    for level in measured["levels"]:
        latency = level["latency"]["speculative"]
        times = (latency["first_token_s"], latency["gap_p99_s"])
        rows.append([
            str(level["concurrency"]), decimal(level["baseline_tokens_per_second"]), decimal(level["tokens_per_second"]),
            ratio(level["speedup"]) if level["speedup"] else UNKNOWN, ranged(level["interval"]),
            decimal(level["mean_acceptance_length"]) if level["mean_acceptance_length"] else UNKNOWN,
            percent(level["draft_acceptance_rate"]), *(UNKNOWN if time is None else seconds(time) for time in times),
            f"{level['identical']} of {prompts}", str(level["failed"]),
        ])  # fmt: skip
    return heads, rows


def _level(at_once: int, prompts: Sequence[Question], blocks: Sequence[Block]) -> dict[str, Any]:
    of = {side: [block for block in blocks if block.at_once == at_once and block.side == side] for side in SIDES}
    texts = {side: [text for block in of[side] for text in block.texts] for side in SIDES}
    answers = {side: [text.answer for text in texts[side] if text.answer] for side in SIDES}
    pairs = [
        (prompt, [[text.answer for text in texts[side] if text.answer and text.prompt == i] for side in SIDES])
        for i, prompt in enumerate(prompts)
    ]
    rows = [_row(prompt, at_once, *pair) for prompt, pair in pairs if all(pair)]
    sums = [sums for _, pair in pairs if all(sums := _sums(pair))]
    failed = [text.error for side in SIDES for text in texts[side] if text.error]
    errors, differs = _first(failed), _first(answer.differs for answer in answers["speculative"])
    empty = sum(row["identical"] is None for row in rows)
    nothing = f"Neither server sent any text for {counted(empty, 'prompt')}, so there was nothing to compare."
    return {
        "concurrency": at_once,
        "tokens_per_second": median(block.tokens_per_second for block in of["speculative"]),
        "baseline_tokens_per_second": median(block.tokens_per_second for block in of["baseline"]),
        "speedup": _speedup(sums) if sums else None,
        "interval": interval(sums, _speedup),
        **_acceptance(answers["speculative"]),
        "by_position": list(_tested(answers["speculative"]).rates),
        "latency": {side: _latency(answers[side]) for side in SIDES},
        "identical": sum(row["identical"] is True for row in rows),
        "texts": sum(map(len, texts.values())),
        "failed": len(failed),
        "errors": errors,
        "differs": differs,
        "remarks": [*errors, *differs, *([nothing] if empty else [])],
        "counters": {side: _counted(of[side], answers[side]) for side in SIDES},
        "rows": rows,
    }


def _row(prompt: Question, at_once: int, baseline: Sequence[Answer], speculative: Sequence[Answer]) -> dict[str, Any]:
    """Return the row of one prompt at one load. `parts_at` is a token, or a character if a server sends no ids."""
    plain_rate, rate = (median(answer.tokens_per_second for answer in side) for side in (baseline, speculative))
    both = [*baseline, *speculative]
    texts = [answer.ids if all(one.ids for one in both) else answer.text for answer in both]
    is_same = len(set(texts)) == 1
    return {
        "id": prompt.id, "concurrency": at_once, "tokens_per_second": rate, "baseline_tokens_per_second": plain_rate,
        "speedup": rate / plain_rate if plain_rate else None, **_acceptance(speculative),
        "identical": is_same if any(texts) else None,
        "parts_at": None if is_same else first_difference(texts[0], texts[len(baseline)]),
    }  # fmt: skip


def _first(sentences: Iterable[str | None]) -> list[str]:
    return [*dict.fromkeys(filter(None, sentences))][:5]


def _sums(pair: Sequence[Sequence[Answer]]) -> list[float]:
    """Return tokens and seconds of both sides' answers, the baseline's first."""
    return [sum(getattr(answer, name) for answer in answers) for answers in pair for name in ("tokens", "whole_s")]


def _speedup(sums: Sequence[Sequence[float]]) -> float:
    """Return how much faster a reader gets the texts of these prompts together."""
    tokens, seconds, more_tokens, more_seconds = map(sum, zip(*sums, strict=True))
    return (more_tokens / more_seconds) / (tokens / seconds)


def _acceptance(answers: Sequence[Answer]) -> dict[str, float | None]:
    drafted, accepted, passes = _counts(answers)
    return {
        "mean_acceptance_length": 1 + accepted / passes if passes else None,
        "draft_acceptance_rate": accepted / drafted if drafted else None,
    }


def _counts(answers: Sequence[Answer]) -> list[int]:
    """Return the drafted tokens, accepted tokens and passes with a draft of all answers that have counts."""
    return [sum(answer.counts[i] for answer in answers if answer.counts) for i in range(3)]


def _tested(answers: Sequence[Answer]) -> Acceptance:
    """Return acceptance by position. If a pass accepted fewer tokens than it drafted, the next token was rejected."""
    passes = (part for answer in answers for part in answer.passes if part.drafted)
    return Acceptance.from_counts((part.accepted, part.accepted < part.drafted) for part in passes)


def _latency(answers: Sequence[Answer]) -> dict[str, float | None]:
    first = [answer.passes[0].at_s for answer in answers if answer.passes]
    gaps = [b.at_s - a.at_s for answer in answers for a, b in pairwise(answer.passes)]
    half, longest = map(float, np.quantile(gaps, (0.5, 0.99))) if gaps else (None, None)
    return {
        "first_token_s": median(first) if first else None,
        "gap_p50_s": half,
        "gap_p99_s": longest,
        "largest_burst": max((part.tokens for answer in answers for part in answer.passes[1:]), default=None),
    }


def _counted(blocks: Sequence[Block], answers: Sequence[Answer]) -> dict[str, Any] | None:
    """Return a server's own counters with the sums of what arrived; None if it has none."""
    if not all(block.counted for block in blocks):
        return None
    drafted, accepted, passes = _counts(answers)
    generated = sum(answer.tokens for answer in answers)
    arrived = {"generated": generated, "passes": passes, "drafted": drafted, "accepted": accepted}
    sums = {name: sum(block.counted[name] for block in blocks) for name in arrived}
    agree = all(abs(sums[name] - n) <= COUNTER_SHARE * max(n, 1) for name, n in arrived.items())
    return {"counted": sums, "arrived": arrived, "agree": agree}
