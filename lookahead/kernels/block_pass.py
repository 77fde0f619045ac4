"""Passes of block heads and Medusa heads, each in one compiled call, and drafting from their slots.

A block head's cache holds the target's hidden states of the text. The slots of a block attend to the cache and to the
slots before them.

The new tokens' rows come first. They only store keys and values, which each layer computes from the same input. So one
pass over the weights serves the new tokens and the slots.
"""

from typing import NamedTuple

import numpy as np

from .compiling import compiled, internal
from .draft import REQUEST, add_level, pick, stops
from .llama_pass import check_ids, describe, layer_scratch_floats
from .product import begin_pass, pass_floats, temp_floats
from .records import (
    CACHES,
    FLOAT,
    FLOATS,
    FLOATS_2D,
    INTEGER,
    INTEGERS,
    KERNELS,
    ROWS,
    SIZES,
    WEIGHTS,
    Columns,
    tuple_type,
)
from .team import threads
from .vectors import BLOCK, call, copy, exp, round_up

EXP_LIMIT = np.float32(80)  # limit of the argument of `exp`, which overflows above 87


@compiled(KERNELS, SIZES, WEIGHTS, CACHES, ROWS, *[INTEGER] * 6)
def forward(kernels, sizes, weights, caches, rows, start, causal, states, state_width, hidden_states, logits):
    """Compute the slots' normed hidden states [slots, hidden] and logits [slots, width], both float32.

    `rows` are the slots. Its rotations begin at the position `start`: first those of n tokens of the text, then those
    of the slots. `weights.norms` [2 layers + 2, hidden] begin with the context's norm. The last row of weights has fc
    and the head. The first `start` columns of the cache are filled. Addresses: `states` [n, state_width],
    `hidden_states`, `logits`. `width` is the output vocabulary in full blocks. If `causal`, a slot attends only to the
    slots before it.

    Raises `IndexError` if an id is not in the vocabulary.
    """
    slots, layers = len(rows.ids), caches.addresses.shape[1]
    hidden, rounded, eps = sizes.hidden, sizes.rounded, sizes.eps
    n, size, norms = len(rows.cos) - slots, 2 if rounded else 4, weights.norms
    max_columns = start + n + slots
    check_ids(rows.ids, sizes.vocab)
    padded_hidden, new_columns = round_up(hidden, BLOCK), np.arange(start, max_columns)
    prefix = new_columns[n:] + 1 if causal else np.full(slots, max_columns)
    columns = Columns(new_columns, prefix, np.zeros((slots, 1), np.int64), np.zeros(slots, np.int64))
    count = threads(kernels)
    memory = pass_floats(count, n + slots, sizes.max_inputs)
    layer_floats = sum(layer_scratch_floats(sizes, slots, n, hidden, max_columns, count))
    floats = n * (state_width + padded_hidden + hidden) + slots * hidden + layer_floats
    scratch = np.empty(memory + floats, np.float32)
    pass_ = np.int64(scratch.ctypes.data)
    begin_pass(kernels, count, pass_, n + slots, sizes.max_inputs)
    describe(pass_, kernels, sizes, weights, caches, rows, columns)
    states_ = pass_ + 4 * memory
    fused_ = states_ + 4 * n * state_width
    context_ = fused_ + 4 * n * padded_hidden
    x_ = context_ + 4 * n * hidden
    h_ = x_ + 4 * slots * hidden
    for i in range(slots):
        call(kernels.read, (weights.embed + size * rows.ids[i] * hidden, x_ + 4 * i * hidden, hidden, rounded))
    call(kernels.read, (states, states_, n * state_width, rounded))
    fc, scales = weights.blocks[layers, 0], weights.scales[layers, 0]
    call(kernels.product, (pass_, states_, fc, scales, fused_, n, state_width, padded_hidden, rounded))
    for i in range(n):
        row = context_ + 4 * i * hidden
        call(kernels.norm, (fused_ + 4 * i * padded_hidden, norms[0].ctypes.data, row, 1, hidden, rounded, eps))
    for i in range(layers):
        call(kernels.read, (context_, h_, n * hidden, 0))
        norm = norms[2 * i + 1].ctypes.data
        call(kernels.norm, (x_, norm, h_ + 4 * n * hidden, slots, hidden, rounded, eps))
        call(kernels.layer, (pass_, i, 2 * i + 2, x_, hidden, h_))
    call(kernels.norm, (x_, norms[2 * layers + 1].ctypes.data, hidden_states, slots, hidden, rounded, eps))
    head, scales, width = weights.blocks[layers, 1], weights.scales[layers, 1], round_up(sizes.output_vocab, BLOCK)
    call(kernels.product, (pass_, hidden_states, head, scales, logits, slots, hidden, width, rounded))
    return scratch, columns.new, columns.prefix, columns.branch, columns.counts


