"""A Llama's pass in one compiled call. In a small model, calling separate operators would take most of the time.

Passes of trained heads use the same layer. Names that end in an underscore are addresses.

Long prompts are read by pipelined prefill: each core computes a part of the rows in one compiled call. A row attends to
all earlier keys of a layer, so each part waits until the previous part has stored them.
"""

from functools import lru_cache
from typing import Any

import numpy as np
from numba import njit

from . import attend, product, team
from .compiling import compiled
from .elementwise import add, add_bias, apply_rope, gate, norm, read, scale, store
from .records import Kernels
from .vectors import BLOCK, call, round_up


@compiled
def layer_scratch_floats(sizes, n, context_rows, input_width, max_columns, threads):
    """Return the sizes, in floats, of the parts of the scratch buffer of `layer`, in memory order."""
    dim, inner = sizes.head_dim, sizes.inner
    return (
        (context_rows + n) * max(input_width, sizes.hidden, sizes.heads * dim),
        (context_rows + n) * round_up((sizes.heads + 2 * sizes.kv_heads) * dim, BLOCK),
        n * round_up(2 * inner, BLOCK),
        n * inner,
        n * round_up(sizes.hidden, BLOCK),
        threads * attend.scratch_floats(n, sizes.heads, sizes.kv_heads, max_columns, dim),
    )


@njit(error_model="numpy")
def multiply(kernels, workers, sizes, weights, number, index, x_, y_, n, k, width):
    """Compute y [n, width] = x [n, k] times a weight of the layer `number`, plus its bias if it has one."""
    block, scales, bias = weights.blocks[number, index], weights.scales[number, index], weights.biases[number, index]
    rounded = 0 if bias else sizes.rounded  # torch rounds after it has added the bias
    product.multiply(kernels, workers, x_, block, scales, y_, n, k, width, rounded)
    if bias:
        call(kernels.add_bias, (y_, bias, n, width, sizes.rounded))


@njit(error_model="numpy")
def add_residual(kernels, sizes, x_, y_, n, width, stride):
    """Add y to x [n, width], times the residual factor. The rows of y are `stride` apart."""
    if sizes.residual != 1:
        call(kernels.scale, (y_, n * stride, sizes.rounded, sizes.residual))
    call(kernels.add, (x_, y_, n, width, stride, sizes.rounded))


