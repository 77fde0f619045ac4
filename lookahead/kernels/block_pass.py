"""A block head's pass in one compiled call: the target's hidden states of new tokens go into its cache, and the slots of a
block look at all that stands there, and at the slots before them.

The new tokens' rows come first and only leave keys and values, which all layers make of the same input; so every weight is
read once for both.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from .chain import level, picked, stops
from .columns import Columns
from .compiling import compiled
from .layer_pass import check_ids, layer, scratch_floats
from .product import spare_floats
from .records import Step
from .vectors import BLOCK, call, copy, whole


@compiled
def forward(kernels, sizes, weights, caches, rows, start, causal, states, fed, hidden_states, logits):
    """The slots' normed hidden states [slots, hidden] and logits [slots, whole blocks of the known tokens], both float32.

    `rows` are the slots, with rotations from position `start` on: those of n tokens of the text first. `weights.norms`
    [2 layers + 2, hidden] are the context's first; in the last row of weights are fc and the head. The first `start` columns of
    the cache are filled. Addresses: `states` [n, fed], hidden_states, logits. A slot attends to those after it only if not
    `causal`.

    Raises `IndexError` for an id that is not in the vocabulary.
    """
    slots, layers = len(rows.ids), caches.addresses.shape[1]
    hidden, rounded, eps = sizes.hidden, sizes.rounded, sizes.eps
    n, size, norms = len(rows.cos) - slots, 2 if rounded else 4, weights.norms
    most = start + n + slots
    check_ids(rows.ids, sizes.vocab)
    wide_hidden, new = whole(hidden, BLOCK), np.arange(start, most)
    straight = new[n:] + 1 if causal else np.full(slots, most)
    columns = Columns(new, straight, np.zeros((slots, 1), np.int64), np.zeros(slots, np.int64))
    inside = sum(scratch_floats(sizes, slots, n, hidden, most))
    spare = spare_floats(n + slots, sizes.widest)
    scratch = np.empty(n * (fed + wide_hidden + hidden) + slots * hidden + inside + spare, np.float32)
    fed_ = np.int64(scratch.ctypes.data)
    joined_ = fed_ + 4 * n * fed
    context_ = joined_ + 4 * n * wide_hidden
    x_ = context_ + 4 * n * hidden
    h_ = x_ + 4 * slots * hidden
    spare_ = h_ + 4 * inside
    for i in range(slots):
        call(kernels.read, (weights.embed + size * rows.ids[i] * hidden, x_ + 4 * i * hidden, hidden, rounded))
    call(kernels.read, (states, fed_, n * fed, rounded))
    fc, scales = weights.blocks[layers, 0], weights.scales[layers, 0]
    call(kernels.multiply, (fed_, fc, scales, joined_, spare_, n, fed, wide_hidden, rounded))
    for i in range(n):
        row = context_ + 4 * i * hidden
        call(kernels.norm, (joined_ + 4 * i * wide_hidden, norms[0].ctypes.data, row, 1, hidden, rounded, eps))
    step = Step(np.int64(0), np.int64(0))
    for i in range(layers):
        call(kernels.read, (context_, h_, n * hidden, 0))
        norm = norms[2 * i + 1].ctypes.data
        call(kernels.norm, (x_, norm, h_ + 4 * n * hidden, slots, hidden, rounded, eps))
        layer(kernels, sizes, weights, caches, rows, columns, step, i, 2 * i + 2, x_, hidden, h_, spare_)
    call(kernels.norm, (x_, norms[2 * layers + 1].ctypes.data, hidden_states, slots, hidden, rounded, eps))
    head, scales, wide = weights.blocks[layers, 1], weights.scales[layers, 1], whole(sizes.known, BLOCK)
    call(kernels.multiply, (hidden_states, head, scales, logits, spare_, slots, hidden, wide, rounded))
    return scratch, straight, new


class Markov(NamedTuple):
    """What follows the slots' logits: the Markov head's `table` [vocab, rank], the addresses of the `blocks` and `scales` of its
    bias [known, rank], and the confidence head's `proj` [hidden + rank] and `proj_bias`, if the head is `confident`. The product
    is computed by the kernel at `multiply`."""

    multiply: int
    table: np.ndarray
    blocks: int
    scales: int
    proj: np.ndarray
    proj_bias: np.float32
    confident: int
    rounded: int


@compiled
def slot(markov, hidden, logits, before, out):
    """Into `out` [whole blocks of the known tokens] a slot's logits with the Markov head's bias; returns how likely its token is
    accepted. The slot's hidden state and logits are as the pass left them; `before` is the token before.
    """
    known, width, sure = markov.table[before], len(hidden), markov.proj_bias
    rank = len(known)
    scratch = np.empty(spare_floats(1, rank), np.float32)
    out[:] = 0
    if rank:
        call(markov.multiply, (
            known.ctypes.data, markov.blocks, markov.scales, out.ctypes.data, scratch.ctypes.data, 1, rank, len(out),
            markov.rounded,
        ))  # fmt: skip
    for i in range(len(out)):
        out[i] += logits[i]
    for i in range(width):
        sure += markov.proj[i] * hidden[i]
    for i in range(rank):
        sure += markov.proj[width + i] * known[i]
    return 1 / (1 + np.exp(-sure)), scratch[:1]


@compiled
def chain(markov, hidden, logits, first, before, request):
    """Draft slots from `first` on, each after the token drafted before it, the first after `before`: tokens and chances,
    [drafted] each.

    `hidden` [slots, hidden] and `logits` [slots, whole blocks of the known tokens] are as the pass left them. Without a confidence
    head a token's confidence is its share of the softmax.
    """
    most, known, ids, reach = request.most, request.known, request.ids, request.reach
    tokens, confidences, count = np.empty(most, np.int64), np.empty(most), np.int64(0)
    out = np.empty(logits.shape[1], np.float32)
    while True:
        at = first + count
        sure, _ = slot(markov, hidden[at], logits[at], before, out)
        place, share = picked(out[:known], request.scale, request.noise, count)
        token = ids[place] if len(ids) else place
        tokens[count], confidences[count] = token, sure if markov.confident else share
        reach *= confidences[count]
        count += 1
        if count == most or stops(request, reach, count):
            return tokens[:count], confidences[:count]
        before = token


@compiled
def tree(markov, logits, anchor, branches, rows, request):
    """Grow a tree from the slots after the token `anchor`, a level per slot: tokens, parents (-1: the anchor), and the share of
    each of its softmax, [drafted] each. There are at most `rows` rows, and of a level the `branches` that are likeliest reached;
    the last level is the one after which those of the next would not pay.

    Otherwise as `chain` takes them.
    """
    most = request.most
    tokens, parents, chances, reach = np.empty(rows, np.int64), np.empty(rows, np.int64), np.empty(rows), np.empty(rows)
    width, rank = logits.shape[1], markov.table.shape[1]
    before, out = np.empty((branches, rank), np.float32), np.empty((branches, width), np.float32)
    scratch = np.empty(spare_floats(branches, rank), np.float32)
    first, count, above = np.int64(0), np.int64(0), np.int64(1)
    for depth in range(most):
        for i in range(above):
            copy(markov.table[tokens[first + i] if depth else anchor], before[i])
        out[:above] = 0
        if rank:
            call(markov.multiply, (
                before.ctypes.data, markov.blocks, markov.scales, out.ctypes.data, scratch.ctypes.data, above, rank, width,
                markov.rounded,
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