@compiled(KERNELS, SIZES, INTEGER, INTEGERS, INTEGERS, FLOATS_2D, INTEGER)
def medusa(kernels, sizes, state, blocks, scales, biases, logits):
    """Compute the heads' logits [slots, width], float32, after one token.

    `state` [hidden] is the last hidden state of the token before it, as stored. `blocks` and `scales` [2] are addresses
    of the layers of all residual blocks, [slots times hidden, hidden], and of the output head; biases [slots, hidden].
    `state` and `logits` are addresses.
    """
    slots, hidden = biases.shape
    size, width, rounded = round_up(slots * hidden, BLOCK), round_up(sizes.output_vocab, BLOCK), sizes.rounded
    x, inner, rows = np.empty(hidden, np.float32), np.empty(size, np.float32), np.empty((slots, hidden), np.float32)
    x_, inner_, rows_ = np.int64(x.ctypes.data), np.int64(inner.ctypes.data), np.int64(rows.ctypes.data)
    count = threads(kernels)
    scratch = np.empty(pass_floats(count, slots, hidden), np.float32)
    pass_ = np.int64(scratch.ctypes.data)
    begin_pass(kernels, count, pass_, slots, hidden)
    call(kernels.read, (state, x_, hidden, rounded))
    call(kernels.product, (pass_, x_, blocks[0], scales[0], inner_, np.int64(1), hidden, size, rounded))
    for slot in range(slots):
        for i in range(hidden):
            z = inner[slot * hidden + i] + biases[slot, i]
            rows[slot, i] = x[i] + z / (np.float32(1) + exp(min(-z, EXP_LIMIT)))
    call(kernels.product, (pass_, rows_, blocks[1], scales[1], logits, slots, hidden, width, rounded))
    return scratch[:1], x, inner, rows


class Markov(NamedTuple):
    """The heads that process the slots' logits.

    The Markov head has a `table` [vocab, rank] and a bias [output_vocab, rank] at the addresses `blocks` and `scales`.
    The confidence head has `proj` [hidden + rank] and `proj_bias`, if the head is `confident`. `multiply` is the
    address of the kernel for the product.
    """

    multiply: int
    table: np.ndarray
    blocks: int
    scales: int
    proj: np.ndarray
    proj_bias: np.float32
    confident: int
    rounded: int


MARKOV = tuple_type(Markov, INTEGER, FLOATS_2D, INTEGER, INTEGER, FLOATS, FLOAT, INTEGER, INTEGER)


@internal()
def add_bias(markov, embeddings, logits, out, temp):
    """Compute out [rows, width] = logits [width] + the Markov head's bias.

    `embeddings` [rows, rank] are the rows of its table for the previous tokens. `temp` has `temp_floats` floats.
    """
    (rows, rank), width = embeddings.shape, len(logits)
    out[:] = 0
    if rank:
        call(markov.multiply, (
            embeddings.ctypes.data, markov.blocks, markov.scales, out.ctypes.data, temp.ctypes.data, rows, rank, width, 0,
            width, markov.rounded,
        ))  # fmt: skip
    for i in range(rows):
        for j in range(width):
            out[i, j] += logits[j]


@compiled(MARKOV, FLOATS, FLOATS, INTEGER, FLOATS_2D)
def slot(markov, hidden, logits, previous, out):
    """Write a slot's logits after the token `previous` to `out` [1, width]; return the confidence in its token."""
    embedding, width, confidence = markov.table[previous], len(hidden), markov.proj_bias
    temp = np.empty(temp_floats(1, len(embedding)), np.float32)
    add_bias(markov, markov.table[previous : previous + 1], logits, out, temp)
    for i in range(width):
        confidence += markov.proj[i] * hidden[i]
    for i in range(len(embedding)):
        confidence += markov.proj[width + i] * embedding[i]
    return 1 / (1 + np.exp(-confidence)), temp[:1]


@compiled(MARKOV, FLOATS_2D, FLOATS_2D, INTEGER, INTEGER, REQUEST)
def chain(markov, hidden, logits, first, previous, request):
    """Draft from the slots from `first` on, each after the token drafted before it, the first after `previous`.

    Returns tokens and confidences, [drafted] each. `hidden` [slots, hidden] and `logits` [slots, width] are as the pass
    computed them. Without a confidence head, the confidence of a token is its softmax probability.
    """
    max_tokens, output_vocab, ids, reach = request.max_tokens, request.output_vocab, request.ids, request.reach
    tokens, confidences, count = np.empty(max_tokens, np.int64), np.empty(max_tokens), np.int64(0)
    out = np.empty((1, logits.shape[1]), np.float32)
    while True:
        index = first + count
        confidence, _ = slot(markov, hidden[index], logits[index], previous, out)
        pick_index, share = pick(out[0, :output_vocab], request.scale, request.noise, count)
        token = ids[pick_index] if len(ids) else pick_index
        tokens[count], confidences[count] = token, confidence if markov.confident else share
        reach *= confidences[count]
        count += 1
        if count == max_tokens or stops(request, reach, count):
            return tokens[:count], confidences[:count]
        previous = token


@compiled(MARKOV, FLOATS_2D, INTEGER, INTEGER, INTEGER, REQUEST)
def tree(markov, logits, anchor, branches, rows, request):
    """Draft a tree from the slots after the token `anchor`, one level per slot, as `draft.tree` does.

    Returns tokens, parents (-1: the anchor) and softmax probabilities. The other arguments are as in `chain`.
    """
    max_tokens = request.max_tokens
    tokens, parents, chances, reach = np.empty(rows, np.int64), np.empty(rows, np.int64), np.empty(rows), np.empty(rows)
    width, rank = logits.shape[1], markov.table.shape[1]
    embeddings, out = np.empty((branches, rank), np.float32), np.empty((branches, width), np.float32)
    temp = np.empty(temp_floats(branches, rank), np.float32)
    first, count, level_size = np.int64(0), np.int64(0), np.int64(1)
    for depth in range(max_tokens):
        for i in range(level_size):
            copy(markov.table[tokens[first + i] if depth else anchor], embeddings[i])
        add_bias(markov, embeddings[:level_size], logits[depth], out[:level_size], temp)
        level_start = count
        count, reached = add_level(out, depth, level_size, first, count, tokens, parents, chances, reach, request)
        first, level_size = level_start, count - level_start
        if count == rows or stops(request, reached, depth + 1):
            break
    return tokens[:count], parents[:count], chances[:count], temp[:1]
