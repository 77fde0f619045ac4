"""The target's first layers as a drafter (layer skip): the same tensors, nothing copied.

A model that was not trained to end early predicts little after a few layers, and each layer costs time. So the drafter has
few of them: a search for the best depth gained nothing on the bundled models.
"""

from __future__ import annotations

from ..core.events import ModelError
from .lm import CachedLM

ROLE = "self"
ONE_IN = 8  # of the target's layers
CANNOT = (AttributeError, RuntimeError, TypeError, KeyError)  # what an architecture raises that cannot be cut


def at(target: CachedLM, layers: int) -> CachedLM:
    """The drafter of the target's first layers. Raises `ModelError` if there are fewer, and one of `CANNOT` for an
    architecture that cannot be cut."""
    if layers > (most := target.passes.shape.layers):
        raise ModelError("layers", layers, f"the target has {most}.")
    return CachedLM(target.passes.first(layers), target.vocab, exact=False)


def drafter(target: CachedLM) -> CachedLM:
    """The drafter of the target's first eighth of layers, at least one. Raises `ModelError` if the architecture cannot be cut."""
    try:
        lm = at(target, max(1, target.passes.shape.layers // ONE_IN))
        lm.extend([0])
    except CANNOT as error:
        mend = "its first layers cannot be used alone; choose another method."
        raise ModelError("model", target.passes.shape.kind, mend) from error
    lm.reset()
    return lm


def shallow(target: CachedLM) -> CachedLM:
    """The target's first layer with an empty cache: the same kernels in a fraction of the time. Else the target itself."""
    try:
        lm = CachedLM(target.passes.first(1), target.vocab)
        lm.extend([0])
    except CANNOT:
        return target
    lm.reset()
    return lm
