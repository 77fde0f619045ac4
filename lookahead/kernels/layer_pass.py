"""A layer of a Llama-like model in compiled code: what the target's pass and the trained drafters' passes share."""

from __future__ import annotations

from numba import njit

from . import attend
from .compiling import compiled
from .in_step import publish, wait
from .vectors import BLOCK, call, whole


@compiled
def scratch_floats(sizes, n, given, fed, most):
    """How many floats of scratch `layer` takes, and the sizes of its parts, in the order in which they lie there."""
    dim, inner = sizes.head_dim, sizes.inner
    return (
        (given + n) * max(fed, sizes.hidden, sizes.heads * dim),
        (given + n) * whole((sizes.heads + 2 * sizes.kv_heads) * dim, BLOCK),
        n * whole(2 * inner, BLOCK),
        n * inner,
        n * whole(sizes.hidden, BLOCK),
        attend.scratch_floats(n, sizes.heads, sizes.kv_heads, most, dim),
    )


@compiled
def layer(kernels, sizes, weights, caches, rows, columns, step, number, norm, x_, fed, scratch_, spare_):
    """Add to the rows x [n, hidden] what the layer `number` makes of its normed input, which lies at the start of the scratch.

    The input [given + n, fed] has `given` rows more, which only leave keys and values; they come first, and are the first
    text's. `norm` is the number of the second norm. `columns.new` [given + n] are the columns where a row's keys go; see
    `attend.attend` for the others. Addresses: x, the scratch (`scratch_floats`), and the products' own.
    """
    n, both, hidden, rounded, eps = len(rows.ids), len(rows.cos), sizes.hidden, sizes.rounded, sizes.eps
    given, heads, kv, dim, inner = both - n, sizes.heads, sizes.kv_heads, sizes.head_dim, sizes.inner
    w, s, head_norms = weights.blocks[number], weights.scales[number], weights.head_norms[number]
    caches_, longest, width = caches.addresses, columns.branch.shape[1], heads * dim
    wide_qkv, wide_both, wide_hidden = whole(width + 2 * kv * dim, BLOCK), whole(2 * inner, BLOCK), whole(hidden, BLOCK)
    most = columns.new.max() + 1
    inputs, qkv, gates, gated, back, _ = scratch_floats(sizes, n, given, fed, most)
    h_ = scratch_
    qkv_ = h_ + 4 * inputs
    both_ = qkv_ + 4 * qkv
    gated_ = both_ + 4 * gates
    back_ = gated_ + 4 * gated
    scores_ = back_ + 4 * back
    call(kernels.multiply, (h_, w[0], s[0], qkv_, spare_, both, fed, wide_qkv, rounded))
    for i in range(both if len(head_norms) else 0):
        row = qkv_ + 4 * i * wide_qkv
        call(kernels.norm, (row, head_norms[0].ctypes.data, row, heads, dim, rounded, eps))
        call(kernels.norm, (row + 4 * width, head_norms[1].ctypes.data, row + 4 * width, kv, dim, rounded, eps))
    call(kernels.apply_rope, (
        qkv_, rows.cos.ctypes.data, rows.sin.ctypes.data, both, heads + kv, dim // 2, wide_qkv, rounded,
    ))  # fmt: skip
    text = 0
    for i in range(both):
        while i - given >= caches.ends[text]:
            text += 1
        at, row = columns.new[i], qkv_ + 4 * (i * wide_qkv + width)
        keys, values = caches_[text, number, 0], caches_[text, number, 1]
        attend.put(row, kv, keys, values, caches.rooms[text], at, dim, rounded, scores_)
    if step.before:
        wait(step.before, number + 1)
    if step.done:
        publish(step.done, number + 1)
    first = 0
    for text in range(len(caches.ends)):
        end = caches.ends[text]
        call(kernels.attend, (
            qkv_ + 4 * (given + first) * wide_qkv, wide_qkv, caches_[text, number, 0], caches_[text, number, 1],
            caches.rooms[text], dim, h_ + 4 * first * width, scores_, most, columns.straight.ctypes.data + 8 * first,
            columns.branch.ctypes.data + 8 * first * longest, longest, columns.counts.ctypes.data + 8 * first, end - first,
            heads, kv, rounded, sizes.scaling,
        ))  # fmt: skip
        first = end
    call(kernels.multiply, (h_, w[1], s[1], back_, spare_, n, width, wide_hidden, rounded))
    call(kernels.add, (x_, back_, n, hidden, wide_hidden, rounded))
    call(kernels.norm, (x_, weights.norms[norm].ctypes.data, h_, n, hidden, rounded, eps))
    call(kernels.multiply, (h_, w[2], s[2], both_, spare_, n, hidden, wide_both, rounded))
    call(kernels.gate, (both_, gated_, n, inner, wide_both, rounded))
    call(kernels.multiply, (gated_, w[3], s[3], back_, spare_, n, inner, wide_hidden, rounded))
    call(kernels.add, (x_, back_, n, hidden, wide_hidden, rounded))


@njit(error_model="numpy")
def check_ids(ids, vocab):
    """Raise `IndexError` for an id that is not in the vocabulary."""
    if ids.min() < 0 or ids.max() >= vocab:
        raise IndexError("a token id is not in the model's vocabulary")
