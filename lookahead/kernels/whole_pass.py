"""A Llama's pass in one compiled call, which walks the layers: a small model's pass in separate operators is mostly the
starting of operators."""

from __future__ import annotations

from functools import lru_cache

import numpy as np
from numba import njit

from .attend import attend
from .compiling import compiled
from .elementwise import add, apply_rope, gate, norm, read, store
from .layer_pass import check_ids, layer, scratch_floats
from .product import MULTIPLY, spare_floats
from .records import Kernels
from .vectors import BLOCK, call, whole


@njit(error_model="numpy")
def keep(kernels, sizes, x_, n, ends, outputs, tap):
    """Store the rows x [n, hidden] of all texts among the hidden states of each, as those of a tap."""
    size, hidden = 2 if sizes.rounded else 4, sizes.hidden
    text = first = 0
    for row in range(n):
        while row >= ends[text]:
            first, text = ends[text], text + 1
        place = outputs.states[text] + size * ((row - first) * len(outputs.taps) + tap) * hidden
        call(kernels.store, (x_ + 4 * row * hidden, place, hidden, sizes.rounded))


@compiled
def forward(kernels, sizes, weights, caches, rows, columns, outputs, step):
    """A whole pass over rows of one text or of several. In the last row of weights is the output head.

    Raises `IndexError` for an id that is not in the vocabulary.
    """
    hidden, vocab, rounded, eps, taps = sizes.hidden, sizes.vocab, sizes.rounded, sizes.eps, outputs.taps
    n, layers, ids, size = len(rows.ids), caches.addresses.shape[1], rows.ids, 2 if rounded else 4
    check_ids(ids, vocab)
    wide_vocab = whole(vocab, BLOCK)
    inside = sum(scratch_floats(sizes, n, np.int64(0), hidden, columns.new.max() + 1))
    # numba frees an array after its last use, whoever has its address: this one is returned.
    scratch = np.empty(n * hidden + outputs.rows * wide_vocab + inside + spare_floats(n, sizes.widest), np.float32)
    x_ = np.int64(scratch.ctypes.data)
    out_ = x_ + 4 * n * hidden
    h_ = out_ + 4 * outputs.rows * wide_vocab
    spare_ = h_ + 4 * inside
    for i in range(n):
        call(kernels.read, (weights.embed + size * ids[i] * hidden, x_ + 4 * i * hidden, hidden, rounded))
    for i in range(layers):
        call(kernels.norm, (x_, weights.norms[2 * i].ctypes.data, h_, n, hidden, rounded, eps))
        layer(kernels, sizes, weights, caches, rows, columns, step, i, 2 * i + 1, x_, hidden, h_, spare_)
        for tap in range(len(taps)):
            if taps[tap] == i + 1 < layers:
                keep(kernels, sizes, x_, n, caches.ends, outputs, tap)
    start, count = outputs.first, outputs.rows
    for tap in range(len(taps)):
        if taps[tap] == layers:  # what the head reads, of all rows
            start, count = 0, n
    last_norm = weights.norms[2 * layers].ctypes.data
    call(kernels.norm, (x_ + 4 * start * hidden, last_norm, h_, count, hidden, rounded, eps))
    for tap in range(len(taps)):
        if taps[tap] == layers:
            keep(kernels, sizes, h_, n, caches.ends, outputs, tap)
    read_ = h_ + 4 * (outputs.first - start) * hidden
    head, scales = weights.blocks[layers, 0], weights.scales[layers, 0]
    call(kernels.multiply, (read_, head, scales, out_, spare_, outputs.rows, hidden, wide_vocab, rounded))
    for i in range(outputs.rows):
        call(kernels.store, (out_ + 4 * i * wide_vocab, outputs.logits + size * i * vocab, vocab, rounded))
    return scratch


@lru_cache(maxsize=4)
def addresses(stored: int) -> Kernels:
    """The kernels for weights stored in this way. Compiles what is missing."""
    steps = (kernel() for kernel in (norm, add, gate, apply_rope, read, store, attend))
    return Kernels(*(kernel.address for kernel in (MULTIPLY[stored](), *steps)))
