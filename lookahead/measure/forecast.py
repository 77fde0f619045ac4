"""From two short runs the speedup of every draft length, with its interval.

A run with few drafted tokens in every pass and one with many, each beside a naive one, say what passes take at both ends and
how far drafts get. What passes of other lengths take lies between: the target's by this machine's calibrated curve, bent so
that it goes through both, drafting and the rest by straight lines. How many tokens they bring follows from acceptance by
position. It holds for chains of one length, and takes a text to be alike throughout: how far a draft gets does not hang on
where the one before ended.

Knows timings and costs. It does not know how they were taken.
"""

from __future__ import annotations

import statistics
from collections.abc import Sequence
from dataclasses import dataclass

from ..core.costs import PassCosts
from .intervals import interval
from .timing import Timing

Pairs = Sequence[tuple[Timing, Timing]]  # a run and the naive one beside it, for every prompt


@dataclass(frozen=True, slots=True)
class Forecast:
    """The expected speedup with `k` drafted tokens: the median over prompts, and its 90% interval over them, None for one."""

    k: int
    speedup: float
    interval: tuple[float, float] | None


def forecast(costs: PassCosts, short: tuple[int, Pairs], long: tuple[int, Pairs], ks: Sequence[int]) -> list[Forecast]:
    """The speedups of all `ks`, from the runs of two draft lengths, the second larger, on the same prompts in order; the shorter
    may have been run on fewer."""
    out = []
    cheap = [_pass(run) for run, _ in short[1]]
    few = short[0], [statistics.mean(part) for part in zip(*cheap, strict=True)]
    for k in ks:
        speedups = []
        for number, (run, naive) in enumerate(long[1]):
            known = run.acceptance + short[1][number][0].acceptance if number < len(short[1]) else run.acceptance
            seconds = known.passes(k, len(naive.tokens)) * _pass_s(costs, few, (long[0], _pass(run)), k)
            speedups.append(naive.seconds / seconds)
        out.append(Forecast(k, statistics.median(speedups), interval(speedups, statistics.median)))
    return out


def _pass_s(costs: PassCosts, short: tuple[int, Sequence[float]], long: tuple[int, Sequence[float]], k: int) -> float:
    """Seconds of a pass with `k` drafted tokens, from its parts at two lengths."""
    (few, cheap), (many, dear) = short, long
    share = (k - few) / (many - few)

    def between(one: float, other: float) -> float:
        return one + (other - one) * share

    bent = between(cheap[0] / costs.pass_s(1 + few), dear[0] / costs.pass_s(1 + many))
    return costs.pass_s(1 + k) * bent + between(cheap[1], dear[1]) + between(cheap[2], dear[2])


def _pass(run: Timing) -> tuple[float, float, float]:
    """Seconds of a pass: the target's, drafting, the rest."""
    rest_s = run.seconds - run.verify_s - run.propose_s
    return run.verify_s / run.passes, run.propose_s / run.passes, rest_s / run.passes
