"""Whether what was measured can be: a disturbed machine must not be believed for as long as a server lives.

Three things do not happen on a quiet machine: a model that is clearly slower than one with clearly more weights, a pass of
more rows that takes clearly less time, and two models of one size of which one takes twice as long. Each that is found is a
sentence. Trained heads are left out: what they take depends on more than their weights.

Knows costs and sizes. It does not know how they were measured, nor what is done about it.
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
    """What cannot be, in sentences. `sizes` are bytes of weights by role: the target's and those of its draft models."""
    times = {role: costs.pass_s(1) if role == "target" else costs.drafters[role].curve.pass_s(1) for role in sizes}
    sentences = []
    for one, other in permutations(sizes, 2):
        share, slower = sizes[one] / sizes[other], times[one] / times[other]
        if (share < SMALLER and slower > SLOWER) or (SAME <= share <= 1 / SAME and slower > TWINS):
            size = "smaller" if share < SMALLER else "as large"
            sentences.append(
                f"a pass of {one} took {seconds(times[one])}, one of {other}, which is {'larger' if size == 'smaller' else size}, "
                f"{seconds(times[other])}"
            )
    for (rows, took), (more, less) in pairwise(zip(costs.target.rows, costs.target.seconds, strict=True)):
        if less < FALLING * took:
            sentences.append(f"a pass of {count(more)} rows took {seconds(less)}, one of {count(rows)} {seconds(took)}")
    return tuple(sentences)
