"""Compiled attention of a few rows at a time, and the layout of keys and values.

Heads that share keys are computed together. So each key is read and converted to float32 once per group of rows. After
a long text, reading keys takes most of the time of a pass.

Keys are stored in blocks of `KEY_BLOCK`: the first number of each key, then the second of each, and so on. A vector
holds the products of one query with as many keys. In the formats `BF16_DOT` and `BF16_AMX` (`kv_storage`), the processor
multiplies bfloat16 pairs: two numbers of a key are adjacent, as are the values of two tokens at the same index. Queries and
softmax weights are then rounded to bfloat16.

Each row adds its keys in the order of its text, independent of other rows: first the prefix that all rows share, then
the other columns. A branch of a tree is a list of columns, so no mask is needed. With a sliding window, softmax weights of
older tokens are zero. Blocks of keys and values that are too old for all rows are not read.

`BF16_AMX` sums the values of 32 tokens per instruction. So that the bits of a row do not depend on other rows, these are always
32 tokens of the row's text from a multiple of 32 on; weights after its end are zero.
"""

import numpy as np
import torch
from numba import carray
from numba.extending import register_jitable

from ..model.heads.shape import HeadShape
from ..model.shape import Shape
from . import tiles
from .compiling import ORDERED, REASSOCIATED, internal, kernel
from .product import SHARED, clear, tile_rows
from .records import ATTENTION
from .team import share
from .vectors import (
    BF16_AMX,
    BF16_DOT,
    BFLOAT16,
    BLOCK,
    FLOAT32,
    HAS_BF16_DOT,
    KEY_BLOCK,
    LANES,
    NARROW,
    PANEL,
    PREFETCH,
    ROWS,
    attention_kernel,
    bfloat16_at,
    call,
    exp,
    floats_at,
    int32_at,
    integers_at,
    maximum,
    memory_at,
    read_numbers,
    round_if,
    round_up,
    store_numbers,
    to_bfloat16,
)

ROW_GROUP = 24  # the most rows per sweep over the keys
VALUE_BLOCK = 128  # values per block: all heads of a row group read them from the L1 cache
TILE_FLOATS = 32  # for the configuration of `tiles`, and for the one before

keys_block, values_block = attention_kernel(KEY_BLOCK), attention_kernel(BLOCK, NARROW)


