"""The report on two servers under load: a row per prompt, values with intervals per load, and a sentence of advice."""

from collections import Counter
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
from .background import stream
from .client import Client
from .load import SIDES, Block, Plan, Sides, blocks
from .replies import Completion

Completions = Sequence[Completion]
Pair = Sequence[Completions]  # the completions of one prompt: the baseline's, then those with speculation
COUNTER_SHARE = 0.05  # relative difference that a server's counters may have, because others may use the server


def measure(sides: Sides, prompts: Sequence[Question], plan: Plan, most: int) -> Iterator[Progress | None]:
    """Yield the report so far after every block, and None while there is no new block. Raises the errors of `blocks`."""
    total = 2 * len(plan) if isinstance(plan, Sized) else 0  # a plan that depends on the measurements has no length

    async def work(put: Callable[[Progress], None]) -> None:
        clients, done = {}, []
        async for item in blocks(sides, prompts, plan, most):
            if isinstance(item, Block):
                done.append(item)
                complete = done[: len(done) // 2 * 2]  # rounds with blocks of both servers
                report = from_blocks(clients, prompts, complete, most) if complete else None
                put(Progress(len(done), total, f"{item.side}, {item.at_once} at once", report))
            else:
                clients = item

    yield from stream(work)


def from_blocks(
    clients: Mapping[str, Client], prompts: Sequence[Question], blocks: Sequence[Block], most: int
) -> dict[str, Any]:
    """Return the report as plain data."""
    levels = [_level(at_once, prompts, blocks) for at_once in dict.fromkeys(block.at_once for block in blocks)]
    return {
        **source(clients),
        "options": {
            "max_new_tokens": most, "prompts": len(prompts), "concurrency": [level["concurrency"] for level in levels],
        },
        "rows": [row for level in levels for row in level.pop("rows")],
        "levels": levels,
        "advice": texts_at_once(levels_of(levels, "concurrency")),
        "note": "seconds are measured by the client and include the network. Speedups are for complete texts, from the request to the "
        "last token. Tokens per second are the sum over all readers while all were busy. Intervals are 90%, by resampling prompts",
    }  # fmt: skip


def source(clients: Mapping[str, Client]) -> dict[str, Any]:
    """Return the names, kinds and models of both servers."""
    sides = clients.items()
    return {"servers": {s: {"name": c.server.name, "kind": c.kind.name, "model": c.model} for s, c in sides}}


def table(measured: Mapping[str, Any]) -> tuple[list[str], list[list[str]]]:
    """Return the headings of a table and a row per load."""
    headings = [
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
    return headings, rows


def _level(at_once: int, prompts: Sequence[Question], blocks: Sequence[Block]) -> dict[str, Any]:
    by_side = {side: [block for block in blocks if block.at_once == at_once and block.side == side] for side in SIDES}
    texts = {side: [text for block in by_side[side] for text in block.texts] for side in SIDES}
    completions = {side: [text.completion for text in texts[side] if text.completion] for side in SIDES}
    pairs = [
        (prompt, [[text.completion for text in texts[side] if text.completion and text.prompt == i] for side in SIDES])
        for i, prompt in enumerate(prompts)
    ]
    rows = [_row(prompt, at_once, *pair) for prompt, pair in pairs if all(pair)]
    failed = [text.error for side in SIDES for text in texts[side] if text.error]
    errors, differs = _first(failed), _first(completion.differs for completion in completions["speculative"])
    empty = sum(row["identical"] is None for row in rows)
    nothing = f"Neither server sent any text for {counted(empty, 'prompt')}, so there was nothing to compare."
    return {
        "concurrency": at_once,
        "tokens_per_second": median(block.tokens_per_second for block in by_side["speculative"]),
        "baseline_tokens_per_second": median(block.tokens_per_second for block in by_side["baseline"]),
        **gain([pair for _, pair in pairs]),
        **acceptance(completions["speculative"]),
        "by_position": list(tested(completions["speculative"]).rates),
        "latency": {side: _latency(completions[side]) for side in SIDES},
        "identical": sum(row["identical"] is True for row in rows),
        "texts": sum(map(len, texts.values())),
        "failed": len(failed),
        "errors": errors,
        "differs": differs,
        "remarks": [*errors, *differs, *([nothing] if empty else [])],
        "counters": {side: counters(by_side[side], completions[side]) for side in SIDES},
        "rows": rows,
    }


def _row(prompt: Question, at_once: int, baseline: Completions, speculative: Completions) -> dict[str, Any]:
    """Return the row of one prompt at one load. `first_difference` is a token index, or a character index if a server sends no ids."""
    plain_rate, rate = (median(completion.tokens_per_second for completion in side) for side in (baseline, speculative))
    both = [*baseline, *speculative]
    has_ids = all(completion.ids for completion in both)
    texts = [completion.ids if has_ids else completion.text for completion in both]
    is_same = len(set(texts)) == 1
    return {
        "id": prompt.id, "concurrency": at_once, "tokens_per_second": rate, "baseline_tokens_per_second": plain_rate,
        "speedup": rate / plain_rate if plain_rate else None, **acceptance(speculative),
        "identical": is_same if any(texts) else None,
        "first_difference": None if is_same else first_difference(texts[0], texts[len(baseline)]),
    }  # fmt: skip


def _first(sentences: Iterable[str | None]) -> list[str]:
    return [*dict.fromkeys(filter(None, sentences))][:5]


def gain(pairs: Iterable[Pair], *, without_first: bool = False) -> dict[str, Any]:
    """Return the speedup over all prompts and its interval, None if no prompt has text from both servers.

    `without_first` excludes the first token of each text and its time, which is that of reading the prompt.
    """
    sums = [sums for pair in pairs if all(pair) and all(sums := _sums(pair, without_first))]
    return {"speedup": _speedup(sums) if sums else None, "interval": interval(sums, _speedup)}


def rates(pairs: Sequence[Pair]) -> dict[str, float]:
    """Return the tokens per second of complete texts, without and with speculation."""
    sides = [[completion for pair in pairs for completion in pair[side]] for side in (0, 1)]
    plain, fast = (sum(c.tokens for c in side) / max(1e-9, sum(c.total_s for c in side)) for side in sides)
    return {"baseline_tokens_per_second": plain, "tokens_per_second": fast}


def _sums(pair: Pair, without_first: bool) -> list[float]:
    """Return tokens and seconds of both sides' completions, the baseline's first."""
    return [sum(part) for side in pair for part in zip(*(_written(item, without_first) for item in side), strict=True)]


def _written(completion: Completion, without_first: bool) -> tuple[float, float]:
    """Return the tokens and seconds of a text."""
    if not without_first or not completion.passes:
        return completion.tokens, completion.total_s
    first = completion.passes[0]
    return completion.tokens - first.tokens, completion.total_s - first.at_s


def _speedup(sums: Sequence[Sequence[float]]) -> float:
    """Return the speedup over all texts of these prompts."""
    tokens, seconds, more_tokens, more_seconds = map(sum, zip(*sums, strict=True))
    return (more_tokens / more_seconds) / (tokens / seconds)


def acceptance(completions: Completions) -> dict[str, float | None]:
    """Return tokens per pass with a draft, and the share of drafted tokens that was accepted; None if they are not reported."""
    drafted, accepted, passes = counts(completions)
    return {
        "mean_acceptance_length": 1 + accepted / passes if passes else None,
        "draft_acceptance_rate": accepted / drafted if drafted else None,
    }


def counts(completions: Completions) -> list[int]:
    """Return the drafted tokens, accepted tokens and passes with a draft of all completions that have counts."""
    return [sum(completion.counts[i] for completion in completions if completion.counts) for i in range(3)]


def tested(completions: Completions) -> Acceptance:
    """Return acceptance by position. If a pass accepted fewer tokens than it drafted, the next token was rejected.

    A histogram is used if there is one, because an event under load may have several passes. Its last entry counts passes that
    accepted a complete draft.
    """
    drafts: Counter[tuple[int, bool]] = Counter()
    for completion in completions:
        longest = len(completion.histogram) - 1
        drafts.update({(n, n < longest): number for n, number in enumerate(completion.histogram) if number})
        if not completion.histogram:
            drafts.update((part.accepted, part.accepted < part.drafted) for part in completion.passes if part.drafted)
    return Acceptance.from_counts(drafts.elements())


def _latency(completions: Completions) -> dict[str, float | None]:
    first = [completion.passes[0].at_s for completion in completions if completion.passes]
    gaps = [b.at_s - a.at_s for completion in completions for a, b in pairwise(completion.passes)]
    p50, p99 = map(float, np.quantile(gaps, (0.5, 0.99))) if gaps else (None, None)
    return {
        "first_token_s": median(first) if first else None,
        "gap_p50_s": p50,
        "gap_p99_s": p99,
        "largest_burst": max((part.tokens for item in completions for part in item.passes[1:]), default=None),
    }


def counters(blocks: Sequence[Block], completions: Completions) -> dict[str, Any] | None:
    """Return a server's own counters with the sums over the received completions, None if it has no counters."""
    if not all(block.counted for block in blocks):
        return None
    drafted, accepted, passes = counts(completions)
    generated = sum(completion.tokens for completion in completions)
    received = {"generated": generated, "passes": passes, "drafted": drafted, "accepted": accepted}
    sums = {name: sum(block.counted[name] for block in blocks) for name in received}
    agree = all(abs(sums[name] - n) <= COUNTER_SHARE * max(n, 1) for name, n in received.items())
    return {"counted": sums, "arrived": received, "agree": agree}
