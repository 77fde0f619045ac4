"""Capture a GPU's passes as CUDA graphs, if the captured passes have the same results and are faster."""

import logging

import torch

from ..model.forward import Forward
from ..model.lm import CachedLM
from .cost import interleaved

LOGGER = logging.getLogger("lookahead")
TEXT, ROWS = 20, 5  # cached tokens, and rows of the compared pass
PASSES = 12  # timed passes: about the first five are slower
TOLERANCE = 0.05  # relative to the largest logit: another kernel may be used, which rounds differently


def capture_if_faster(passes: Forward) -> Forward:
    """Return the passes as CUDA graphs if they are faster. Passes on a CPU or on several GPUs stay unchanged.

    Only layers with keys and values and nothing else are captured.
    """
    if passes.device.type != "cuda" or len(passes.devices) > 1 or not passes.is_plain:
        return passes
    from ..model.cuda_graphs import CudaGraphs

    try:
        return faster(passes, CudaGraphs(passes))
    except Exception as error:  # libraries raise many types
        LOGGER.warning("CUDA graphs are not used: %s: %s", type(error).__name__, error)
        return passes


def faster(passes: Forward, captured: Forward) -> Forward:
    """Return `captured` if its logits equal those of `passes` up to rounding and its one-row pass is faster, else `passes`."""
    lms, logits = [CachedLM(passes), CachedLM(captured)], []
    for lm in lms:
        text = [(37 * i) % lm.vocab for i in range(TEXT + ROWS)]
        lm.extend(text[:TEXT])
        logits.append(lm.forward(text[TEXT:]).float())
    if not torch.allclose(*logits, rtol=0, atol=TOLERANCE * float(logits[0].abs().max())):
        return passes
    plain_s, captured_s = interleaved([lambda lm=lm: lm.forward([0]) for lm in lms], PASSES, min)
    return captured if captured_s < plain_s else passes
