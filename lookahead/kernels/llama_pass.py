"""A Llama's pass in one compiled call. In a small model, calling separate operators would take most of the time.

Passes of trained heads use the same layer. Names that end in an underscore are addresses.

Long prompts are read by pipelined prefill: each core computes a part of the rows in one compiled call. A row attends to
all earlier keys of a layer, so each part waits until the previous part has stored them.
"""

from functools import lru_cache
from typing import Any

import numpy as np
from numba import carray

from . import attend, product, team
from .compiling import compiled, internal, kernel
from .elementwise import add, add_bias, apply_rope, gate, norm, read, scale, store
from .product import pass_at
from .records import CACHES, COLUMNS, KERNELS, OUTPUTS, PIPELINE, ROWS, SIZES, WEIGHTS, Kernels
from .vectors import BLOCK, call, integers_at, round_up


@internal()
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


@internal()
def columns_end(columns):
    """Return the number of columns up to the last of the rows' own ones."""
    end = np.int64(0)
    for i in range(len(columns.new)):
        end = max(end, columns.new[i] + 1)
    return end


@internal()
def describe(pass_, kernels, sizes, weights, caches, rows, columns):
    """Fill the `PASS` of a pass with layers. The caller keeps all arrays alive until the pass ends."""
    this = pass_at(pass_)
    this.add_bias, this.scale, this.norm, this.add, this.gate = (
        kernels.add_bias, kernels.scale, kernels.norm, kernels.add, kernels.gate,
    )  # fmt: skip
    this.apply_rope, this.attend, this.attend_share = kernels.apply_rope, kernels.attend, kernels.attend_share
    this.hidden, this.heads, this.kv_heads, this.head_dim = sizes.hidden, sizes.heads, sizes.kv_heads, sizes.head_dim
    this.inner, this.rounded, this.kv_storage = sizes.inner, sizes.rounded, sizes.kv_storage
    this.eps, this.scaling = sizes.eps, sizes.scaling
    this.residual, this.norms, this.head_norms = (
        sizes.residual,
        weights.norms.ctypes.data,
        weights.head_norms.ctypes.data,
    )
    this.head_norm_count, this.special = weights.head_norms.shape[1], weights.special.ctypes.data
    this.blocks, this.scales, this.biases = (
        weights.blocks.ctypes.data,
        weights.scales.ctypes.data,
        weights.biases.ctypes.data,
    )
    this.texts, this.layers = len(caches.ends), caches.addresses.shape[1]
    this.buffers, this.capacities, this.ends = (
        caches.addresses.ctypes.data, caches.capacities.ctypes.data, caches.ends.ctypes.data,
    )  # fmt: skip
    this.n, this.context_rows = len(rows.ids), len(rows.cos) - len(rows.ids)
    this.cos, this.sin, this.new = rows.cos.ctypes.data, rows.sin.ctypes.data, columns.new.ctypes.data
    this.prefix, this.counts, this.max_columns = (
        columns.prefix.ctypes.data,
        columns.counts.ctypes.data,
        columns_end(columns),
    )
    this.branch, this.branch_stride = columns.branch.ctypes.data, columns.branch.shape[1]


@internal()
def _multiply(this, pass_, number, index, x_, y_, n, k, width):
    """Compute y [n, width] = x [n, k] times a weight of the layer `number`, plus its bias if it has one."""
    blocks, scales = (
        carray(integers_at(this.blocks), (number + 1, 4)),
        carray(integers_at(this.scales), (number + 1, 4)),
    )
    bias = carray(integers_at(this.biases), (number + 1, 4))[number, index]
    rounded = 0 if bias else this.rounded  # torch rounds after it has added the bias
    call(this.product, (pass_, x_, blocks[number, index], scales[number, index], y_, n, k, width, rounded))
    if bias:
        call(this.add_bias, (y_, bias, n, width, this.rounded))


@internal()
def _add_residual(this, x_, y_, stride):
    """Add y to x [n, hidden], times the residual factor. The rows of y are `stride` apart."""
    if this.residual != 1:
        call(this.scale, (y_, this.n * stride, this.rounded, this.residual))
    call(this.add, (x_, y_, this.n, this.hidden, stride, this.rounded))


