"""A Llama's pass in one compiled call, which walks the layers: a small model's pass in separate operators is mostly the
starting of operators.

Knows addresses, and the order of a pass. It does not know models, tokens or caches.
"""

from __future__ import annotations

from functools import lru_cache

import numpy as np
from numba import njit

from .compiling import kept
from .kernels import add, attend, gate, norm, read, store, turn
from .multiply import multiply
from .vectors import BLOCK, call, whole


@kept(njit, nogil=True, error_model="numpy")
def forward(
    steps, ids, embed, cos, sin, norms, weights, scales, caches, new, straight, branch, counts, room, heads, kv, inner,
    vocab, rounded, spare, first, rows, logits, eps, scaling, taps, states,
):  # fmt: skip
    """A whole pass: into `logits` [rows, vocab] those of so many rows from `first` on.

    Arrays: steps as `addresses` has them; ids [n]; cos, sin [n, dim]; norms [2 layers + 1, hidden]; weights, scales
    [layers + 1, 4] are addresses of blocks: of qkv, out, gate and up, down, and in the last row of the head; caches
    [layers, 2] are addresses of keys and values [kv, room, dim]; new [n], where a row's go there; straight [n], branch
    [n, longest] and counts [n]: see `kernels.attend`. `spare` is the most of `spare_floats` for the pass's products.
    Addresses: embed [vocab, hidden], logits, and `states` [n, len(taps), hidden], where the hidden states behind the layers
    `taps` go. What is stored is bfloat16 if `rounded`, else float32.

    Raises `IndexError` for an id that is not in the vocabulary.
    """
    multiplied, normed, added, gated_by, turned, read, stored, attended = steps
    n, hidden, dim, longest = len(ids), norms.shape[1], cos.shape[1], branch.shape[1]
    size, layers, width = 2 if rounded else 4, len(caches), heads * dim
    most = (straight + counts).max()
    if ids.min() < 0 or ids.max() >= vocab:
        raise IndexError("a token id is not in the model's vocabulary")
    wide_qkv, wide_both = whole((heads + 2 * kv) * dim, BLOCK), whole(2 * inner, BLOCK)
    wide_hidden, wide_vocab = whole(hidden, BLOCK), whole(vocab, BLOCK)
    # numba frees an array behind its last use, whoever has its address: this one is returned.
    scratch = np.empty(
        n * (2 * hidden + width + wide_qkv + wide_both + inner + wide_hidden + most) + rows * wide_vocab + spare,
        np.float32,
    )
    x_ = scratch.ctypes.data
    h_ = x_ + 4 * n * hidden
    qkv_ = h_ + 4 * n * (hidden + width)  # h holds rows of either
    both_ = qkv_ + 4 * n * wide_qkv
    gated_ = both_ + 4 * n * wide_both
    back_ = gated_ + 4 * n * inner
    out_ = back_ + 4 * n * wide_hidden
    scores_ = out_ + 4 * rows * wide_vocab
    spare_ = scores_ + 4 * n * most
    for i in range(n):
        call(read, (embed + size * ids[i] * hidden, x_ + 4 * i * hidden, hidden, rounded))
    for layer in range(layers):
        w, s, keys, values = weights[layer], scales[layer], caches[layer, 0], caches[layer, 1]
        call(normed, (x_, norms[2 * layer].ctypes.data, h_, n, hidden, rounded, eps))
        call(multiplied, (h_, w[0], s[0], qkv_, spare_, n, hidden, wide_qkv, rounded))
        call(turned, (qkv_, cos.ctypes.data, sin.ctypes.data, n, heads + kv, dim // 2, wide_qkv, rounded))
        for i in range(n):
            at, row = new[i], qkv_ + 4 * (i * wide_qkv + width)
            for head in range(kv):
                place = size * dim * (head * room + at)
                call(stored, (row + 4 * head * dim, keys + place, dim, rounded))
                call(stored, (row + 4 * (kv + head) * dim, values + place, dim, rounded))
        call(attended, (
            qkv_, wide_qkv, keys, values, room, dim, h_, scores_, most, straight.ctypes.data, branch.ctypes.data, longest,
            counts.ctypes.data, n, heads, kv, rounded, scaling,
        ))  # fmt: skip
        call(multiplied, (h_, w[1], s[1], back_, spare_, n, width, wide_hidden, rounded))
        call(added, (x_, back_, n, hidden, wide_hidden, rounded))
        call(normed, (x_, norms[2 * layer + 1].ctypes.data, h_, n, hidden, rounded, eps))
        call(multiplied, (h_, w[2], s[2], both_, spare_, n, hidden, wide_both, rounded))
        call(gated_by, (both_, gated_, n, inner, wide_both, rounded))
        call(multiplied, (gated_, w[3], s[3], back_, spare_, n, inner, wide_hidden, rounded))
        call(added, (x_, back_, n, hidden, wide_hidden, rounded))
        for tap in range(len(taps)):
            if taps[tap] == layer + 1:
                for i in range(n):
                    place = states + size * (i * len(taps) + tap) * hidden
                    call(stored, (x_ + 4 * i * hidden, place, hidden, rounded))
    call(normed, (x_ + 4 * first * hidden, norms[2 * layers].ctypes.data, h_, rows, hidden, rounded, eps))
    call(multiplied, (h_, weights[layers, 0], scales[layers, 0], out_, spare_, rows, hidden, wide_vocab, rounded))
    for i in range(rows):
        call(stored, (out_ + 4 * i * wide_vocab, logits + size * i * vocab, vocab, rounded))
    return scratch


@lru_cache(maxsize=4)
def addresses(stored: int) -> np.ndarray:
    """Of the kernels, for weights stored in this way, as `forward` takes them. Compiles what is missing."""
    steps = (kernel() for kernel in (norm, add, gate, turn, read, store, attend))
    return np.array([kernel.address for kernel in (multiply(stored), *steps)])
