"""The target's first layers as a drafter (layer skip): the same tensors, nothing copied.

Knows passes. It does not know what such a drafter is good for, nor how many layers are best (`calibration.depth`).
"""

from __future__ import annotations

from ..core.events import ModelError
from .lm import CachedLM

ROLE = "self"
CANNOT = (AttributeError, RuntimeError, TypeError, KeyError)  # what an architecture raises that cannot be cut


def at(target: CachedLM, layers: int) -> CachedLM:
    """The drafter of the target's first layers. Raises `ModelError` if there are fewer, and one of `CANNOT` for an
    architecture that cannot be cut."""
    if layers > (most := target.passes.shape.layers):
        raise ModelError("layers", layers, f"the target has {most}.")
    return CachedLM(target.passes.first(layers), target.vocab, exact=False)


def shallow(target: CachedLM) -> CachedLM:
    """The target's first layer with an empty cache: the same kernels in a fraction of the time. Else the target itself."""
    try:
        lm = CachedLM(target.passes.first(1), target.vocab, limits=target.limits)
        lm.extend([0])
    except CANNOT:
        return target
    lm.reset()
    return lm
