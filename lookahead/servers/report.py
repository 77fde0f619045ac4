"""The report on two servers under load: a row for every prompt, figures for every load with intervals, and a sentence of advice."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from itertools import pairwise
from statistics import median
from typing import Any

import numpy as np

from ..core.acceptance import Acceptance
from ..core.numbers import UNKNOWN, decimal, percent, ranged, ratio, seconds
from ..measure.decision import levels_of, texts_at_once
from ..measure.intervals import interval
from ..measure.progress import Progress
from ..measure.timing import Question
from .addresses import Server
from .background import arriving
from .completion import Known
from .load import SIDES, Block, Plan, blocks, rounds_of
from .reply import Answer

COUNTER_SHARE = 0.05  # by which a server's counters may differ, because it may have other readers


def of(known: Mapping[str, Known], prompts: Sequence[Question], blocks: Sequence[Block], most: int) -> dict[str, Any]:
    """Return all that was measured, as plain data."""
    levels = [_level(at_once, prompts, blocks) for at_once in dict.fromkeys(block.at_once for block in blocks)]
    return {
        "servers": {side: {"name": of.server.name, "kind": of.reply.name, "model": of.model} for side, of in known.items()},
        "options": {
            "max_new_tokens": most, "prompts": len(prompts), "concurrency": [level["concurrency"] for level in levels],
        },
        "rows": [row for level in levels for row in level.pop("rows")],
        "levels": levels,
        "advice": texts_at_once(levels_of(levels, "concurrency")),
        "note": "seconds are the client's, the network included. Speedups are of whole texts, from the request to the last token. "
        "Tokens per second are of all readers while all were busy. Intervals are 90%, by resampling prompts",
    }  # fmt: skip


def measure(
    sides: Mapping[str, Server], prompts: Sequence[Question], levels: Sequence[int], most: int, rounds: int
) -> Iterator[Progress | None]:
    """Yield the report so far after every block, and None while nothing is new. Raises what `blocks` does."""
    total = 2 * rounds * len(levels)
    yield from measured(sides, prompts, rounds_of(levels, len(prompts), rounds), most, total)


def measured(
    sides: Mapping[str, Server], prompts: Sequence[Question], plan: Plan, most: int, total: int = 0
) -> Iterator[Progress | None]:
    """The same for a plan, which may depend on what was measured; `total` is the number of its blocks."""

    async def work(put: Callable[[Progress], None]) -> None:
        known, done = {}, []
        async for what in blocks(sides, prompts, plan, most):
            if isinstance(what, Block):
                done.append(what)
                whole = done[: len(done) // 2 * 2]  # rounds of which both servers are done
                report = of(known, prompts, whole, most) if whole else None
                put(Progress(len(done), total, f"{what.side}, {what.at_once} at once", report))
            else:
                known = what

    yield from arriving(work)


def table(measured: Mapping[str, Any]) -> tuple[list[str], list[list[str]]]:
    """Return the heads of a table and a row for every load."""
    heads = [
        "at once", "tokens/s without", "with", "speedup", "90% interval", "tokens a pass", "accepted", "first token",
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
    """Return what was measured at one load."""
    of = {side: [block for block in blocks if block.at_once == at_once and block.side == side] for side in SIDES}
    texts = {side: [text for block in of[side] for text in block.texts] for side in SIDES}
    answers = {side: [text.answer for text in texts[side] if text.answer] for side in SIDES}
    pairs = [
        (prompt, [[text.answer for text in texts[side] if text.answer and text.prompt == i] for side in SIDES])
        for i, prompt in enumerate(prompts)
    ]
    pairs = [(prompt, pair) for prompt, pair in pairs if all(pair)]
    rows = [_row(prompt, at_once, *pair) for prompt, pair in pairs]
    throughput = {side: median(block.tokens_per_second for block in of[side]) for side in SIDES}
    whole = [sums for _, pair in pairs if all(sums := _sums(pair))]
    failed = [text.error for side in SIDES for text in texts[side] if text.error]
    errors = list(dict.fromkeys(failed))[:5]
    differs = list(dict.fromkeys(answer.differs for answer in answers["speculative"] if answer.differs))[:5]
    return {
        "concurrency": at_once,
        "tokens_per_second": throughput["speculative"],
        "baseline_tokens_per_second": throughput["baseline"],
        "speedup": _speedup(whole) if whole else None,
        "interval": interval(whole, _speedup),
        **_acceptance(answers["speculative"]),
        "latency": {side: _latency(answers[side]) for side in SIDES},
        "identical": sum(row["identical"] is True for row in rows),
        "texts": sum(map(len, texts.values())),
        "failed": len(failed),
        "errors": errors,
        "differs": differs,
        "remarks": [*errors, *differs, *_without_text(rows)],
        "counters": {side: _counted(of[side], answers[side]) for side in SIDES},
        "rows": rows,
    }


def _row(prompt: Question, at_once: int, baseline: Sequence[Answer], speculative: Sequence[Answer]) -> dict[str, Any]:
    """Return the row of one prompt at one load."""
    plain_rate, rate = (median(map(_rate, answers)) for answers in (baseline, speculative))
    both = [*baseline, *speculative]
    texts = {answer.ids if all(one.ids for one in both) else answer.text for answer in both}
    acceptance = _acceptance(speculative)
    return {
        "id": prompt.id, "concurrency": at_once, "tokens_per_second": rate, "baseline_tokens_per_second": plain_rate,
        "speedup": rate / plain_rate if plain_rate else None,
        "mean_acceptance_length": acceptance["mean_acceptance_length"],
        "draft_acceptance_rate": acceptance["draft_acceptance_rate"],
        "identical": len(texts) == 1 if any(texts) else None,
        "parts_at": None if len(texts) == 1 else _apart(baseline[0], speculative[0]),
    }  # fmt: skip


def _without_text(rows: Sequence[Mapping[str, Any]]) -> list[str]:
    """Return a sentence on prompts for which neither server wrote text, in a list; empty if there are none."""
    count = sum(row["identical"] is None for row in rows)
    prompts = "one prompt" if count == 1 else f"{count} prompts"
    return [f"Neither server sent any text for {prompts}, so there was nothing to compare."] if count else []


def _rate(answer: Answer) -> float:
    """Return tokens per second, from the request to the last token."""
    return answer.tokens / answer.whole_s if answer.whole_s > 0 else 0.0


def _apart(one: Answer, other: Answer) -> int | None:
    """Return the first token in which two texts differ, or the first character if there are no ids; None if they are equal."""
    a, b = (one.ids, other.ids) if one.ids and other.ids else (one.text, other.text)
    short = min(len(a), len(b))
    return next((i for i in range(short) if a[i] != b[i]), None if len(a) == len(b) else short)


def _sums(pair: Sequence[Sequence[Answer]]) -> list[float]:
    """Return tokens and seconds of both sides' answers, the baseline's first."""
    return [sum(getattr(answer, name) for answer in answers) for answers in pair for name in ("tokens", "whole_s")]


def _speedup(sums: Sequence[Sequence[float]]) -> float:
    """Return how much faster a reader gets the texts of these prompts together."""
    tokens, seconds, more_tokens, more_seconds = map(sum, zip(*sums, strict=True))
    return (more_tokens / more_seconds) / (tokens / seconds)


def _acceptance(answers: Sequence[Answer]) -> dict[str, Any]:
    """Return acceptance under the field's names; None if the server does not report it."""
    drafted, accepted, passes = _counts(answers)
    return {
        "mean_acceptance_length": 1 + accepted / passes if passes else None,
        "draft_acceptance_rate": accepted / drafted if drafted else None,
        "by_position": list(_tested(answers).rates),
    }


