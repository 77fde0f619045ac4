"""What two servers made of the same prompts: rows, loads, intervals, and advice in one sentence.

Knows blocks of texts. It does not know HTTP, nor how a report is shown.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from itertools import pairwise
from statistics import median
from typing import Any

import numpy as np

from ...core.acceptance import Acceptance
from ..decision import levels_of, texts_at_once
from ..intervals import interval
from ..progress import Progress
from .asking import Known
from .bridge import arriving
from .load import Block, Prompt, Written, blocks
from .reply import Answer
from .servers import Server

SIDES = ("baseline", "speculative")
COUNTER_SHARE = 0.05  # by which a server's counters may differ: other readers may be there


def of(known: Mapping[str, Known], prompts: Sequence[Prompt], blocks: Sequence[Block], most: int) -> dict[str, Any]:
    """All that was measured, as plain data."""
    levels = [_level(at_once, prompts, blocks) for at_once in dict.fromkeys(block.at_once for block in blocks)]
    return {
        "servers": {side: {"name": of.server.name, "kind": of.kind, "model": of.model} for side, of in known.items()},
        "options": {
            "max_new_tokens": most, "prompts": len(prompts), "concurrency": [level["concurrency"] for level in levels],
        },
        "rows": [row for level in levels for row in level.pop("rows")],
        "levels": levels,
        "advice": texts_at_once(levels_of(levels, "concurrency")),
        "note": "seconds are the client's, the network included. Speedups are of whole texts, from asking to the last token; "
        "after_first_token is the same behind the first, which a server that sends late and in bundles distorts. Tokens a second "
        "are of all readers while all were busy. Intervals are 90%, by resampling prompts",
    }  # fmt: skip


def measure(
    sides: Mapping[str, Server], prompts: Sequence[Prompt], levels: Sequence[int], most: int, rounds: int
) -> Iterator[Progress | None]:
    """The report so far, after every block, and None while nothing is new. Raises what `blocks` does."""

    async def work(put: Callable[[Progress], None]) -> None:
        known, done, total = {}, [], 2 * rounds * len(levels)
        async for what in blocks(*(sides[side] for side in SIDES), prompts, levels, most, rounds=rounds):
            if isinstance(what, Block):
                done.append(what)
                text = f"{what.side}, {what.at_once} at once"
                by_both = set.intersection(*({one.at_once for one in done if one.side == side} for side in SIDES))
                seen = [block for block in done if block.at_once in by_both]
                put(Progress(len(done), total, text, of(known, prompts, seen, most) if seen else None))
            else:
                known = what

    yield from arriving(work)


def _level(at_once: int, prompts: Sequence[Prompt], blocks: Sequence[Block]) -> dict[str, Any]:
    """What was measured at so many texts at once."""
    here = [block for block in blocks if block.at_once == at_once]
    texts = [text for block in here for text in block.texts]
    of = {side: [text for text in texts if text.side == side and text.answer] for side in SIDES}
    rows = [row for i, prompt in enumerate(prompts) if (row := _row(prompt, at_once, i, of))]
    throughput = {side: median(block.tokens_per_second for block in here if block.side == side) for side in SIDES}
    sums, behind_first = (
        [pair for i in range(len(prompts)) if (pair := _sums(of, i, behind))] for behind in (False, True)
    )
    failed = [text.error for text in texts if text.error]
    answers = [text.answer for text in of["speculative"]]
    errors = list(dict.fromkeys(failed))[:5]
    differs = list(dict.fromkeys(answer.differs for answer in answers if answer.differs))[:5]
    return {
        "concurrency": at_once,
        "tokens_per_second": throughput["speculative"],
        "baseline_tokens_per_second": throughput["baseline"],
        "speedup": _speedup(sums) if sums else None,
        "interval": interval(sums, _speedup),
        "after_first_token": _speedup(behind_first) if behind_first else None,
        "throughput_ratio": throughput["speculative"] / throughput["baseline"] if throughput["baseline"] else None,
        **_acceptance(answers),
        "latency": {side: _latency([text.answer for text in of[side]]) for side in SIDES},
        "identical": sum(row["identical"] is True for row in rows),
        "texts": len(texts),
        "failed": len(failed),
        "errors": errors,
        "differs": differs,
        "remarks": [*errors, *differs, *_without_text(rows)],
        "counters": {side: _counted([block for block in here if block.side == side]) for side in SIDES},
        "rows": rows,
    }


def _row(prompt: Prompt, at_once: int, number: int, of: Mapping[str, Sequence[Written]]) -> dict[str, Any] | None:
    """One prompt at one load; None where a server wrote none of its texts."""
    answers = {side: [text.answer for text in of[side] if text.prompt == number] for side in SIDES}
    if not all(answers.values()):
        return None
    rates = {side: median(map(_rate, answers[side])) for side in SIDES}
    both = [answer for side in SIDES for answer in answers[side]]
    texts = {answer.ids if all(one.ids for one in both) else answer.text for answer in both}
    parts_at = None if len(texts) == 1 else _apart(answers["baseline"][0], answers["speculative"][0])
    return {
        "id": prompt.id, "concurrency": at_once, "tokens_per_second": rates["speculative"],
        "baseline_tokens_per_second": rates["baseline"],
        "speedup": rates["speculative"] / rates["baseline"] if rates["baseline"] else None,
        **{name: value for name, value in _acceptance(answers["speculative"]).items() if name != "by_position"},
        "identical": len(texts) == 1 if any(texts) else None, "parts_at": parts_at,
    }  # fmt: skip


def _without_text(rows: Sequence[Mapping[str, Any]]) -> list[str]:
    """Return a sentence on prompts for which neither server wrote text, in a list; empty if there are none."""
    count = sum(row["identical"] is None for row in rows)
    prompts = "one prompt" if count == 1 else f"{count} prompts"
    return [f"Neither server sent any text for {prompts}, so there was nothing to compare."] if count else []


def _rate(answer: Answer) -> float:
    """Tokens a second, from asking to the last token."""
    return answer.tokens / answer.whole_s if answer.whole_s > 0 else 0.0


def _apart(one: Answer, other: Answer) -> int | None:
    """The first token, or character where there are no ids, in which two texts differ; None where they do not."""
    a, b = (one.ids, other.ids) if one.ids and other.ids else (one.text, other.text)
    short = min(len(a), len(b))
    return next((i for i in range(short) if a[i] != b[i]), None if len(a) == len(b) else short)


def _sums(of: Mapping[str, Sequence[Written]], number: int, behind: bool) -> tuple[float, float, float, float] | None:
    """A prompt's tokens and seconds, the baseline's and the other's, in whole or `behind` the first token; None where one has
    none."""
    out: list[float] = []
    for side in SIDES:
        answers = [text.answer for text in of[side] if text.prompt == number]
        out.append(sum(answer.written if behind else answer.tokens for answer in answers))
        out.append(sum(answer.seconds if behind else answer.whole_s for answer in answers))
    return tuple(out) if all(n > 0 for n in out) else None


def _speedup(sums: Sequence[tuple[float, float, float, float]]) -> float:
    """How much faster a reader has the texts of these prompts together."""
    tokens, seconds, more_tokens, more_seconds = map(sum, zip(*sums, strict=True))
    return (more_tokens / more_seconds) / (tokens / seconds)


def _acceptance(answers: Sequence[Answer]) -> dict[str, Any]:
    """Under the field's names; None where the server does not tell."""
    counts = [answer.counts for answer in answers if answer.counts]
    drafted, accepted, passes = map(sum, zip(*counts, strict=True)) if counts else (0, 0, 0)
    return {
        "mean_acceptance_length": 1 + accepted / passes if passes else None,
        "draft_acceptance_rate": accepted / drafted if drafted else None,
        "by_position": list(_tested(answers).rates),
    }


