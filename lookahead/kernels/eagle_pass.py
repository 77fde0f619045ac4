"""An EAGLE head's pass in one compiled call: a token's embedding and a feature of the token before it go in together.

The feature is made of the target's hidden states where the target has read that token, and else is what the head itself
made of it in an earlier pass.
"""

from __future__ import annotations

import numpy as np

from .chain import lay_out, level, picked, stops
from .compiling import compiled
from .layer_pass import layer, scratch_floats
from .vectors import BLOCK, call, copy, whole


@compiled
def forward(
    steps, given, fed, ids, embed, cos, sin, norms, head_norms, weights, scales, caches, room, new, straight, branch, counts,
    heads, kv, inner, vocab, draft_vocab, rounded, normed_residual, spare, features, first, logits, eps, scaling,
):  # fmt: skip
    """The rows' features [n, hidden] and, of those from `first` on, logits [rows, whole blocks of the draft vocabulary].

    Arrays: steps as `whole_pass.addresses` has them; ids [n]; cos, sin [n, dim]; norms [4, hidden]: of embeddings, of
    features, the layer's second, the last; head_norms [2, dim] of queries and keys, or of no rows; weights, scales [2, 4]
    are addresses of blocks: of qkv, out, gate and up, down, and below them of fc and the head; caches [1, 2] are addresses
    of keys and values [kv, room, dim]; new, straight, branch and counts as in `whole_pass.forward`. Addresses: `given` are
    hidden states [n, fed] as they are stored or, where `fed` is 0, features [n, hidden] in float32; embed [vocab, hidden];
    features and logits, which are float32. The residual is the feature, or its norm if `normed_residual`.

    Raises `IndexError` for an id that is not in the vocabulary.
    """
    multiplied, normed, _, _, _, read, _, _ = steps
    n, hidden, dim, size = len(ids), norms.shape[1], cos.shape[1], 2 if rounded else 4
    if ids.min() < 0 or ids.max() >= vocab:
        raise IndexError("a token id is not in the model's vocabulary")
    wide_hidden, most = whole(hidden, BLOCK), new.max() + 1
    inside = sum(scratch_floats(n, np.int64(0), hidden, 2 * hidden, heads, kv, dim, inner, most))
    scratch = np.empty(n * (fed + wide_hidden + hidden) + inside + spare, np.float32)
    fed_ = np.int64(scratch.ctypes.data)
    joined_ = fed_ + 4 * n * fed
    token_ = joined_ + 4 * n * wide_hidden
    h_ = token_ + 4 * n * hidden
    spare_ = h_ + 4 * inside
    if fed:
        call(read, (given, fed_, n * fed, rounded))
        call(multiplied, (fed_, weights[1, 0], scales[1, 0], joined_, spare_, n, fed, wide_hidden, rounded))
        for i in range(n):
            call(read, (joined_ + 4 * i * wide_hidden, features + 4 * i * hidden, hidden, 0))
    else:
        call(read, (given, features, n * hidden, 0))
    for i in range(n):
        row, x_, token = h_ + 8 * i * hidden, features + 4 * i * hidden, token_ + 4 * i * hidden
        call(read, (embed + size * ids[i] * hidden, token, hidden, rounded))
        call(normed, (token, norms[0].ctypes.data, row, 1, hidden, rounded, eps))
        call(normed, (x_, norms[1].ctypes.data, row + 4 * hidden, 1, hidden, rounded, eps))
        if normed_residual:
            call(read, (row + 4 * hidden, x_, hidden, 0))
    layer(
        steps, features, n, np.int64(0), hidden, 2 * hidden, weights[0], scales[0], norms[2], head_norms, cos, sin,
        caches.reshape(1, 1, 2), np.int64(0), np.full(1, room), np.full(1, n), new, straight, branch, counts, heads, kv, inner, rounded,
        eps, scaling, h_, spare_, np.int64(0), np.int64(0),
    )  # fmt: skip
    rows, wide_vocab = n - first, whole(draft_vocab, BLOCK)
    call(normed, (features + 4 * first * hidden, norms[3].ctypes.data, h_, rows, hidden, rounded, eps))
    call(multiplied, (h_, weights[1, 1], scales[1, 1], logits, spare_, rows, hidden, wide_vocab, rounded))
    return scratch


