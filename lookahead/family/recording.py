"""Whether a GPU's passes are recorded as CUDA graphs: if the results are the same, and faster."""

import logging

import torch

from ..model.forward import Forward
from ..model.lm import CachedLM
from .cost import interleaved

LOGGER = logging.getLogger("lookahead")
TEXT, ROWS = 20, 5  # tokens behind which both are compared, and rows of the passes that are
PASSES = 12  # that are timed: the first five or so are slower
APART = 0.05  # of the largest logit: the row count may choose other kernels, which round otherwise


def where_quicker(passes: Forward) -> Forward:
    """The same passes recorded, or as they are. Passes on a processor, or spread over several GPUs, stay as they are."""
    if passes.device.type != "cuda" or len(passes.devices) > 1:
        return passes
    from ..model.cuda_graphs import CudaGraphs

    try:
        return better(passes, CudaGraphs(passes))
    except Exception as error:  # any library may raise anything
        LOGGER.warning("CUDA graphs are not used: %s: %s", type(error).__name__, error)
        return passes


def better(passes: Forward, recorded: Forward) -> Forward:
    """`recorded` if its logits are those of `passes` but for rounding, and its pass of one row takes less time."""
    lms, logits = [CachedLM(passes), CachedLM(recorded)], []
    for lm in lms:
        text = [(37 * i) % lm.vocab for i in range(TEXT + ROWS)]
        lm.extend(text[:TEXT])
        logits.append(lm.forward(text[TEXT:]).float())
    if not torch.allclose(*logits, rtol=0, atol=APART * float(logits[0].abs().max())):
        return passes
    plain_s, recorded_s = interleaved([lambda lm=lm: lm.forward([0]) for lm in lms], PASSES, min)
    return recorded if recorded_s < plain_s else passes
