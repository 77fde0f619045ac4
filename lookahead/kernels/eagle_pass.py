"""An EAGLE head's pass in one compiled call: a token's embedding and a feature of the token before it go in together.

The feature is made of the target's hidden states where the target has read that token, and else is what the head itself
made of it in an earlier pass.
"""

import numpy as np

from .chain import empty_columns, in_a_row, lay_out, level, picked, stops
from .compiling import compiled
from .product import spare_floats
from .records import Rows, Step
from .vectors import BLOCK, call, copy, whole
from .whole_pass import check_ids, layer, scratch_floats


@compiled
def forward(kernels, sizes, weights, caches, rows, columns, given, fed, normed_residual, features, first, logits):
    """The rows' features [n, hidden] and, of those from `first` on, logits [rows, whole blocks of the known tokens].

    `weights.norms` [4, hidden] are those of embeddings, of features, the layer's second, the last; in the last row of weights
    are fc and the head. Addresses: `given` are hidden states [n, fed] as they are stored or, where `fed` is 0, features
    [n, hidden] in float32; features and logits, which are float32. The residual is the feature, or its norm if
    `normed_residual`.

    Raises `IndexError` for an id that is not in the vocabulary.
    """
    n, hidden, rounded, eps, size = len(rows.ids), sizes.hidden, sizes.rounded, sizes.eps, 2 if sizes.rounded else 4
    check_ids(rows.ids, sizes.vocab)
    norms, wide_hidden = weights.norms, whole(hidden, BLOCK)
    inside = sum(scratch_floats(sizes, n, np.int64(0), 2 * hidden, columns.new.max() + 1))
    scratch = np.empty(n * (fed + wide_hidden + hidden) + inside + spare_floats(n, sizes.widest), np.float32)
    fed_ = np.int64(scratch.ctypes.data)
    joined_ = fed_ + 4 * n * fed
    token_ = joined_ + 4 * n * wide_hidden
    h_ = token_ + 4 * n * hidden
    spare_ = h_ + 4 * inside
    if fed:
        call(kernels.read, (given, fed_, n * fed, rounded))
        fc, scales = weights.blocks[1, 0], weights.scales[1, 0]
        call(kernels.multiply, (fed_, fc, scales, joined_, spare_, n, fed, wide_hidden, rounded))
        for i in range(n):
            call(kernels.read, (joined_ + 4 * i * wide_hidden, features + 4 * i * hidden, hidden, 0))
    else:
        call(kernels.read, (given, features, n * hidden, 0))
    for i in range(n):
        row, x_, token = h_ + 8 * i * hidden, features + 4 * i * hidden, token_ + 4 * i * hidden
        call(kernels.read, (weights.embed + size * rows.ids[i] * hidden, token, hidden, rounded))
        call(kernels.norm, (token, norms[0].ctypes.data, row, 1, hidden, rounded, eps))
        call(kernels.norm, (x_, norms[1].ctypes.data, row + 4 * hidden, 1, hidden, rounded, eps))
        if normed_residual:
            call(kernels.read, (row + 4 * hidden, x_, hidden, 0))
    step, number = Step(np.int64(0), np.int64(0)), np.int64(0)
    layer(
        kernels, sizes, weights, caches, rows, columns, step, number, np.int64(2), features, 2 * hidden, h_, spare_
    )  # fmt: skip
    count, wide_vocab = n - first, whole(sizes.known, BLOCK)
    call(kernels.norm, (features + 4 * first * hidden, norms[3].ctypes.data, h_, count, hidden, rounded, eps))
    head, scales = weights.blocks[1, 1], weights.scales[1, 1]
    call(kernels.multiply, (h_, head, scales, logits, spare_, count, hidden, wide_vocab, rounded))
    return scratch


@compiled
def chain(kernels, sizes, weights, caches, feature, logits, start, rotations, normed_residual, request):
    """Draft after a text of `start` tokens, of whose last there are the feature [1, hidden] and logits [known]: tokens and
    confidences, [drafted] each, and features [drafted, hidden] of all but the last.

    The cache must have room for as many columns as tokens are asked for, and the rotations as many positions.
    """
    most, known, ids, reach = request.most, request.known, request.ids, request.reach
    tokens, confidences, count = np.empty(most, np.int64), np.empty(most), np.int64(0)
    features, out = np.empty((most, sizes.hidden), np.float32), np.empty(whole(sizes.known, BLOCK), np.float32)
    copy(logits[:known], out)
    while True:
        place, confidence = picked(out[:known], request.scale, request.noise, count)
        tokens[count], confidences[count] = ids[place] if len(ids) else place, confidence
        reach *= confidence
        count += 1
        if count == most or stops(request, reach, count):
            return tokens[:count], confidences[:count], features[: count - 1], out[:1]
        row, at = count - 1, start + count - 1
        above = features[row - 1] if row else feature[0]
        rows = Rows(tokens[row:count], rotations.cos[at : at + 1], rotations.sin[at : at + 1])
        forward(
            kernels, sizes, weights, caches, rows, in_a_row(at, np.int64(1)), np.int64(above.ctypes.data), np.int64(0),
            normed_residual, np.int64(features[row].ctypes.data), np.int64(0), np.int64(out.ctypes.data),
        )  # fmt: skip


@compiled
def tree(kernels, sizes, weights, caches, feature, logits, start, rotations, normed_residual, branches, rows, request):
    """Grow a tree after the same text, as `chain.tree` does. The cache must have room for `rows` columns."""
    most, known = request.most, request.known
    tokens, parents, chances, reach = np.empty(rows, np.int64), np.empty(rows, np.int64), np.empty(rows), np.empty(rows)
    features, behind = np.empty((rows, sizes.hidden), np.float32), np.empty((branches, sizes.hidden), np.float32)
    out = np.empty((branches, whole(sizes.known, BLOCK)), np.float32)
    columns, of_level = empty_columns(rows, most), np.empty((2, branches, sizes.head_dim), np.float32)
    copy(logits[:known], out[0])
    first, count, above = np.int64(0), np.int64(0), np.int64(1)
    for depth in range(most):
        newest = count
        count, reached = level(out, depth, above, first, count, tokens, parents, chances, reach, request)
        first, above = newest, count - newest
        if count == rows or depth + 1 == most or stops(request, reached, depth + 1):
            break
        level_caches, level_rows, level_columns = lay_out(
            caches, tokens, parents, first, count, depth, start, columns, rotations, of_level
        )
        for row in range(first, count):
            parent = parents[row]
            copy(features[parent] if parent >= 0 else feature[0], behind[row - first])
        forward(
            kernels, sizes, weights, level_caches, level_rows, level_columns, np.int64(behind.ctypes.data), np.int64(0),
            normed_residual, np.int64(features[first].ctypes.data), np.int64(0), np.int64(out.ctypes.data),
        )  # fmt: skip
    return tokens[:count], parents[:count], chances[:count], behind
