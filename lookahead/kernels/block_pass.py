"""Passes of heads with slots in one compiled call each, and the drafts that are read off the slots.

Of a block head, the target's hidden states of new tokens go into its cache. The slots of a block attend to the cache and to the
slots before them.

The new tokens' rows come first and only leave keys and values, which all layers make of the same input; so every weight is
read once for both.
"""

from typing import NamedTuple

import numpy as np
from numba import njit

from .chain import level, picked, stops
from .compiling import compiled
from .product import spare_floats
from .records import Columns, Step
from .vectors import BLOCK, call, copy, exp, whole
from .whole_pass import check_ids, layer, scratch_floats

FARTHEST = np.float32(80)  # of what `exp` takes


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


@compiled
def medusa(kernels, sizes, state, blocks, scales, biases, logits):
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


@njit(error_model="numpy")
def biased(markov, before, logits, out, scratch):
    """out [rows, width] = logits [width] with the Markov head's bias after tokens whose rows of its table are `before`. Floats of
    the scratch: `spare_floats`."""
    (rows, rank), width = before.shape, len(logits)
    out[:] = 0
    if rank:
        call(markov.multiply, (
            before.ctypes.data, markov.blocks, markov.scales, out.ctypes.data, scratch.ctypes.data, rows, rank, width,
            markov.rounded,
        ))  # fmt: skip
    for i in range(rows):
        for j in range(width):
            out[i, j] += logits[j]


@compiled
def slot(markov, hidden, logits, before, out):
    """Into `out` [1, whole blocks of the known tokens] a slot's logits after the token `before`; returns how likely its token is
    accepted. The slot's hidden state and logits are as the pass left them."""
    known, width, sure = markov.table[before], len(hidden), markov.proj_bias
    scratch = np.empty(spare_floats(1, len(known)), np.float32)
    biased(markov, markov.table[before : before + 1], logits, out, scratch)
    for i in range(width):
        sure += markov.proj[i] * hidden[i]
    for i in range(len(known)):
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
    out = np.empty((1, logits.shape[1]), np.float32)
    while True:
        at = first + count
        sure, _ = slot(markov, hidden[at], logits[at], before, out)
        place, share = picked(out[0, :known], request.scale, request.noise, count)
        token = ids[place] if len(ids) else place
        tokens[count], confidences[count] = token, sure if markov.confident else share
        reach *= confidences[count]
        count += 1
        if count == most or stops(request, reach, count):
            return tokens[:count], confidences[:count]
        before = token


@compiled
def tree(markov, logits, anchor, branches, rows, request):
    """Grow a tree from the slots after the token `anchor`, a level per slot, as `chain.tree` does: tokens, parents (-1: the anchor),
    and the share of each of its softmax. Otherwise as `chain` takes them."""
    most = request.most
    tokens, parents, chances, reach = np.empty(rows, np.int64), np.empty(rows, np.int64), np.empty(rows), np.empty(rows)
    width, rank = logits.shape[1], markov.table.shape[1]
    before, out = np.empty((branches, rank), np.float32), np.empty((branches, width), np.float32)
    scratch = np.empty(spare_floats(branches, rank), np.float32)
    first, count, above = np.int64(0), np.int64(0), np.int64(1)
    for depth in range(most):
        for i in range(above):
            copy(markov.table[tokens[first + i] if depth else anchor], before[i])
        biased(markov, before[:above], logits[depth], out[:above], scratch)
        newest = count
        count, reached = level(out, depth, above, first, count, tokens, parents, chances, reach, request)
        first, above = newest, count - newest
        if count == rows or stops(request, reached, depth + 1):
            break
    return tokens[:count], parents[:count], chances[:count], scratch[:1]