@kernel(6)
def layer(pass_, number, norm, x_, input_width, scratch_):
    """Compute the layer `number` of a pass for the rows x [n, hidden] and add its result to them, in place.

    The normed input [context_rows + n, input_width] is at the start of the scratch buffer. The context rows come first,
    belong to the first text, and only store keys and values. `norm` is the index of the second norm. The columns `new`
    [context_rows + n] are those of the rows' keys; `attend.attend` describes the others.
    """
    this = pass_at(pass_)
    n, hidden, rounded, eps, context_rows = this.n, this.hidden, this.rounded, this.eps, this.context_rows
    all_rows, heads, kv, dim, inner = context_rows + n, this.heads, this.kv_heads, this.head_dim, this.inner
    special = carray(integers_at(this.special), (number + 1, 2))
    window, unrotated = special[number, 0], special[number, 1]
    buffers = carray(integers_at(this.buffers), (this.texts, this.layers, 2))
    capacities, ends = carray(integers_at(this.capacities), this.texts), carray(integers_at(this.ends), this.texts)
    columns, width, padded_gate_up = carray(integers_at(this.new), all_rows), heads * dim, round_up(2 * inner, BLOCK)
    padded_qkv, padded_hidden = round_up(width + 2 * kv * dim, BLOCK), round_up(hidden, BLOCK)
    inputs, qkv, gate_up, gated, projected, _ = layer_scratch_floats(
        this, n, context_rows, input_width, this.max_columns, this.threads
    )
    h_ = scratch_
    qkv_ = h_ + 4 * inputs
    gate_up_ = qkv_ + 4 * qkv
    gated_ = gate_up_ + 4 * gate_up
    projected_ = gated_ + 4 * gated
    scores_ = projected_ + 4 * projected
    # numba would compile a function again for each constant argument.
    qkv_index, out_index, gate_up_index, down_index = np.int64(0), np.int64(1), np.int64(2), np.int64(3)
    _multiply(this, pass_, number, qkv_index, h_, qkv_, all_rows, input_width, padded_qkv)
    head_norms = this.head_norms + 8 * number * dim
    for i in range(all_rows if this.head_norm_count else 0):
        row = qkv_ + 4 * i * padded_qkv
        call(this.norm, (row, head_norms, row, heads, dim, rounded, eps))
        call(this.norm, (row + 4 * width, head_norms + 4 * dim, row + 4 * width, kv, dim, rounded, eps))
    if not unrotated:
        call(this.apply_rope, (qkv_, this.cos, this.sin, all_rows, heads + kv, dim // 2, padded_qkv, rounded))
    text = 0
    for i in range(all_rows):
        while i - context_rows >= ends[text]:
            text += 1
        keys, values, row = buffers[text, number, 0], buffers[text, number, 1], qkv_ + 4 * (i * padded_qkv + width)
        attend.store_kv(row, kv, keys, values, capacities[text], columns[i], dim, this.kv_storage, scores_)
    if this.previous:
        team.wait(this.previous, number + 1)
    if this.counter:
        team.store(this.counter, number + 1)
    first = np.int64(0)
    for text in range(this.texts):
        keys, values, stop = buffers[text, number, 0], buffers[text, number, 1], ends[text]
        queries_, output_ = qkv_ + 4 * (context_rows + first) * padded_qkv, h_ + 4 * first * width
        attend.attend_shared(
            this, queries_, padded_qkv, keys, values, capacities[text], output_, scores_, first, stop, window
        )
        first = stop
    _multiply(this, pass_, number, out_index, h_, projected_, n, width, padded_hidden)
    _add_residual(this, x_, projected_, padded_hidden)
    call(this.norm, (x_, this.norms + 4 * norm * hidden, h_, n, hidden, rounded, eps))
    _multiply(this, pass_, number, gate_up_index, h_, gate_up_, n, hidden, padded_gate_up)
    call(this.gate, (gate_up_, gated_, n, inner, padded_gate_up, rounded))
    _multiply(this, pass_, number, down_index, gated_, projected_, n, inner, padded_hidden)
    _add_residual(this, x_, projected_, padded_hidden)


@internal()
def check_ids(ids, vocab):
    """Raise `IndexError` if an id is not in the vocabulary."""
    for i in range(len(ids)):
        if ids[i] < 0 or ids[i] >= vocab:
            raise IndexError("a token id is not in the model's vocabulary")


@internal()
def store_states(kernels, sizes, x_, n, ends, outputs, tap):
    """Store the rows x [n, hidden] of all texts in the hidden states of each text, at the index `tap`."""
    size, hidden = 2 if sizes.rounded else 4, sizes.hidden
    text = first = 0
    for row in range(n):
        while row >= ends[text]:
            first, text = ends[text], text + 1
        address = outputs.states[text] + size * ((row - first) * len(outputs.taps) + tap) * hidden
        call(kernels.store, (x_ + 4 * row * hidden, address, hidden, sizes.rounded))


@compiled(KERNELS, SIZES, WEIGHTS, CACHES, ROWS, COLUMNS, OUTPUTS, PIPELINE)
def forward(kernels, sizes, weights, caches, rows, columns, outputs, pipeline):
    """Compute a pass over rows of texts. Weights end with the output head. Raises `IndexError` for unknown ids."""
    hidden, vocab, rounded, eps, taps = sizes.hidden, sizes.vocab, sizes.rounded, sizes.eps, outputs.taps
    n, layers, ids, size = len(rows.ids), caches.addresses.shape[1], rows.ids, 2 if rounded else 4
    check_ids(ids, vocab)
    padded_vocab, count = round_up(vocab, BLOCK), team.threads(kernels)
    pass_floats = product.pass_floats(count, n, sizes.max_inputs)
    layer_floats = sum(layer_scratch_floats(sizes, n, np.int64(0), hidden, columns_end(columns), count))
    # numba frees an array after its last use, even if its address is still in use. So this function returns it.
    scratch = np.empty(pass_floats + n * hidden + outputs.rows * padded_vocab + layer_floats, np.float32)
    pass_ = np.int64(scratch.ctypes.data)
    product.begin_pass(kernels, count, pass_, n, sizes.max_inputs)
    describe(pass_, kernels, sizes, weights, caches, rows, columns)
    pass_at(pass_).counter, pass_at(pass_).previous = pipeline.counter, pipeline.previous
    x_ = pass_ + 4 * pass_floats
    out_ = x_ + 4 * n * hidden
    h_ = out_ + 4 * outputs.rows * padded_vocab
    for i in range(n):
        call(kernels.read, (weights.embed + size * ids[i] * hidden, x_ + 4 * i * hidden, hidden, rounded))
    if sizes.embedding != 1:
        call(kernels.scale, (x_, n * hidden, rounded, sizes.embedding))
    for i in range(layers):
        call(kernels.norm, (x_, weights.norms[2 * i].ctypes.data, h_, n, hidden, rounded, eps))
        call(kernels.layer, (pass_, i, 2 * i + 1, x_, hidden, h_))
        for tap in range(len(taps)):
            if taps[tap] == i + 1 < layers:
                store_states(kernels, sizes, x_, n, caches.ends, outputs, tap)
    start, count = outputs.first, outputs.rows
    for tap in range(len(taps)):
        if taps[tap] == layers:  # the normed states of all rows
            start, count = 0, n
    last_norm = weights.norms[2 * layers].ctypes.data
    call(kernels.norm, (x_ + 4 * start * hidden, last_norm, h_, count, hidden, rounded, eps))
    for tap in range(len(taps)):
        if taps[tap] == layers:
            store_states(kernels, sizes, h_, n, caches.ends, outputs, tap)
    inputs_ = h_ + 4 * (outputs.first - start) * hidden
    head, scales = weights.blocks[layers, 0], weights.scales[layers, 0]
    call(kernels.product, (pass_, inputs_, head, scales, out_, outputs.rows, hidden, padded_vocab, rounded))
    if sizes.logits != 1:
        call(kernels.scale, (out_, outputs.rows * padded_vocab, rounded, sizes.logits))
    for i in range(outputs.rows):
        call(kernels.store, (out_ + 4 * i * padded_vocab, outputs.logits + size * i * vocab, vocab, rounded))
    return scratch


@lru_cache(maxsize=4)
def addresses(storage: int) -> Kernels:
    """Return the kernels for weights in this storage format. Compiles those that are missing."""
    kernels: tuple[Any, ...] = (
        layer,
        product.multiply,
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
