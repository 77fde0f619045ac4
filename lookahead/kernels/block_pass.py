"""A block head's pass in one compiled call: the target's hidden states of new tokens go into its cache, and the slots of a
block look at all that stands there, and at the slots before them.

The new tokens' rows come first and only leave keys and values, which all layers make of the same input; so every weight is
read once for both.
"""

from __future__ import annotations

import numpy as np

from .chain import level, picked, stops
from .compiling import compiled
from .layer_pass import layer, scratch_floats
from .vectors import BLOCK, call, copy, whole


@compiled
def forward(
    steps, states, n, fed, ids, embed, cos, sin, norms, head_norms, weights, scales, caches, start, causal, room, heads, kv,
    inner, vocab, known, rounded, spare, hidden_states, logits, eps, scaling,
):  # fmt: skip
    """The slots' normed hidden states [slots, hidden] and logits [slots, whole blocks of the `known` tokens], both float32.

    Arrays: steps as `whole_pass.addresses` has them; ids [slots]; cos, sin [n + slots, dim] from position `start` on;
    norms [2 layers + 2, hidden], the context's first; head_norms [layers, 2, dim] of queries and keys, or [layers, 0, dim];
    weights, scales [layers + 1, 4] are addresses of blocks: of qkv, out, gate and up, down, and in the last row of fc and
    the head; caches [layers, 2] are addresses of keys and values [kv, room, dim], whose first `start` columns are filled.
    Addresses: `states` [n, fed], embed [vocab, hidden], hidden_states, logits. A slot sees those behind it only if not
    `causal`.

    Raises `IndexError` for an id that is not in the vocabulary.
    """
    multiplied, normed, _, _, _, read, _, _ = steps
    slots, hidden, dim, layers = len(ids), norms.shape[1], cos.shape[1], len(caches)
    size, most = 2 if rounded else 4, start + n + slots
    if ids.min() < 0 or ids.max() >= vocab:
        raise IndexError("a token id is not in the model's vocabulary")
    wide_hidden, new = whole(hidden, BLOCK), np.arange(start, most)
    straight = new[n:] + 1 if causal else np.full(slots, most)
    none, no_branch = np.zeros(slots, np.int64), np.zeros((slots, 1), np.int64)
    rooms, ends = np.full(1, room), np.full(1, slots)
    inside = sum(scratch_floats(slots, n, hidden, hidden, heads, kv, dim, inner, most))
    scratch = np.empty(n * (fed + wide_hidden + hidden) + slots * hidden + inside + spare, np.float32)
    fed_ = np.int64(scratch.ctypes.data)
    joined_ = fed_ + 4 * n * fed
    context_ = joined_ + 4 * n * wide_hidden
    x_ = context_ + 4 * n * hidden
    h_ = x_ + 4 * slots * hidden
    spare_ = h_ + 4 * inside
    for i in range(slots):
        call(read, (embed + size * ids[i] * hidden, x_ + 4 * i * hidden, hidden, rounded))
    call(read, (states, fed_, n * fed, rounded))
    call(multiplied, (fed_, weights[layers, 0], scales[layers, 0], joined_, spare_, n, fed, wide_hidden, rounded))
    for i in range(n):
        row = context_ + 4 * i * hidden
        call(normed, (joined_ + 4 * i * wide_hidden, norms[0].ctypes.data, row, 1, hidden, rounded, eps))
    for i in range(layers):
        call(read, (context_, h_, n * hidden, 0))
        call(normed, (x_, norms[2 * i + 1].ctypes.data, h_ + 4 * n * hidden, slots, hidden, rounded, eps))
        layer(
            steps, x_, slots, n, hidden, hidden, weights[i], scales[i], norms[2 * i + 2], head_norms[i], cos, sin,
            caches.reshape(1, layers, 2), i, rooms, ends, new, straight, no_branch, none, heads, kv, inner, rounded, eps, scaling, h_,
            spare_, np.int64(0), np.int64(0),
        )  # fmt: skip
    call(normed, (x_, norms[2 * layers + 1].ctypes.data, hidden_states, slots, hidden, rounded, eps))
    call(multiplied, (
        hidden_states, weights[layers, 1], scales[layers, 1], logits, spare_, slots, hidden, whole(known, BLOCK), rounded,
    ))  # fmt: skip
    return scratch, straight, none, no_branch, new


