"""Medusa heads' pass in one compiled call: every head's residual block on one hidden state, and the target's output head."""

from __future__ import annotations

import numpy as np

from .compiling import compiled
from .product import spare_floats
from .vectors import BLOCK, call, exp, whole

FARTHEST = np.float32(80)  # of what `exp` takes


@compiled
def forward(kernels, sizes, state, blocks, scales, biases, logits):
    """The heads' logits [slots, whole blocks of the known tokens], float32, after a token of which `state` [hidden] is the
    last hidden state of the token before, as it is stored.

    `blocks` and `scales` [2] are addresses of all residual blocks' layers, [slots times hidden, hidden], and of the output head;
    biases [slots, hidden]. `state` and `logits` are addresses.
    """
    slots, hidden = biases.shape
    wide, known, rounded = whole(slots * hidden, BLOCK), whole(sizes.known, BLOCK), sizes.rounded
    x, inner, rows = np.empty(hidden, np.float32), np.empty(wide, np.float32), np.empty((slots, hidden), np.float32)
    scratch = np.empty(spare_floats(slots, hidden), np.float32)
    spare_ = scratch.ctypes.data
    call(kernels.read, (state, x.ctypes.data, hidden, rounded))
    call(kernels.multiply, (x.ctypes.data, blocks[0], scales[0], inner.ctypes.data, spare_, 1, hidden, wide, rounded))
    for slot in range(slots):
        for i in range(hidden):
            z = inner[slot * hidden + i] + biases[slot, i]
            rows[slot, i] = x[i] + z / (np.float32(1) + exp(min(-z, FARTHEST)))
    call(kernels.multiply, (rows.ctypes.data, blocks[1], scales[1], logits, spare_, slots, hidden, known, rounded))
    return scratch[:1], x, inner, rows
