"""A Llama's pass in one compiled call, which walks the layers: a small model's pass in separate operators is mostly the
starting of operators. Passes of trained heads share the layer.

Parts of a text are read on several cores at the same time, each in a compiled call that keeps step with the part before: all
earlier keys of a layer must lie in the cache before a row attends to them.
"""

import os
from functools import lru_cache

import numpy as np
from llvmlite import ir
from numba import njit, types
from numba.extending import intrinsic

from . import attend
from .compiling import INTEGER, compiled
from .elementwise import add, apply_rope, gate, norm, read, store
from .product import MULTIPLY, spare_floats
from .records import Kernels
from .vectors import BLOCK, call, whole

POSIX = os.name == "posix"  # else there is no such function, and numba leaves out the call
usleep = types.ExternalFunction("usleep", types.int32(types.uint32))
WORD = ir.IntType(64)
PATIENCE, SLEEP_US = 5_000, 50  # looks at a counter; then the core is left to others: the call before may have none


@intrinsic
def publish(typing_context, counter, count):
    """Set the counter at that address. A reader of it sees all that was stored before."""

    def code(context, builder, signature, arguments):
        builder.store_atomic(arguments[1], builder.inttoptr(arguments[0], WORD.as_pointer()), "release", 8)
        return context.get_dummy_value()

    return types.void(INTEGER, INTEGER), code


@intrinsic
def _published(typing_context, counter):
    def code(context, builder, signature, arguments):
        return builder.load_atomic(builder.inttoptr(arguments[0], WORD.as_pointer()), "acquire", 8)

    return INTEGER(INTEGER), code


@njit(error_model="numpy")
def wait(counter, count):
    """Until the counter at that address has reached so much."""
    looks = 0
    while _published(counter) < count:
        looks += 1
        if POSIX and looks > PATIENCE:
            usleep(SLEEP_US)


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


@njit(error_model="numpy")
def keep(kernels, sizes, x_, n, ends, outputs, tap):
    """Store the rows x [n, hidden] of all texts among the hidden states of each, as those of a tap."""
    size, hidden = 2 if sizes.rounded else 4, sizes.hidden
    text = first = 0
    for row in range(n):
        while row >= ends[text]:
            first, text = ends[text], text + 1
        place = outputs.states[text] + size * ((row - first) * len(outputs.taps) + tap) * hidden
        call(kernels.store, (x_ + 4 * row * hidden, place, hidden, sizes.rounded))


@compiled
def forward(kernels, sizes, weights, caches, rows, columns, outputs, step):
    """A whole pass over rows of one text or of several. In the last row of weights is the output head.

    Raises `IndexError` for an id that is not in the vocabulary.
    """
    hidden, vocab, rounded, eps, taps = sizes.hidden, sizes.vocab, sizes.rounded, sizes.eps, outputs.taps
    n, layers, ids, size = len(rows.ids), caches.addresses.shape[1], rows.ids, 2 if rounded else 4
    check_ids(ids, vocab)
    wide_vocab = whole(vocab, BLOCK)
    inside = sum(scratch_floats(sizes, n, np.int64(0), hidden, columns.new.max() + 1))
    # numba frees an array after its last use, whoever has its address: this one is returned.
    scratch = np.empty(n * hidden + outputs.rows * wide_vocab + inside + spare_floats(n, sizes.widest), np.float32)
    x_ = np.int64(scratch.ctypes.data)
    out_ = x_ + 4 * n * hidden
    h_ = out_ + 4 * outputs.rows * wide_vocab
    spare_ = h_ + 4 * inside
    for i in range(n):
        call(kernels.read, (weights.embed + size * ids[i] * hidden, x_ + 4 * i * hidden, hidden, rounded))
    for i in range(layers):
        call(kernels.norm, (x_, weights.norms[2 * i].ctypes.data, h_, n, hidden, rounded, eps))
        layer(kernels, sizes, weights, caches, rows, columns, step, i, 2 * i + 1, x_, hidden, h_, spare_)
        for tap in range(len(taps)):
            if taps[tap] == i + 1 < layers:
                keep(kernels, sizes, x_, n, caches.ends, outputs, tap)
    start, count = outputs.first, outputs.rows
    if (taps == layers).any():  # what the head reads, of all rows
        start, count = 0, n
    last_norm = weights.norms[2 * layers].ctypes.data
    call(kernels.norm, (x_ + 4 * start * hidden, last_norm, h_, count, hidden, rounded, eps))
    for tap in range(len(taps)):
        if taps[tap] == layers:
            keep(kernels, sizes, h_, n, caches.ends, outputs, tap)
    read_ = h_ + 4 * (outputs.first - start) * hidden
    head, scales = weights.blocks[layers, 0], weights.scales[layers, 0]
    call(kernels.multiply, (read_, head, scales, out_, spare_, outputs.rows, hidden, wide_vocab, rounded))
    for i in range(outputs.rows):
        call(kernels.store, (out_ + 4 * i * wide_vocab, outputs.logits + size * i * vocab, vocab, rounded))
    return scratch


@lru_cache(maxsize=4)
def addresses(stored: int) -> Kernels:
    """The kernels for weights stored in this way. Compiles what is missing."""
    steps = (kernel() for kernel in (norm, add, gate, apply_rope, read, store, attend.attend))
    return Kernels(*(kernel.address for kernel in (MULTIPLY[stored](), *steps)))
