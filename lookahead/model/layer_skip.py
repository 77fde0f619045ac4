"""The target's first layers as a drafter (layer skip): the same tensors, nothing copied.

A model that was not trained to end early predicts little after a few layers, and each layer costs time. So the drafter has
few of them: a search for the best depth gained nothing on the bundled models.
"""

from ..core.events import ModelError
from .lm import CachedLM

ROLE = "self"
ONE_IN = 8  # of the target's layers
CANNOT = (AttributeError, RuntimeError, TypeError, KeyError)  # what an architecture raises that cannot be cut


def _first(target: CachedLM, layers: int, exact: bool) -> CachedLM:
    """The model of the target's first layers, after a pass of one token; its cache is empty."""
    lm = CachedLM(target.passes.first(layers), target.vocab, exact)
    lm.extend([0])
    lm.reset()
    return lm


def drafter(target: CachedLM) -> CachedLM:
    """The drafter of the target's first eighth of layers, at least one. Raises `ModelError` if the architecture cannot be cut."""
    try:
        return _first(target, max(1, target.passes.shape.layers // ONE_IN), exact=False)
    except CANNOT as error:
        hint = "its first layers cannot be used alone; choose another method."
        raise ModelError("model", target.passes.shape.kind, hint) from error


def shallow(target: CachedLM) -> CachedLM:
    """The target's first layer with an empty cache: the same kernels in a fraction of the time. Else the target itself."""
    try:
        return _first(target, 1, exact=True)
    except CANNOT:
        return target
