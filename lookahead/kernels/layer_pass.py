"""A layer of a Llama-like model in compiled code: what the target's pass and the trained drafters' passes share."""

from __future__ import annotations

from . import attend
from .compiling import compiled
from .in_step import publish, wait
from .vectors import BLOCK, call, whole


@compiled
def scratch_floats(n, given, hidden, fed, heads, kv, dim, inner, most):
    """How many floats of scratch `layer` takes, and the sizes of its parts, in the order in which they lie there."""
    return (
        (given + n) * max(fed, hidden, heads * dim),
        (given + n) * whole((heads + 2 * kv) * dim, BLOCK),
        n * whole(2 * inner, BLOCK),
        n * inner,
        n * whole(hidden, BLOCK),
        attend.scratch_floats(n, heads, kv, most, dim),
    )


@compiled
def layer(
    steps, x_, n, given, hidden, fed, w, s, norm, head_norms, cos, sin, caches, number, rooms, ends, new, straight, branch,
    counts, heads, kv, inner, rounded, eps, scaling, scratch_, spare_, counter, counter_before,
):  # fmt: skip
    """Add to the rows x [n, hidden] what a layer makes of its normed input, which lies at the start of the scratch.

    The input [given + n, fed] has `given` rows more, which only leave keys and values; they come first. Arrays: steps as
    `whole_pass.addresses` has them; w, s [4] are addresses of blocks: of qkv, out, gate and up, down; norm [hidden] is the
    second; head_norms [2, dim] are those of queries and keys, of no rows where there are none; cos, sin [given + n, dim].
    The rows are of one text or of several, one after the other: caches [texts, layers, 2] has in `number` the addresses of
    keys and values [kv, room, dim], with the `rooms` [texts], and a text's rows end before `ends` [texts]; `given` rows are
    the first text's. new [given + n] are the columns where a row's go; straight [n], branch [n, longest] and counts [n]: see
    `attend.attend`. Addresses: x, the scratch (`scratch_floats`), the products' own, and the counters of layers whose keys
    this call and the one before it have left (`in_step`), 0 for none.
    """
    multiplied, normed, added, gated_by, turned, _, _, attended = steps
    dim, longest, both, width = cos.shape[1], branch.shape[1], given + n, heads * cos.shape[1]
    wide_qkv, wide_both, wide_hidden = (
        whole((heads + 2 * kv) * dim, BLOCK),
        whole(2 * inner, BLOCK),
        whole(hidden, BLOCK),
    )
    most = new.max() + 1
    inputs, qkv, gates, gated, back, _ = scratch_floats(n, given, hidden, fed, heads, kv, dim, inner, most)
    h_ = scratch_
    qkv_ = h_ + 4 * inputs
    both_ = qkv_ + 4 * qkv
    gated_ = both_ + 4 * gates
    back_ = gated_ + 4 * gated
    scores_ = back_ + 4 * back
    call(multiplied, (h_, w[0], s[0], qkv_, spare_, both, fed, wide_qkv, rounded))
    for i in range(both if len(head_norms) else 0):
        row = qkv_ + 4 * i * wide_qkv
        call(normed, (row, head_norms[0].ctypes.data, row, heads, dim, rounded, eps))
        call(normed, (row + 4 * width, head_norms[1].ctypes.data, row + 4 * width, kv, dim, rounded, eps))
    call(turned, (qkv_, cos.ctypes.data, sin.ctypes.data, both, heads + kv, dim // 2, wide_qkv, rounded))
    text = 0
    for i in range(both):
        while i - given >= ends[text]:
            text += 1
        at, row = new[i], qkv_ + 4 * (i * wide_qkv + width)
        attend.put(row, kv, caches[text, number, 0], caches[text, number, 1], rooms[text], at, dim, rounded, scores_)
    if counter_before:
        wait(counter_before, number + 1)
    if counter:
        publish(counter, number + 1)
    first = 0
    for text in range(len(ends)):
        call(attended, (
            qkv_ + 4 * (given + first) * wide_qkv, wide_qkv, caches[text, number, 0], caches[text, number, 1], rooms[text],
            dim, h_ + 4 * first * width, scores_, most, straight.ctypes.data + 8 * first,
            branch.ctypes.data + 8 * first * longest, longest, counts.ctypes.data + 8 * first, ends[text] - first, heads, kv,
            rounded, scaling,
        ))  # fmt: skip
        first = ends[text]
    call(multiplied, (h_, w[1], s[1], back_, spare_, n, width, wide_hidden, rounded))
    call(added, (x_, back_, n, hidden, wide_hidden, rounded))
    call(normed, (x_, norm.ctypes.data, h_, n, hidden, rounded, eps))
    call(multiplied, (h_, w[2], s[2], both_, spare_, n, hidden, wide_both, rounded))
    call(gated_by, (both_, gated_, n, inner, wide_both, rounded))
    call(multiplied, (gated_, w[3], s[3], back_, spare_, n, inner, wide_hidden, rounded))
    call(added, (x_, back_, n, hidden, wide_hidden, rounded))