def _counts(answers: Sequence[Answer]) -> list[int]:
    """Return the drafted tokens, accepted tokens and passes with a draft of all answers that have counts."""
    return [sum(answer.counts[i] for answer in answers if answer.counts) for i in range(3)]


def _tested(answers: Sequence[Answer]) -> Acceptance:
    """Return acceptance by position. If a pass accepted fewer tokens than it drafted, the next token was rejected."""
    passes = (part for answer in answers for part in answer.passes if part.drafted)
    return Acceptance.of_counts((part.accepted, part.accepted < part.drafted) for part in passes)


def _latency(answers: Sequence[Answer]) -> dict[str, float | None]:
    """Return seconds to the first token and between arrivals, and the most tokens in one arrival."""
    first = [answer.passes[0].at_s for answer in answers if answer.passes]
    gaps = [b.at_s - a.at_s for answer in answers for a, b in pairwise(answer.passes)]
    return {
        "first_token_s": median(first) if first else None,
        "gap_p50_s": float(np.quantile(gaps, 0.5)) if gaps else None,
        "gap_p99_s": float(np.quantile(gaps, 0.99)) if gaps else None,
        "largest_burst": max((part.tokens for answer in answers for part in answer.passes[1:]), default=None),
    }


def _counted(blocks: Sequence[Block], answers: Sequence[Answer]) -> dict[str, Any] | None:
    """Return a server's own counters with the sums of what arrived; None if it has none."""
    if not all(block.counted for block in blocks):
        return None
    drafted, accepted, passes = _counts(answers)
    generated = sum(answer.tokens for answer in answers)
    arrived = {"generated": generated, "passes": passes, "drafted": drafted, "accepted": accepted}
    counted = {name: sum(block.counted[name] for block in blocks) for name in arrived}
    agree = all(abs(counted[name] - n) <= COUNTER_SHARE * max(n, 1) for name, n in arrived.items())
    return {"counted": counted, "arrived": arrived, "agree": agree}
