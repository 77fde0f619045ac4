"""A block drafter's pass in one compiled call: the target's hidden states of new tokens go into its cache, and the slots of
a block look at all that stands there, and at the slots before them.

The new tokens' rows come first and only have keys and values, which all layers make of the same input; so every weight is
read once for both.

Knows addresses, and the order of a pass. It does not know models, tokens or caches.
"""

from __future__ import annotations

import numpy as np
from numba import njit

from .compiling import kept
from .vectors import BLOCK, call, whole


@kept(njit, nogil=True, error_model="numpy")
def forward(
    steps, states, n, fed, ids, embed, cos, sin, norms, head_norms, weights, scales, caches, start, causal, room, heads, kv,
    inner, vocab, rounded, spare, hidden_states, logits, eps, scaling,
):  # fmt: skip
    """The slots' normed hidden states [slots, hidden] and logits [slots, whole blocks of the vocabulary], both float32.

    Arrays: steps as `whole_pass.addresses` has them; ids [slots]; cos, sin [n + slots, dim] from position `start` on;
    norms [2 layers + 2, hidden], the context's first; head_norms [layers, 2, dim] of queries and keys; weights, scales
    [layers + 1, 4] are addresses of blocks: of qkv, out, gate and up, down, and in the last row of fc and the head; caches
    [layers, 2] are addresses of keys and values [kv, room, dim], whose first `start` columns are filled. Addresses:
    `states` [n, fed], embed [vocab, hidden], hidden_states, logits. A slot sees those behind it only if not `causal`.

    Raises `IndexError` for an id that is not in the vocabulary.
    """
    multiplied, normed, added, gated_by, turned, read, stored, attended = steps
    slots, hidden, dim, layers = len(ids), norms.shape[1], cos.shape[1], len(caches)
    both, size, width = n + slots, 2 if rounded else 4, heads * dim
    if ids.min() < 0 or ids.max() >= vocab:
        raise IndexError("a token id is not in the model's vocabulary")
    wide_qkv, wide_both = whole((heads + 2 * kv) * dim, BLOCK), whole(2 * inner, BLOCK)
    wide_hidden, wide_vocab, most = whole(hidden, BLOCK), whole(vocab, BLOCK), start + both
    straight = np.empty(slots, np.int64)
    for i in range(slots):
        straight[i] = start + n + i + 1 if causal else most
    none, no_branch = np.zeros(slots, np.int64), np.zeros(slots, np.int64)
    scratch = np.empty(
        n * fed + both * (hidden + wide_qkv) + slots * (hidden + width + wide_both + inner + wide_hidden + most)
        + n * wide_hidden + spare,
        np.float32,
    )  # fmt: skip
    fed_ = scratch.ctypes.data
    h_ = fed_ + 4 * n * fed
    qkv_ = h_ + 4 * both * hidden
    x_ = qkv_ + 4 * both * wide_qkv
    mixed_ = x_ + 4 * slots * hidden
    both_ = mixed_ + 4 * slots * width
    gated_ = both_ + 4 * slots * wide_both
    back_ = gated_ + 4 * slots * inner
    scores_ = back_ + 4 * slots * wide_hidden
    joined_ = scores_ + 4 * slots * most
    spare_ = joined_ + 4 * n * wide_hidden
    for i in range(slots):
        call(read, (embed + size * ids[i] * hidden, x_ + 4 * i * hidden, hidden, rounded))
    call(read, (states, fed_, n * fed, rounded))
    call(multiplied, (fed_, weights[layers, 0], scales[layers, 0], joined_, spare_, n, fed, wide_hidden, rounded))
    for i in range(n):
        call(normed, (joined_ + 4 * i * wide_hidden, norms[0].ctypes.data, h_ + 4 * i * hidden, 1, hidden, rounded, eps))
    slots_ = h_ + 4 * n * hidden
    for layer in range(layers):
        w, s, keys, values = weights[layer], scales[layer], caches[layer, 0], caches[layer, 1]
        call(normed, (x_, norms[2 * layer + 1].ctypes.data, slots_, slots, hidden, rounded, eps))
        call(multiplied, (h_, w[0], s[0], qkv_, spare_, both, hidden, wide_qkv, rounded))
        for i in range(both):
            row = qkv_ + 4 * i * wide_qkv
            call(normed, (row, head_norms[layer, 0].ctypes.data, row, heads, dim, rounded, eps))
            call(normed, (row + 4 * width, head_norms[layer, 1].ctypes.data, row + 4 * width, kv, dim, rounded, eps))
        call(turned, (qkv_, cos.ctypes.data, sin.ctypes.data, both, heads + kv, dim // 2, wide_qkv, rounded))
        for i in range(both):
            row = qkv_ + 4 * (i * wide_qkv + width)
            for head in range(kv):
                place = size * dim * (head * room + start + i)
                call(stored, (row + 4 * head * dim, keys + place, dim, rounded))
                call(stored, (row + 4 * (kv + head) * dim, values + place, dim, rounded))
        call(attended, (
            qkv_ + 4 * n * wide_qkv, wide_qkv, keys, values, room, dim, mixed_, scores_, most, straight.ctypes.data,
            no_branch.ctypes.data, 1, none.ctypes.data, slots, heads, kv, rounded, scaling,
        ))  # fmt: skip
        call(multiplied, (mixed_, w[1], s[1], back_, spare_, slots, width, wide_hidden, rounded))
        call(added, (x_, back_, slots, hidden, wide_hidden, rounded))
        call(normed, (x_, norms[2 * layer + 2].ctypes.data, slots_, slots, hidden, rounded, eps))
        call(multiplied, (slots_, w[2], s[2], both_, spare_, slots, hidden, wide_both, rounded))
        call(gated_by, (both_, gated_, slots, inner, wide_both, rounded))
        call(multiplied, (gated_, w[3], s[3], back_, spare_, slots, inner, wide_hidden, rounded))
        call(added, (x_, back_, slots, hidden, wide_hidden, rounded))
    call(normed, (x_, norms[2 * layers + 1].ctypes.data, hidden_states, slots, hidden, rounded, eps))
    call(multiplied, (hidden_states, weights[layers, 1], scales[layers, 1], logits, spare_, slots, hidden, wide_vocab, rounded))
    return scratch, straight, none, no_branch
