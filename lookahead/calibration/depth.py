"""How many of the target's first layers draft best (`self`, layer skip).

A model that was not trained to be cut short may say little after a few layers, so nothing is
assumed: for every depth in question the shortened model is asked, after every token of a short text, whether it would
go on as the target. The depth with the best predicted speedup is kept.

Knows the target and what its passes cost. It does not know drafts or the loop.
"""

from __future__ import annotations

from collections.abc import Sequence

import torch

from ..core.costs import CostCurve, PassCosts
from ..core.events import ModelError
from ..core.theory import interpolate
from ..model.layer_skip import CANNOT, at
from ..model.lm import CachedLM
from .cost import quickest_s

TEXT = (
    "Once upon a time there was a little girl who lived near the woods. One day she found a small door in an old tree. "
    'She knocked three times, and a voice said, "Come in, but please wipe your feet." The answer is 12, because 3 times '
    "4 is 12. def add(a, b):\n    return a + b\n\nThen they had tea and cake, and she went home happy. The end."
)
BEHIND = 60  # tokens behind which a pass of the shortened model is timed
LONGEST = 8
MOST_TEXT = 80  # tokens over which depths are compared: every depth's head reads them all


def choose(target: CachedLM, curve: CostCurve, text: Sequence[int]) -> CachedLM:
    """The shortened model that would pay most over `text`; a `ModelError` where the architecture cannot be cut."""
    layers = target.passes.shape.layers
    try:
        shares = _agreement(target, text, max(1, layers // 2))
        first_s = _token_s(target, 1, text)
    except CANNOT as error:
        mend = "its first layers cannot be used alone; choose another method."
        raise ModelError("model", target.passes.shape.kind, mend) from error

    costs = PassCosts(curve)

    def best_speedup(depth: int) -> float:
        """With the best draft length."""
        token_s = interpolate((1, layers), (first_s, max(first_s, curve.pass_s(1))), depth) if layers > 1 else first_s
        return max(costs.predict(shares[depth - 1], k, token_s=token_s).speedup for k in range(1, LONGEST + 1))

    return at(target, max(range(1, len(shares) + 1), key=best_speedup))


@torch.inference_mode()
def _agreement(target: CachedLM, text: Sequence[int], most: int) -> list[float]:
    """For 1, 2, ... `most` layers, how often the model that ends there would go on as the target: all from one pass."""
    ids = torch.tensor(list(text[: min(MOST_TEXT, target.context_length)]), device=target.device)
    *shorter, whole = (logits[:, : target.vocab].argmax(-1) for logits in target.passes.by_depth(ids, most))
    return [float((tokens == whole).float().mean()) for tokens in shorter]


def _token_s(target: CachedLM, depth: int, text: Sequence[int]) -> float:
    """Seconds of a one-row pass of the model of so many layers."""
    short = at(target, depth)
    short.extend(text[:BEHIND])
    return quickest_s(short)
