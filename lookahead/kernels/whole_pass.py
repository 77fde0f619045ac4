"""A Llama's pass in one compiled call, which walks the layers: a small model's pass in separate operators is mostly the
starting of operators.
"""

from __future__ import annotations

from functools import lru_cache

import numpy as np
from numba import njit

from .attend import attend
from .compiling import compiled
from .elementwise import add, gate, norm, read, store, turn
from .layer_pass import layer, scratch_floats
from .multiply import multiply
from .vectors import BLOCK, call, whole


@njit(error_model="numpy")
def keep(stored, x_, n, hidden, size, rounded, ends, states, tap, taps):
    """Store the rows x [n, hidden] of all texts among the `taps` hidden states of each."""
    text = first = 0
    for row in range(n):
        while row >= ends[text]:
            first, text = ends[text], text + 1
        place = states[text] + size * ((row - first) * taps + tap) * hidden
        call(stored, (x_ + 4 * row * hidden, place, hidden, rounded))


@compiled
def forward(
    steps, ids, embed, cos, sin, norms, weights, scales, caches, rooms, ends, new, straight, branch, counts, heads, kv, inner,
    vocab, rounded, spare, first, rows, logits, eps, scaling, taps, states, counter, counter_before,
):  # fmt: skip
    """A whole pass over rows of one text or of several: into `logits` [rows, vocab] those of so many rows from `first` on.

    Arrays: steps as `addresses` has them; ids [n]; cos, sin [n, dim]; norms [2 layers + 1, hidden]; weights, scales
    [layers + 1, 4] are addresses of blocks: of qkv, out, gate and up, down, and in the last row of the head; caches
    [texts, layers, 2] are addresses of keys and values [kv, room, dim], of the `rooms` [texts], for the rows before `ends`
    [texts]; new [n], where a row's go there; straight [n], branch [n, longest] and counts [n]: see `attend.attend`. `spare`
    is the most of `spare_floats` for the pass's products; `states` [texts] are addresses of [rows, len(taps), hidden], where
    the hidden states behind the layers `taps` of a text's rows go, behind the last of them its norm. Addresses: embed
    [vocab, hidden], logits, and the counters, as `layer_pass.layer` takes them. What is stored is bfloat16 if `rounded`, else
    float32.

    Raises `IndexError` for an id that is not in the vocabulary.
    """
    multiplied, normed, _, _, _, read, stored, _ = steps
    n, hidden, dim = len(ids), norms.shape[1], cos.shape[1]
    size, layers, most = 2 if rounded else 4, caches.shape[1], new.max() + 1
    if ids.min() < 0 or ids.max() >= vocab:
        raise IndexError("a token id is not in the model's vocabulary")
    wide_vocab, no_norms = whole(vocab, BLOCK), np.empty((0, dim), np.float32)
    inside = sum(scratch_floats(n, np.int64(0), hidden, hidden, heads, kv, dim, inner, most))
    # numba frees an array behind its last use, whoever has its address: this one is returned.
    scratch = np.empty(n * hidden + rows * wide_vocab + inside + spare, np.float32)
    x_ = np.int64(scratch.ctypes.data)
    out_ = x_ + 4 * n * hidden
    h_ = out_ + 4 * rows * wide_vocab
    spare_ = h_ + 4 * inside
    for i in range(n):
        call(read, (embed + size * ids[i] * hidden, x_ + 4 * i * hidden, hidden, rounded))
    for i in range(layers):
        call(normed, (x_, norms[2 * i].ctypes.data, h_, n, hidden, rounded, eps))
        layer(
            steps, x_, n, np.int64(0), hidden, hidden, weights[i], scales[i], norms[2 * i + 1], no_norms, cos, sin, caches, i, rooms,
            ends, new, straight, branch, counts, heads, kv, inner, rounded, eps, scaling, h_, spare_, counter,
            counter_before,
        )  # fmt: skip
        for tap in range(len(taps)):
            if taps[tap] == i + 1 < layers:
                keep(stored, x_, n, hidden, size, rounded, ends, states, tap, len(taps))
    start, count = first, rows
    for tap in range(len(taps)):
        if taps[tap] == layers:  # what the head reads, of all rows
            start, count = 0, n
    call(normed, (x_ + 4 * start * hidden, norms[2 * layers].ctypes.data, h_, count, hidden, rounded, eps))
    for tap in range(len(taps)):
        if taps[tap] == layers:
            keep(stored, h_, n, hidden, size, rounded, ends, states, tap, len(taps))
    call(
        multiplied,
        (
            h_ + 4 * (first - start) * hidden,
            weights[layers, 0],
            scales[layers, 0],
            out_,
            spare_,
            rows,
            hidden,
            wide_vocab,
            rounded,
        ),
    )
    for i in range(rows):
        call(stored, (out_ + 4 * i * wide_vocab, logits + size * i * vocab, vocab, rounded))
    return scratch


@lru_cache(maxsize=4)
def addresses(stored: int) -> np.ndarray:
    """Of the kernels, for weights stored in this way, as `forward` takes them. Compiles what is missing."""
    steps = (kernel() for kernel in (norm, add, gate, turn, read, store, attend))
    return np.array([kernel.address for kernel in (multiply(stored), *steps)])
