"""Find measured costs that are impossible, because other programs disturbed the measurement.

On a quiet machine a model is not clearly slower than one with more weights, a pass of more rows does not take clearly less
time, and models of one size take the same time. Trained heads are left out: their time depends on more than their weights.
"""

from __future__ import annotations

from collections.abc import Mapping
from itertools import pairwise, permutations

from ..core.costs import PassCosts
from ..core.numbers import count, seconds

SMALLER, SLOWER = 0.9, 1.5  # a model with fewer weights than that share, and slower than so many times
FALLING = 0.6  # of the time of fewer rows
SAME, TWINS = 0.98, 2.0  # sizes that are the same, and how far such models may be apart


def faults(costs: PassCosts, sizes: Mapping[str, int]) -> tuple[str, ...]:
    """What is impossible, in sentences. `sizes` are bytes of weights by role: of the target and its draft models."""
    times = {role: costs.pass_s(1) if role == "target" else costs.drafters[role].curve.pass_s(1) for role in sizes}
    sentences = []
    for one, other in permutations(sizes, 2):
        share, slower = sizes[one] / sizes[other], times[one] / times[other]
        smaller, twins = share < SMALLER, SAME <= share <= 1 / SAME
        if (smaller and slower > SLOWER) or (twins and slower > TWINS):
            size = "larger" if smaller else "as large"
            sentences.append(
                f"a pass of {one} took {seconds(times[one])}, one of {other}, which is {size}, {seconds(times[other])}"
            )
    for (rows, took), (more, less) in pairwise(zip(costs.target.rows, costs.target.seconds, strict=True)):
        if less < FALLING * took:
            sentences.append(f"a pass of {count(more)} rows took {seconds(less)}, one of {count(rows)} {seconds(took)}")
    return tuple(sentences)
