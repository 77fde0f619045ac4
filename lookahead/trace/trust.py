"""How far a race's clock can be trusted: how steady its passes were, and what does not depend on the clock at all.

A pass without drafts always reads the same weights, so where naive's passes took very different times, something else was
running. How many passes a text took is free of that.

Knows records. It does not know how the words are shown.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from typing_extensions import TypedDict  # pydantic needs this one before Python 3.12

from ..core.numbers import ratio, seconds

LEAST = 8  # passes to judge by
STEADY = 2.0  # from the quickest tenth to the slowest: a context that grows, and the clock's own unrest


class Trust(TypedDict):
    """Whether the clock was steady, and a sentence."""

    steady: bool
    sentence: str


def of(race: Any) -> Trust | None:
    """How steady naive's passes were; None without naive, or with too few of its passes."""
    naive = race.naive()
    if naive is None or naive.opaque or len(naive.verified) < LEAST:
        return None
    low, high = _tenths([step.seconds for step in naive.verified])
    took = f"naive's passes took {seconds(low)} to {seconds(high)}"
    if high <= STEADY * low:
        return {"steady": True, "sentence": f"Steady clock: {took}."}
    sentence = f"Busy machine: {took}, so the seconds say little."
    last = race.lanes[-1]
    if last is not naive and last.tokens:
        passes = len(last.verified) / len(last.tokens)  # naive has one for each token
        sentence += f" By passes alone: {ratio(1 / passes)} fewer."
    return {"steady": False, "sentence": sentence}


def _tenths(times: Sequence[float]) -> tuple[float, float]:
    """What a tenth of them stayed under, and what a tenth of them went over."""
    ordered = sorted(times)
    return ordered[len(ordered) // 10], ordered[-1 - len(ordered) // 10]
