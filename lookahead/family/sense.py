"""Find measured costs that are impossible, because other programs disturbed the measurement.

On a quiet machine a pass of a model or of so many rows is not clearly slower than one of a model with as many weights, or of
more rows. Trained heads are left out: their time depends on more than their weights.
"""

from __future__ import annotations

from collections.abc import Mapping
from itertools import permutations

from ..core.costs import PassCosts
from ..core.numbers import counted, seconds

SAME, SLOWER = 1.02, 1.7  # ratio of sizes that count as the same, and of times that is impossible


def faults(costs: PassCosts, sizes: Mapping[str, int]) -> tuple[str, ...]:
    """What is impossible, in sentences. `sizes` are bytes of weights by role: of the target and its draft models."""
    curves = {role: costs.target if role == "target" else costs.drafters[role].curve for role in sizes}
    models = [(role, size, curves[role].pass_s(1)) for role, size in sizes.items()]
    rows = [(counted(n, "row"), n, s) for n, s in zip(costs.target.rows, costs.target.seconds, strict=True)]
    return tuple(
        f"a pass of {one} took {seconds(one_s)}, one of {other}, which is not smaller, {seconds(other_s)}"
        for group in (models, rows)
        for (one, size, one_s), (other, other_size, other_s) in permutations(group, 2)
        if size <= SAME * other_size and one_s > SLOWER * other_s
    )