@compiled
def slot(multiplied, hidden, logits, before, weights, scales, proj, proj_bias, rounded, spare, out):
    """Into `out` [whole blocks of the known tokens] a slot's logits with the Markov head's bias; returns how likely its token is
    accepted.

    Arrays: the slot's hidden state and logits as the pass left them; before [rank], what the Markov head has of the token
    before; proj [hidden + rank] the confidence head's. Addresses: of the product's kernel, and of the blocks and scales of
    the bias [known, rank].
    """
    width, rank, sure = len(hidden), len(before), proj_bias
    scratch = np.empty(spare, np.float32)
    out[:] = 0
    if rank:
        call(
            multiplied,
            (before.ctypes.data, weights, scales, out.ctypes.data, scratch.ctypes.data, 1, rank, len(out), rounded),
        )
    for i in range(len(out)):
        out[i] += logits[i]
    for i in range(width):
        sure += proj[i] * hidden[i]
    for i in range(rank):
        sure += proj[width + i] * before[i]
    return 1 / (1 + np.exp(-sure)), scratch[:1]


@compiled
def chain(
    multiplied, hidden, logits, first, before, table, weights, scales, proj, proj_bias, confident, rounded, spare, request
):  # fmt: skip
    """Draft slots from `first` on, each behind the token drafted before it, the first behind `before`: tokens and chances,
    [drafted] each.

    `hidden` [slots, hidden], `logits` [slots, whole blocks of the known tokens] and the rest as `slot` takes them, but for the
    table [vocab, rank], what the Markov head has of every token. Without a confidence head a token's confidence is its share
    of the softmax. `request`: see `chain.Request`.
    """
    most, known, ids, reach = request.most, request.known, request.ids, request.reach
    tokens, confidences, count = np.empty(most, np.int64), np.empty(most), np.int64(0)
    out = np.empty(logits.shape[1], np.float32)
    while True:
        at = first + count
        sure, _ = slot(
            multiplied, hidden[at], logits[at], table[before], weights, scales, proj, proj_bias, rounded, spare, out
        )
        place, share = picked(out[:known], request.scale, request.noise, count)
        token = ids[place] if len(ids) else place
        tokens[count], confidences[count] = token, sure if confident else share
        reach *= confidences[count]
        count += 1
        if count == most or stops(request, reach, count):
            return tokens[:count], confidences[:count]
        before = token


@compiled
def tree(multiplied, logits, anchor, table, weights, scales, rounded, spare, branches, rows, request):
    """Grow a tree from the slots behind the token `anchor`, a level a slot: tokens, parents (-1: the anchor), and the share of
    each of its softmax, [drafted] each. At most `rows` in all, and of a level the `branches` that are likeliest reached; the
    last level is the one behind which those of the next would not pay.

    Otherwise as `chain` takes them.
    """
    most = request.most
    tokens, parents, chances, reach = np.empty(rows, np.int64), np.empty(rows, np.int64), np.empty(rows), np.empty(rows)
    width, rank = logits.shape[1], table.shape[1]
    before, out = np.empty((branches, rank), np.float32), np.empty((branches, width), np.float32)
    scratch = np.empty(spare, np.float32)
    first, count, above = np.int64(0), np.int64(0), np.int64(1)
    for depth in range(most):
        for i in range(above):
            copy(table[tokens[first + i] if depth else anchor], before[i])
        out[:above] = 0
        if rank:
            call(multiplied, (
                before.ctypes.data, weights, scales, out.ctypes.data, scratch.ctypes.data, above, rank, width, rounded,
            ))  # fmt: skip
        for i in range(above):
            for j in range(width):
                out[i, j] += logits[depth, j]
        newest = count
        count, reached = level(out, depth, above, first, count, tokens, parents, chances, reach, request)
        first, above = newest, count - newest
        if count == rows or stops(request, reached, depth + 1):
            break
    return tokens[:count], parents[:count], chances[:count], scratch[:1]