@register_jitable
def scratch_floats(n, heads, kv, max_columns, dim):
    """Return the number of scratch floats that `attend` needs for n rows of at most `max_columns` columns."""
    queries = min(n, ROW_GROUP) * (heads // kv)
    return queries * (round_up(max_columns, KEY_BLOCK) // 2 * 3 + 2 * dim) + VALUE_BLOCK * dim + TILE_FLOATS


def kv_storage(shape: Shape | HeadShape, dtype: torch.dtype) -> int:
    """Return the storage format of the keys and values of a model or a head on this processor."""
    dim = shape.head_dim
    if dtype != torch.bfloat16:
        return FLOAT32
    if tiles.available() and dim % BLOCK == 0 and shape.heads <= tiles.ROWS * shape.kv_heads:
        return BF16_AMX
    return BF16_DOT if HAS_BF16_DOT and dim % (2 * LANES) == 0 else BFLOAT16


@register_jitable
def kv_interleave(storage):
    """Return how many numbers of a key, or of values, one instruction multiplies and are therefore adjacent: 2 or 1."""
    return 2 if storage in (BF16_DOT, BF16_AMX) else 1


@internal(ORDERED)
def _key_at(keys, column, dim, size, interleave):
    """Return the address of the first word of a key. Its words are `KEY_BLOCK` apart."""
    return keys + size * (column // KEY_BLOCK * KEY_BLOCK * dim + column % KEY_BLOCK * interleave)


@internal(ORDERED)
def _value_at(values, column, dim, size, interleave):
    """Return the address of the first number of a value. Its numbers are `interleave` apart."""
    return values + size * (column // interleave * interleave * dim + column % interleave)


@internal(ORDERED)
def _copy_strided(source, source_stride, destination, destination_stride, count, size):
    """Copy `count` numbers of 2 or 4 bytes between addresses with different strides."""
    for i in range(count):
        if size == 2:
            bfloat16_at(destination)[i * destination_stride] = bfloat16_at(source)[i * source_stride]
        else:
            int32_at(destination)[i * destination_stride] = int32_at(source)[i * source_stride]


@internal(ORDERED)
def store_kv(numbers, heads, keys, values, capacity, column, dim, storage, buffer):
    """Store float32 keys, then values, [2 heads, dim] at `numbers`, in a column. `buffer` has `dim` numbers."""
    rounded = storage != FLOAT32
    size, interleave = 2 if rounded else 4, kv_interleave(storage)
    for head in range(heads):
        key = _key_at(keys + size * head * capacity * dim, column, dim, size, interleave)
        value = _value_at(values + size * head * capacity * dim, column, dim, size, interleave)
        store_numbers(numbers + 4 * head * dim, buffer, dim, rounded)
        _copy_strided(buffer, 1, key, KEY_BLOCK, dim // interleave, size * interleave)
        store_numbers(numbers + 4 * (heads + head) * dim, buffer, dim, rounded)
        _copy_strided(buffer, 1, value, interleave, dim, size)


@kernel(9)
def move_columns(buffers, layers, heads, capacity, dim, storage, start, columns, count):
    """Move `columns` [count] of each layer to `start`, `start + 1`, ..., in this order.

    `buffers` is the address of the addresses [layers, 2] of keys and values [heads, capacity, dim]. No column is before
    its destination.
    """
    size, interleave = 4 if storage == FLOAT32 else 2, kv_interleave(storage)
    addresses, sources = carray(integers_at(buffers), (layers, 2)), carray(integers_at(columns), count)
    for layer in range(layers):
        for head in range(heads):
            head_offset = size * head * capacity * dim
            keys, values = addresses[layer, 0] + head_offset, addresses[layer, 1] + head_offset
            for i in range(count):
                key = _key_at(keys, sources[i], dim, size, interleave)
                to_key = _key_at(keys, start + i, dim, size, interleave)
                _copy_strided(key, KEY_BLOCK, to_key, KEY_BLOCK, dim // interleave, size * interleave)
                value = _value_at(values, sources[i], dim, size, interleave)
                to_value = _value_at(values, start + i, dim, size, interleave)
                _copy_strided(value, interleave, to_value, interleave, dim, size)


def in_token_order(keys: torch.Tensor, values: torch.Tensor, storage: int) -> tuple[torch.Tensor, torch.Tensor]:
    """Return copies [heads, capacity, dim] of keys and values in token order."""
    *_, heads, capacity, dim = keys.shape
    interleave = kv_interleave(storage)
    keys = keys.reshape(heads, capacity // KEY_BLOCK, dim // interleave, KEY_BLOCK, interleave).transpose(2, 3)
    values = values.reshape(heads, capacity // interleave, dim, interleave).transpose(2, 3)
    return keys.reshape(heads, capacity, dim), values.reshape(heads, capacity, dim)


@internal(ORDERED)
def _scores(queries, count, keys, scores, words, stride, storage):
    """Write the products of queries [count, words] and keys [words, KEY_BLOCK] to scores, rows `stride` apart."""
    first = 0
    while first < count:
        rows, query, score = tile_rows(count - first), queries + 4 * first * words, scores + 4 * first * stride
        for row in range(rows):
            clear(score + 4 * row * stride, KEY_BLOCK)
        keys_block(storage, KEY_BLOCK, rows, query, keys, score, words, words, KEY_BLOCK, PANEL, stride, 0, 0, 0)
        first += rows


@internal(REASSOCIATED)
def _softmax(score, weights, count, scaling, rounded, paired):
    """Scale scores [count] and replace them by their softmax; if `paired`, it goes to `weights` as bfloat16."""
    scores, shorts = carray(floats_at(score), count), carray(bfloat16_at(weights), count)
    for k in range(count):
        scores[k] = round_if(round_if(scores[k], rounded) * scaling, rounded)
    top, total = maximum(scores), np.float32(0)
    for k in range(count):
        scores[k] = exp(scores[k] - top)
        total += scores[k]
    for k in range(count):
        if paired:
            shorts[k] = to_bfloat16(scores[k] / total)
        else:
            scores[k] = round_if(scores[k] / total, rounded)


@internal(ORDERED)
def _clear_weights(score, weights, start, stop, paired):
    """Set softmax weights from `start` to `stop` to zero: those at `weights` if they are `paired`, else at `score`."""
    count = stop - start
    scores, shorts = carray(floats_at(score + 4 * start), count), carray(bfloat16_at(weights + 2 * start), count)
    for k in range(count):
        if paired:
            shorts[k] = 0
        else:
            scores[k] = 0


@internal(ORDERED)
def _oldest(length, window):
    """Return the first of `length` tokens that the last one attends to."""
    return length - window if 0 < window < length else 0


@internal(ORDERED)
def _gather(values, size, dim, start, stop, prefix, branch, destination, paired):
    """Copy the values of a text's tokens from `start` to `stop` to contiguous memory.

    The first `prefix` tokens are in columns of the same index, the others in the columns `branch`. If `paired`, the
    last one may be paired with zeros.
    """
    for k in range(start, stop, 2 if paired else 1):
        column = k if k < prefix else branch[k - prefix]
        if paired:
            next_column = column if k + 1 == stop else k + 1 if k + 1 < prefix else branch[k + 1 - prefix]
            words_a = carray(int32_at(values + 4 * dim * (column // 2)), dim)
            words_b = carray(int32_at(values + 4 * dim * (next_column // 2)), dim)
            shift_a, shift_b, mask = 16 * (column % 2), 16 * (next_column % 2), np.int32(0 if k + 1 == stop else -1)
            out = carray(int32_at(destination + 2 * dim * (k - start)), dim)
            for j in range(dim):
                out[j] = words_a[j] >> shift_a & 0xFFFF | (words_b[j] >> shift_b & mask) << 16
        else:
            _copy_strided(values + size * dim * column, 1, destination + size * dim * (k - start), 1, dim, size)


@internal()  # called in three places, and its loops take seconds to compile
def _accumulate(count, weights, values, y, k, stride, dim, y_stride, storage):
    """Add weights [count, k] times values [k, dim] to y [count, dim]. Values are in the format `storage`.

    Rows of weights are `stride` apart, rows of y `y_stride`. k and the strides count words, which are pairs for
    `BF16_DOT`.
    """
    first = 0
    while first < count:
        rows, column, weight = tile_rows(count - first), 0, weights + 4 * first * stride
        while column < dim:
            block, out = values + (2 if storage == BFLOAT16 else 4) * column, y + 4 * (first * y_stride + column)
            width = BLOCK if dim - column >= BLOCK else NARROW
            values_block(storage, width, rows, weight, block, out, k, stride, dim, PANEL, y_stride, *PREFETCH, 0)
            column += width
        first += rows


@internal(ORDERED)
def _configure_tiles(saved, rows, group):
    """Configure `tiles` for `rows` rows, and for `group` heads of a token. The previous configuration goes to `saved`."""
    words = carray(integers_at(saved + 64), 8)
    words[0], words[1], words[4], words[5], words[7] = 1, 0, 0, 0, 0  # the only palette
    words[2], words[3] = tiles.COLUMNS, tiles.COLUMNS
    words[6] = rows * tiles.ROWS_OF_ALL + (tiles.ROWS << 40) + (group << 48) + (group << 56)
    tiles.save_configuration(saved)
    tiles.configure(saved + 64)


@internal(ORDERED)
def _tile_scores(queries, count, keys, scores, words, stride):
    """Compute `_scores` with tiles."""
    rows = min(count, tiles.ROWS)
    for start in range(0, count, tiles.ROWS):
        first = min(start, count - rows)  # compute the last `rows` rows, some of them again, with the same bits
        out = scores + 4 * first * stride
        tiles.score(queries + 4 * first * words, 4 * words, keys, 4 * KEY_BLOCK, out, 4 * stride, words // 16)


@internal(ORDERED)
def _tile_mix(count, weights, values, y, steps, stride, dim):
    """Compute y [count, dim] = weights [count, 32 steps], rows `stride` words apart, times values [32 steps, dim]."""
    rows = min(count, tiles.ROWS)
    for start in range(0, count if steps else 0, tiles.ROWS):
        first = min(start, count - rows)
        for column in range(0, dim, BLOCK):
            out, weight = y + 4 * (first * dim + column), weights + 4 * first * stride
            tiles.mix(weight, 4 * stride, values + 4 * column, 4 * dim, out, 4 * dim, steps)


@internal(ORDERED)
def _tile_add(weights, values, y, steps, stride, dim, y_stride):
    """Add the same for the heads of one token to y, whose rows are `y_stride` apart."""
    for column in range(0, dim if steps else 0, 16):
        tiles.add_mix(weights, 4 * stride, values + 4 * column, 4 * dim, y + 4 * column, 4 * y_stride, steps)


@kernel(20, 1, REASSOCIATED)
def attend(
    qkv, stride, keys, values, capacity, dim, output, scratch, max_columns, prefix, branch, branch_stride, counts, n, heads,
    kv, kv_first, kv_stop, window, storage, scaling,
):  # fmt: skip
    """Compute attention: output [n, heads dim] for rows of qkv that begin with the rotated queries.

    Only the heads that use the keys from `kv_first` to `kv_stop` are computed.

    keys, values [kv, capacity, dim] are as `store_kv` stores them and include those of the rows; `capacity` is a
    multiple of `KEY_BLOCK`. A row attends to the first `prefix` [n] columns, then to the first `counts` [n] columns of
    its row of `branch` [n, branch_stride], in ascending order; of these, to the last `window` (0: to all). All of them are
    among the first `max_columns`. The scratch has `scratch_floats` floats.
    """
    rounded, tiled, interleave = storage != FLOAT32, storage == BF16_AMX, kv_interleave(storage)
    size, width, group, padded = 2 if rounded else 4, heads * dim, heads // kv, round_up(max_columns, KEY_BLOCK)
    paired, words, unit = interleave == 2, dim // interleave, KEY_BLOCK if tiled else interleave
    prefixes, branch_lengths = carray(integers_at(prefix), n), carray(integers_at(counts), n)
    branches = carray(integers_at(branch), (n, branch_stride))
    i = 0
    while i < n:
        rows, shared_prefix, columns, begin = min(n - i, ROW_GROUP), prefixes[i], np.int64(0), max_columns
        for row in range(i, i + rows):
            begin = min(begin, _oldest(prefixes[row] + branch_lengths[row], window))
            last = branches[row, branch_lengths[row] - 1] if branch_lengths[row] else prefixes[row] - 1
            shared_prefix, columns = min(shared_prefix, prefixes[row]), max(columns, last + 1)
        begin -= begin % KEY_BLOCK
        shared_prefix = max(shared_prefix - shared_prefix % unit, begin)
        query_count = rows * group  # ordered by head, then by row
        bf16_weights = scratch + 4 * query_count * padded
        queries = bf16_weights + 2 * query_count * padded
        sums = queries + 4 * query_count * dim
        buffer = sums + 4 * query_count * dim
        saved_tiles = buffer + 4 * VALUE_BLOCK * dim
        if tiled:
            _configure_tiles(saved_tiles, min(query_count, tiles.ROWS), group)
        weights, weight_stride = (bf16_weights, padded // 2) if paired else (scratch, padded)
        for kv_head in range(kv_first, kv_stop):
            key, value = keys + size * kv_head * capacity * dim, values + size * kv_head * capacity * dim
            for query in range(query_count):
                head, row = kv_head * group + query // rows, i + query % rows
                store_numbers(qkv + 4 * (row * stride + head * dim), queries + 4 * query * words, dim, paired)
            for start in range(begin, columns, KEY_BLOCK):
                block, block_storage = key + size * start * dim, storage
                if tiled:
                    _tile_scores(queries, query_count, block, scratch + 4 * start, words, padded)
                    continue
                if storage == BFLOAT16 and query_count > ROWS:
                    read_numbers(block, buffer, KEY_BLOCK * dim, rounded)
                    block, block_storage = buffer, FLOAT32
                _scores(queries, query_count, block, scratch + 4 * start, words, padded, block_storage)
            for query in range(query_count):
                row, score = i + query % rows, scratch + 4 * query * padded
                prefix_length, length = prefixes[row], prefixes[row] + branch_lengths[row]
                scores = carray(floats_at(score), padded)
                for k in range(branch_lengths[row]):
                    scores[prefix_length + k] = scores[branches[row, k]]
                oldest, row_weights = _oldest(length, window), bf16_weights + 2 * query * padded
                _softmax(score + 4 * oldest, row_weights + 2 * oldest, length - oldest, scaling, rounded, paired)
                _clear_weights(score, row_weights, begin, oldest, paired)
                # The last number may have no pair.
                _clear_weights(score, row_weights, length, round_up(length, unit), paired)
            clear(sums, query_count * dim)
            if tiled:
                block, weight = value + size * begin * dim, weights + 2 * begin
                steps = (shared_prefix - begin) // KEY_BLOCK
                _tile_mix(query_count, weight, block, sums, steps, weight_stride, dim)
            for start in range(begin, begin if tiled else shared_prefix, VALUE_BLOCK):
                count = min(VALUE_BLOCK, shared_prefix - start) // interleave
                block, weight = value + size * start * dim, weights + 4 * (start // interleave)
                _accumulate(query_count, weight, block, sums, count, weight_stride, dim, dim, storage)
            for row in range(i, i + rows):
                prefix_length, end, query = prefixes[row], prefixes[row] + branch_lengths[row], row - i
                weight, row_sums = weights + 4 * query * weight_stride, sums + 4 * query * dim
                aligned = max(prefix_length - prefix_length % unit, begin)
                if aligned > shared_prefix:
                    count = (aligned - shared_prefix) // interleave
                    part, block = weight + 4 * (shared_prefix // interleave), value + size * shared_prefix * dim
                    if tiled:
                        _tile_add(part, block, row_sums, 2 * count // KEY_BLOCK, rows * weight_stride, dim, rows * dim)
                    else:
                        _accumulate(group, part, block, row_sums, count, rows * weight_stride, dim, rows * dim, storage)
                for start in range(aligned, end, VALUE_BLOCK):
                    stop = min(start + VALUE_BLOCK, end)
                    _gather(value, size, dim, start, stop, prefix_length, branches[row], buffer, paired)
                    part, count = weight + 4 * (start // interleave), round_up(stop - start, interleave) // interleave
                    if tiled:
                        steps = round_up(stop - start, KEY_BLOCK) // KEY_BLOCK
                        clear(buffer + 4 * count * dim, (steps * KEY_BLOCK // 2 - count) * dim)
                        _tile_add(part, buffer, row_sums, steps, rows * weight_stride, dim, rows * dim)
                    else:
                        _accumulate(
                            group, part, buffer, row_sums, count, rows * weight_stride, dim, rows * dim, storage
                        )
            for query in range(query_count):
                row_sums = carray(floats_at(sums + 4 * query * dim), dim)
                head, row = kv_head * group + query // rows, i + query % rows
                out = carray(floats_at(output + 4 * (row * width + head * dim)), dim)
                for j in range(dim):
                    out[j] = round_if(row_sums[j], rounded)
        if tiled:
            tiles.configure(saved_tiles)
        i += rows


@internal(ORDERED)
def _attention_at(address):
    return carray(memory_at(address), 1, ATTENTION)[0]


@internal()
def attend_shared(this, qkv, stride, keys, values, capacity, output, scratch, first, stop, window):
    """Compute the attention of a text: the rows from `first` to `stop` of a `PASS`.

    The threads of the pass share the heads. Each has `scratch_floats` floats at `scratch`.
    """
    n, heads, kv, dim = stop - first, this.heads, this.kv_heads, this.head_dim
    job = _attention_at(this.attention_job)
    job.attend, job.qkv, job.stride, job.keys, job.values, job.capacity = (
        this.attend,
        qkv,
        stride,
        keys,
        values,
        capacity,
    )
    job.dim, job.output, job.scratch, job.max_columns = dim, output, scratch, this.max_columns
    job.scratch_bytes = 4 * scratch_floats(n, heads, kv, this.max_columns, dim)
    job.prefix, job.counts, job.branch_stride = this.prefix + 8 * first, this.counts + 8 * first, this.branch_stride
    job.branch = this.branch + 8 * first * this.branch_stride
    job.n, job.heads, job.kv, job.window, job.storage, job.scaling = n, heads, kv, window, this.kv_storage, this.scaling
    large = n * this.max_columns * heads * dim >= SHARED
    share(this.team, this.threads, this.attend_share, this.attention_job, kv, large)


@kernel(4)
def attend_share(attention, thread, first, stop):
    """Compute the heads that use the keys from `first` to `stop` of an attention."""
    job = _attention_at(attention)
    call(job.attend, (
        job.qkv, job.stride, job.keys, job.values, job.capacity, job.dim, job.output, job.scratch + thread * job.scratch_bytes,
        job.max_columns, job.prefix, job.branch, job.branch_stride, job.counts, job.n, job.heads, job.kv, first, stop,
        job.window, job.storage, job.scaling,
    ))  # fmt: skip
