"""The target's first layers as a drafter (layer skip). They share the target's tensors.

The first layers of a model that was not trained for early exit predict poorly, and each layer costs time. So the drafter has few
layers. A search for the best number of layers gained nothing on the bundled models.
"""

from ..core.events import ModelError
from .lm import CachedLM

ROLE = "self"
SHARE = 8  # the drafter has one eighth of the target's layers
# Raised by an architecture that cannot be cut, or whose first layers have no attention.
CUT_ERRORS = (ArithmeticError, AttributeError, RuntimeError, TypeError, KeyError, IndexError, ValueError)


def _first(target: CachedLM, layers: int, exact: bool) -> CachedLM:
    """Return the model of the target's first layers with an empty cache, after a trial pass of one token."""
    lm = CachedLM(target.passes.first(layers), target.vocab, exact)
    lm.extend([0])
    lm.reset()
    return lm


def drafter(target: CachedLM) -> CachedLM:
    """Return a drafter of the target's first eighth of layers, at least one. Raises `ModelError` if none can be cut."""
    try:
        return _first(target, max(1, target.passes.shape.layers // SHARE), exact=False)
    except CUT_ERRORS as error:
        hint = "its first layers cannot be used alone; choose another method."
        raise ModelError("model", target.passes.shape.kind, hint) from error


def shallow(target: CachedLM) -> CachedLM:
    """Return the target's first layer with an empty cache, to run the same kernels; the target if it cannot be cut."""
    try:
        return _first(target, 1, exact=True)
    except CUT_ERRORS:
        return target