def _tested(answers: Sequence[Answer]) -> Acceptance:
    """By position in the drafts; of a pass that tells no more, fewer accepted than drafted means that the next was refused."""
    passes = (part for answer in answers for part in answer.passes if part.drafted)
    return Acceptance.of_counts((part.accepted, part.accepted < part.drafted) for part in passes)


def _latency(answers: Sequence[Answer]) -> dict[str, float | None]:
    """Seconds to the first token, between arrivals, and tokens an arrival."""
    first = [answer.passes[0].at_s for answer in answers if answer.passes]
    gaps = [b.at_s - a.at_s for answer in answers for a, b in pairwise(answer.passes)]
    bursts = [part.tokens for answer in answers for part in answer.passes[1:]]
    return {
        "first_token_s": median(first) if first else None,
        "gap_p50_s": float(np.quantile(gaps, 0.5)) if gaps else None,
        "gap_p99_s": float(np.quantile(gaps, 0.99)) if gaps else None,
        "tokens_an_arrival": sum(bursts) / len(bursts) if bursts else None,
        "largest_burst": max(bursts, default=None),
    }


def _counted(blocks: Sequence[Block]) -> dict[str, Any] | None:
    """A server's own counters beside the sums of what arrived; None where it has none."""
    if not all(block.counted for block in blocks):
        return None
    answers = [text.answer for block in blocks for text in block.texts if text.answer]
    counts = [answer.counts for answer in answers if answer.counts]
    drafted, accepted, passes = map(sum, zip(*counts, strict=True)) if counts else (0, 0, 0)
    arrived = {
        "generated": sum(answer.tokens for answer in answers),
        "passes": passes,
        "drafted": drafted,
        "accepted": accepted,
    }
    counted = {name: sum(getattr(block.counted, name) for block in blocks) for name in arrived}
    agree = all(abs(counted[name] - n) <= COUNTER_SHARE * max(n, 1) for name, n in arrived.items())
    return {"counted": counted, "arrived": arrived, "agree": agree}