@compiled
def layer(kernels, workers, sizes, weights, caches, rows, columns, pipeline, number, norm, x_, input_width, scratch_):
    """Compute the layer `number` for the rows x [n, hidden] and add its result to them, in place.

    The normed input [context_rows + n, input_width] is at the start of the scratch buffer. The context rows come first,
    belong to the first text, and only store keys and values. `norm` is the index of the second norm. `columns.new`
    [context_rows + n] are the columns for the rows' keys; `attend.attend` describes the others.
    """
    n, all_rows, hidden, rounded, eps = len(rows.ids), len(rows.cos), sizes.hidden, sizes.rounded, sizes.eps
    context_rows, heads, kv, dim, inner = all_rows - n, sizes.heads, sizes.kv_heads, sizes.head_dim, sizes.inner
    head_norms, window, unrotated = weights.head_norms[number], weights.special[number, 0], weights.special[number, 1]
    buffers, branch_stride, width = caches.addresses, columns.branch.shape[1], heads * dim
    padded_qkv, padded_hidden = round_up(width + 2 * kv * dim, BLOCK), round_up(hidden, BLOCK)
    padded_gate_up, max_columns = round_up(2 * inner, BLOCK), columns.new.max() + 1
    inputs, qkv, gate_up, gated, projected, _ = layer_scratch_floats(
        sizes, n, context_rows, input_width, max_columns, workers.threads
    )
    h_ = scratch_
    qkv_ = h_ + 4 * inputs
    gate_up_ = qkv_ + 4 * qkv
    gated_ = gate_up_ + 4 * gate_up
    projected_ = gated_ + 4 * gated
    scores_ = projected_ + 4 * projected
    multiply(kernels, workers, sizes, weights, number, 0, h_, qkv_, all_rows, input_width, padded_qkv)
    for i in range(all_rows if len(head_norms) else 0):
        row = qkv_ + 4 * i * padded_qkv
        call(kernels.norm, (row, head_norms[0].ctypes.data, row, heads, dim, rounded, eps))
        call(kernels.norm, (row + 4 * width, head_norms[1].ctypes.data, row + 4 * width, kv, dim, rounded, eps))
    if not unrotated:
        cos_, sin_ = rows.cos.ctypes.data, rows.sin.ctypes.data
        call(kernels.apply_rope, (qkv_, cos_, sin_, all_rows, heads + kv, dim // 2, padded_qkv, rounded))
    text = 0
    for i in range(all_rows):
        while i - context_rows >= caches.ends[text]:
            text += 1
        column, row = columns.new[i], qkv_ + 4 * (i * padded_qkv + width)
        keys, values = buffers[text, number, 0], buffers[text, number, 1]
        attend.store_kv(row, kv, keys, values, caches.capacities[text], column, dim, rounded, scores_)
    if pipeline.previous:
        team.wait(pipeline.previous, number + 1)
    if pipeline.counter:
        team.store(pipeline.counter, number + 1)
    first = 0
    for text in range(len(caches.ends)):
        end = caches.ends[text]
        attend.attend_shared(
            kernels, workers, qkv_ + 4 * (context_rows + first) * padded_qkv, padded_qkv, buffers[text, number, 0], buffers[text, number, 1],
            caches.capacities[text], dim, h_ + 4 * first * width, scores_, max_columns,
            columns.prefix.ctypes.data + 8 * first, columns.branch.ctypes.data + 8 * first * branch_stride, branch_stride,
            columns.counts.ctypes.data + 8 * first, end - first, heads, kv, window, rounded, sizes.scaling,
        )  # fmt: skip
        first = end
    multiply(kernels, workers, sizes, weights, number, 1, h_, projected_, n, width, padded_hidden)
    add_residual(kernels, sizes, x_, projected_, n, hidden, padded_hidden)
    call(kernels.norm, (x_, weights.norms[norm].ctypes.data, h_, n, hidden, rounded, eps))
    multiply(kernels, workers, sizes, weights, number, 2, h_, gate_up_, n, hidden, padded_gate_up)
    call(kernels.gate, (gate_up_, gated_, n, inner, padded_gate_up, rounded))
    multiply(kernels, workers, sizes, weights, number, 3, gated_, projected_, n, inner, padded_hidden)
    add_residual(kernels, sizes, x_, projected_, n, hidden, padded_hidden)


@njit(error_model="numpy")
def check_ids(ids, vocab):
    """Raise `IndexError` if an id is not in the vocabulary."""
    if ids.min() < 0 or ids.max() >= vocab:
        raise IndexError("a token id is not in the model's vocabulary")


@njit(error_model="numpy")
def store_states(kernels, sizes, x_, n, ends, outputs, tap):
    """Store the rows x [n, hidden] of all texts in the hidden states of each text, at the index `tap`."""
    size, hidden = 2 if sizes.rounded else 4, sizes.hidden
    text = first = 0
    for row in range(n):
        while row >= ends[text]:
            first, text = ends[text], text + 1
        address = outputs.states[text] + size * ((row - first) * len(outputs.taps) + tap) * hidden
        call(kernels.store, (x_ + 4 * row * hidden, address, hidden, sizes.rounded))


@compiled
def forward(kernels, sizes, weights, caches, rows, columns, outputs, pipeline):
    """Compute a pass over rows of texts. Weights end with the output head. Raises `IndexError` for unknown ids."""
    hidden, vocab, rounded, eps, taps = sizes.hidden, sizes.vocab, sizes.rounded, sizes.eps, outputs.taps
    n, layers, ids, size = len(rows.ids), caches.addresses.shape[1], rows.ids, 2 if rounded else 4
    check_ids(ids, vocab)
    padded_vocab, count = round_up(vocab, BLOCK), team.threads(kernels)
    workers_floats = product.workers_floats(count, n, sizes.max_inputs)
    layer_floats = sum(layer_scratch_floats(sizes, n, np.int64(0), hidden, columns.new.max() + 1, count))
    # numba frees an array after its last use, even if its address is still in use. So this function returns it.
    scratch = np.empty(workers_floats + n * hidden + outputs.rows * padded_vocab + layer_floats, np.float32)
    workers_ = np.int64(scratch.ctypes.data)
    workers = product.new_workers(kernels, count, workers_, n, sizes.max_inputs)
    x_ = workers_ + 4 * workers_floats
    out_ = x_ + 4 * n * hidden
    h_ = out_ + 4 * outputs.rows * padded_vocab
    for i in range(n):
        call(kernels.read, (weights.embed + size * ids[i] * hidden, x_ + 4 * i * hidden, hidden, rounded))
    if sizes.embedding != 1:
        call(kernels.scale, (x_, n * hidden, rounded, sizes.embedding))
    for i in range(layers):
        call(kernels.norm, (x_, weights.norms[2 * i].ctypes.data, h_, n, hidden, rounded, eps))
        layer(kernels, workers, sizes, weights, caches, rows, columns, pipeline, i, 2 * i + 1, x_, hidden, h_)
        for tap in range(len(taps)):
            if taps[tap] == i + 1 < layers:
                store_states(kernels, sizes, x_, n, caches.ends, outputs, tap)
    start, count = outputs.first, outputs.rows
    if (taps == layers).any():  # the normed states of all rows
        start, count = 0, n
    last_norm = weights.norms[2 * layers].ctypes.data
    call(kernels.norm, (x_ + 4 * start * hidden, last_norm, h_, count, hidden, rounded, eps))
    for tap in range(len(taps)):
        if taps[tap] == layers:
            store_states(kernels, sizes, h_, n, caches.ends, outputs, tap)
    inputs_ = h_ + 4 * (outputs.first - start) * hidden
    multiply(kernels, workers, sizes, weights, layers, 0, inputs_, out_, outputs.rows, hidden, padded_vocab)
    if sizes.logits != 1:
        call(kernels.scale, (out_, outputs.rows * padded_vocab, rounded, sizes.logits))
    for i in range(outputs.rows):
        call(kernels.store, (out_ + 4 * i * padded_vocab, outputs.logits + size * i * vocab, vocab, rounded))
    return scratch


@lru_cache(maxsize=4)
def addresses(storage: int) -> Kernels:
    """Return the kernels for weights in this storage format. Compiles those that are missing."""
    kernels: tuple[Any, ...] = (
        product.MULTIPLY[storage],
        product.multiply_share,
        add_bias,
        scale,
        norm,
        add,
        gate,
        apply_rope,
        read,
        store,
        attend.attend,
        attend.attend_share,
    )
    return Kernels(team.TEAM.address, 0, *(kernel().address for kernel in kernels))
