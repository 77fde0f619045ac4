"""A pass of an EAGLE head or an MTP module in one compiled call. Its input is a token's embedding and a feature.

The feature is that of the token before it: from the target's hidden states if the target has read that token. Otherwise
it is the output of an earlier pass. In an EAGLE head, fc computes features from hidden states, and the layer's input has
twice the width. In an MTP module, the hidden states are the features, and fc joins the embedding and the feature.
"""

from typing import NamedTuple

import numpy as np

from .compiling import compiled
from .draft import REQUEST, add_level, empty_columns, prepare_level, stops
from .llama_pass import check_ids, columns_end, describe, layer_scratch_floats
from .product import begin_pass, pass_floats
from .records import (
    CACHES,
    COLUMNS,
    FLOATS,
    FLOATS_2D,
    INTEGER,
    KERNELS,
    ROTATIONS,
    ROWS,
    SIZES,
    WEIGHTS,
    tuple_type,
)
from .team import threads
from .vectors import BLOCK, call, copy, round_up


class Form(NamedTuple):
    """The form of a network, as flags.

    `joins`: whether fc joins embedding and feature (MTP). `residual_normed`: whether the residual is the normed feature
    (EAGLE). `output_normed`: whether the feature of a row is normed.
    """

    joins: int
    residual_normed: int
    output_normed: int


NETWORK = KERNELS, SIZES, tuple_type(Form, *[INTEGER] * 3), WEIGHTS, CACHES
TEXT = FLOATS_2D, FLOATS, INTEGER, ROTATIONS


@compiled(*NETWORK, ROWS, COLUMNS, *[INTEGER] * 5)
def forward(kernels, sizes, form, weights, caches, rows, columns, inputs, state_width, features, first, logits):
    """Compute the rows' features [n, hidden], and logits [rows, width] of the rows from `first` on.

    Features of rows before `first` are not normed. `weights.norms` [5, hidden]: of embeddings, of features, the layer's
    second, the last, and the layer's first if fc joins. The last row of weights has fc and the head. Addresses: `inputs`
    are hidden states [n, state_width] as stored or, if `state_width` is 0, features [n, hidden] in float32; `features`
    and `logits` are float32. `width` is the output vocabulary in full blocks.

    Raises `IndexError` if an id is not in the vocabulary.
    """
    n, hidden, rounded, eps, size = len(rows.ids), sizes.hidden, sizes.rounded, sizes.eps, 2 if sizes.rounded else 4
    check_ids(rows.ids, sizes.vocab)
    norms, padded_hidden = weights.norms, round_up(hidden, BLOCK)
    fc, fc_scales = weights.blocks[1, 0], weights.scales[1, 0]
    count = threads(kernels)
    memory = pass_floats(count, n, sizes.max_inputs)
    layer_floats = sum(layer_scratch_floats(sizes, n, np.int64(0), 2 * hidden, columns_end(columns), count))
    scratch = np.empty(memory + n * (state_width + padded_hidden + hidden) + layer_floats, np.float32)
    pass_ = np.int64(scratch.ctypes.data)
    begin_pass(kernels, count, pass_, n, sizes.max_inputs)
    describe(pass_, kernels, sizes, weights, caches, rows, columns)
    states_ = pass_ + 4 * memory
    fused_ = states_ + 4 * n * state_width
    token_ = fused_ + 4 * n * padded_hidden
    h_ = token_ + 4 * n * hidden
    if state_width and not form.joins:
        call(kernels.read, (inputs, states_, n * state_width, rounded))
        call(kernels.product, (pass_, states_, fc, fc_scales, fused_, n, state_width, padded_hidden, rounded))
        for i in range(n):
            call(kernels.read, (fused_ + 4 * i * padded_hidden, features + 4 * i * hidden, hidden, 0))
    else:
        call(kernels.read, (inputs, features, n * hidden, rounded if state_width else 0))
    for i in range(n):
        row, x_, token = h_ + 8 * i * hidden, features + 4 * i * hidden, token_ + 4 * i * hidden
        call(kernels.read, (weights.embed + size * rows.ids[i] * hidden, token, hidden, rounded))
        call(kernels.norm, (token, norms[0].ctypes.data, row, 1, hidden, rounded, eps))
        call(kernels.norm, (x_, norms[1].ctypes.data, row + 4 * hidden, 1, hidden, rounded, eps))
        if form.residual_normed:
            call(kernels.read, (row + 4 * hidden, x_, hidden, 0))
    width = 2 * hidden
    if form.joins:
        call(kernels.product, (pass_, h_, fc, fc_scales, fused_, n, width, padded_hidden, rounded))
        for i in range(n):
            call(kernels.read, (fused_ + 4 * i * padded_hidden, features + 4 * i * hidden, hidden, 0))
        width = hidden
        call(kernels.norm, (features, norms[4].ctypes.data, h_, n, hidden, rounded, eps))
    call(kernels.layer, (pass_, np.int64(0), np.int64(2), features, width, h_))
    drafted, padded_vocab, outputs = n - first, round_up(sizes.output_vocab, BLOCK), features + 4 * first * hidden
    call(kernels.norm, (outputs, norms[3].ctypes.data, h_, drafted, hidden, rounded, eps))
    if form.output_normed:
        call(kernels.read, (h_, outputs, drafted * hidden, 0))
    head, scales = weights.blocks[1, 1], weights.scales[1, 1]
    call(kernels.product, (pass_, h_, head, scales, logits, drafted, hidden, padded_vocab, rounded))
    return scratch


@compiled(*NETWORK, *TEXT, INTEGER, INTEGER, REQUEST)
def tree(kernels, sizes, form, weights, caches, feature, logits, start, rotations, branches, rows, request):
    """Draft a tree after a text of `start` tokens. Its last token has the feature [1, hidden] and the logits [output_vocab].

    Returns the results of `draft.tree` except the number of cached tokens, and the features [..., hidden] of all levels but the
    last. The cache must have capacity for `rows` columns, and the rotations as many positions.
    """
    max_tokens, output_vocab = request.max_tokens, request.output_vocab
    tokens, parents, chances, reach = np.empty(rows, np.int64), np.empty(rows, np.int64), np.empty(rows), np.empty(rows)
    features = np.empty((rows, sizes.hidden), np.float32)
    parent_features = np.empty((branches, sizes.hidden), np.float32)
    out = np.empty((branches, round_up(output_vocab, BLOCK)), np.float32)
    columns, level_rotations = empty_columns(rows, max_tokens), np.empty((2, branches, sizes.head_dim), np.float32)
    copy(logits[:output_vocab], out[0])
    first, count, level_size = np.int64(0), np.int64(0), np.int64(1)
    for depth in range(max_tokens):
        level_start = count
        count, reached = add_level(out, depth, level_size, first, count, tokens, parents, chances, reach, request)
        first, level_size = level_start, count - level_start
        if count == rows or depth + 1 == max_tokens or stops(request, reached, depth + 1):
            break
        level_caches, level_rows, level_columns = prepare_level(
            caches, tokens, parents, first, count, depth, start, columns, rotations, level_rotations
        )
        for row in range(first, count):
            parent = parents[row]
            copy(features[parent] if parent >= 0 else feature[0], parent_features[row - first])
        forward(
            kernels, sizes, form, weights, level_caches, level_rows, level_columns,
            np.int64(parent_features.ctypes.data), np.int64(0), np.int64(features[first].ctypes.data), np.int64(0),
            np.int64(out.ctypes.data),
        )  # fmt: skip
    return tokens[:count], parents[:count], chances[:count], features[:first], parent_features