@compiled
def chain(
    steps, feature, logits, embed, cos, sin, norms, head_norms, weights, scales, caches, start, room, heads, kv, inner, vocab,
    draft_vocab, rounded, normed_residual, spare, eps, scaling, request,
):  # fmt: skip
    """Draft behind a text of `start` tokens, of whose last there are the feature [1, hidden] and logits [known]: tokens and
    confidences, [drafted] each, and features [drafted, hidden] of all but the last.

    The cache must have room for as many columns as tokens are asked for, `cos` and `sin` [positions, dim] rows. The other
    arguments are those of `forward`, and `chain.Request`.
    """
    most, known, ids, reach = request.most, request.known, request.ids, request.reach
    tokens, confidences, count = np.empty(most, np.int64), np.empty(most), np.int64(0)
    features, out = np.empty((most, feature.shape[1]), np.float32), np.empty(whole(draft_vocab, BLOCK), np.float32)
    copy(logits[:known], out)
    no_branch, none = np.zeros((1, 1), np.int64), np.zeros(1, np.int64)
    while True:
        place, confidence = picked(out[:known], request.scale, request.noise, count)
        tokens[count], confidences[count] = ids[place] if len(ids) else place, confidence
        reach *= confidence
        count += 1
        if count == most or stops(request, reach, count):
            return tokens[:count], confidences[:count], features[: count - 1], out[:1]
        row, at = count - 1, start + count - 1
        above = features[row - 1] if row else feature[0]
        new = np.arange(at, at + 1)
        forward(
            steps, np.int64(above.ctypes.data), np.int64(0), tokens[row:count], embed, cos[at : at + 1], sin[at : at + 1], norms, head_norms,
            weights, scales, caches, room, new, new + 1, no_branch, none, heads, kv, inner, vocab, draft_vocab, rounded,
            normed_residual, spare, np.int64(features[row].ctypes.data), np.int64(0), np.int64(out.ctypes.data), eps, scaling,
        )  # fmt: skip


@compiled
def tree(
    steps, feature, logits, embed, cos, sin, norms, head_norms, weights, scales, caches, start, room, heads, kv, inner, vocab,
    draft_vocab, rounded, normed_residual, spare, eps, scaling, branches, rows, request,
):  # fmt: skip
    """Grow a tree behind the same text, a pass a level: tokens, parents (-1: the text's end), and the share of each of its
    softmax, [drafted] each. At most `rows` in all, and of a level the `branches` that are likeliest reached; the last level is
    the one behind which those of the next would not pay.

    The cache must have room for `rows` columns. Otherwise as `chain` takes them.
    """
    most, known = request.most, request.known
    tokens, parents, chances, reach = np.empty(rows, np.int64), np.empty(rows, np.int64), np.empty(rows), np.empty(rows)
    width, dim = feature.shape[1], cos.shape[1]
    features, behind = np.empty((rows, width), np.float32), np.empty((branches, width), np.float32)
    out = np.empty((branches, whole(draft_vocab, BLOCK)), np.float32)
    # Whom rows look at: see `llama.Columns`.
    straight, branch, counts = np.empty(rows, np.int64), np.zeros((rows, most), np.int64), np.zeros(rows, np.int64)
    turns = np.empty((2, branches, dim), np.float32)
    copy(logits[:known], out[0])
    first, count, above = np.int64(0), np.int64(0), np.int64(1)
    for depth in range(most):
        newest = count
        count, reached = level(out, depth, above, first, count, tokens, parents, chances, reach, request)
        first, above = newest, count - newest
        if count == rows or depth + 1 == most or stops(request, reached, depth + 1):
            break
        lay_out(first, count, depth, parents, start, straight, branch, counts, cos, sin, turns)
        for row in range(first, count):
            parent = parents[row]
            copy(features[parent] if parent >= 0 else feature[0], behind[row - first])
        forward(
            steps, np.int64(behind.ctypes.data), np.int64(0), tokens[first:count], embed, turns[0, :above],
            turns[1, :above], norms, head_norms, weights, scales, caches, room, np.arange(start + first, start + count), straight[first:count],
            branch[first:count], counts[first:count], heads, kv, inner, vocab, draft_vocab, rounded, normed_residual, spare,
            np.int64(features[first].ctypes.data), np.int64(0), np.int64(out.ctypes.data), eps, scaling,
        )  # fmt: skip
    return tokens[:count], parents[:count], chances[:count], behind
