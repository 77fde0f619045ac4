"""Attention in compiled code, of a few rows at a time, and how keys and values lie for it.

Heads of these rows that share keys are computed together, so a key is read from memory and widened to float32 once for all.
After a long text this is most of a pass.

`KEYS` keys lie side by side, the first number of each, then the second of each: a vector holds products of one query with as many
keys. If the processor multiplies two bfloat16 in one step, two numbers of a key lie together, and the same number of two tokens'
values; queries and weights are rounded then.

Every row adds its keys in the order of its text, independent of other rows: first those that all rows see in that order, then the
others. A branch of a tree is a list of columns; nothing is masked.
"""

import numpy as np
import torch
from numba import carray, njit
from numba.extending import register_jitable

from .compiling import FREE, kernel
from .product import at_once, clear
from .vectors import (
    BF16_DOT,
    BFLOAT16,
    BLOCK,
    EARLY,
    FLOAT32,
    HAS_BF16_DOT,
    KEYS,
    LANES,
    NARROW,
    PANEL,
    ROWS,
    bfloat16_at,
    bfloat16_of,
    exp,
    floats_at,
    highest,
    int32_at,
    integers_at,
    keys_block,
    read_numbers,
    rounding,
    store_numbers,
    values_block,
    whole,
)

ROW_GROUP = 24  # rows that go through the keys together at most
VALUES = 128  # that all heads of some rows go through, before any goes on: they stay in the first cache


@register_jitable
def scratch_floats(n, heads, kv, most, dim):
    """How many floats of room `attend` takes for n rows that see none but the first `most` columns."""
    return min(n, ROW_GROUP) * (heads // kv) * (whole(most, KEYS) // 2 * 3 + 2 * dim) + VALUES * dim


@njit(inline="always")
def multiplied_together(dim, rounded):
    """How many numbers of a key, or of values, are one step, and so lie beside each other: two or one."""
    return 2 if HAS_BF16_DOT and rounded and dim % (2 * LANES) == 0 else 1


@njit(inline="always")
def _key(keys, column, dim, size, together):
    """The address of the first word of a key, of words that lie `KEYS` apart."""
    return keys + size * (column // KEYS * KEYS * dim + column % KEYS * together)


@njit(inline="always")
def _value(values, column, dim, size, together):
    """The address of the first number of a value, of numbers that lie `together` apart."""
    return values + size * (column // together * together * dim + column % together)


@njit(inline="always")
def _copy(given, apart, there, there_apart, count, size):
    """Copy so many numbers of 2 or 4 bytes, which lie so many apart, to a place where they will."""
    for i in range(count):
        if size == 2:
            bfloat16_at(there)[i * there_apart] = bfloat16_at(given)[i * apart]
        else:
            int32_at(there)[i * there_apart] = int32_at(given)[i * apart]


@njit(inline="always")
def put(numbers, heads, keys, values, room, column, dim, rounded, spare):
    """Store in a column keys and then values, float32 [2 heads, dim] at `numbers`; `spare` has room for `dim` numbers."""
    size, together = 2 if rounded else 4, multiplied_together(dim, rounded)
    for head in range(heads):
        key = _key(keys + size * head * room * dim, column, dim, size, together)
        value = _value(values + size * head * room * dim, column, dim, size, together)
        store_numbers(numbers + 4 * head * dim, spare, dim, rounded)
        _copy(spare, 1, key, KEYS, dim // together, size * together)
        store_numbers(numbers + 4 * (heads + head) * dim, spare, dim, rounded)
        _copy(spare, 1, value, together, dim, size)


@kernel(9)
def move(buffers, layers, heads, room, dim, rounded, start, columns, moved):
    """In the keys and values [heads, room, dim] whose addresses [layers, 2] are at `buffers`, move `columns` [moved] to `start`,
    `start + 1`, ..., one after the other: none lies before its new place."""
    size, together = 2 if rounded else 4, multiplied_together(dim, rounded)
    addresses, places = carray(integers_at(buffers), (layers, 2)), carray(integers_at(columns), moved)
    for layer in range(layers):
        for head in range(heads):
            of_head = size * head * room * dim
            keys, values = addresses[layer, 0] + of_head, addresses[layer, 1] + of_head
            for i in range(moved):
                column, there = places[i], start + i
                key, value = _key(keys, column, dim, size, together), _value(values, column, dim, size, together)
                to_key, to_value = _key(keys, there, dim, size, together), _value(values, there, dim, size, together)
                _copy(key, KEYS, to_key, KEYS, dim // together, size * together)
                _copy(value, together, to_value, together, dim, size)


def in_order(keys: torch.Tensor, values: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
    """Copies [heads, room, dim] of keys and values as one would write them down: token after token."""
    *_, heads, room, dim = keys.shape
    together = multiplied_together(dim, keys.dtype == torch.bfloat16)
    keys = keys.reshape(heads, room // KEYS, dim // together, KEYS, together).transpose(2, 3)
    values = values.reshape(heads, room // together, dim, together).transpose(2, 3)
    return keys.reshape(heads, room, dim), values.reshape(heads, room, dim)


@njit(inline="always")
def _scores(queries, several, keys, scores, words, apart, stored):
    """Put the products of queries [several, words] and keys [words, KEYS] at scores [several, KEYS], `apart` from row to row;
    keys are in `stored` form."""
    one = 0
    while one < several:
        rows, query, score = at_once(several - one), queries + 4 * one * words, scores + 4 * one * apart
        for row in range(rows):
            clear(score + 4 * row * apart, KEYS)
        keys_block(stored, KEYS, rows, query, keys, score, words, words, KEYS, PANEL, apart, 0, 0, 0)
        one += rows


@njit(inline="always")
def _softmax(score, weights, count, scaling, rounded, paired):
    """Of scores [count] that are still to be scaled, in place or, as bfloat16, at `weights`, with a zero after them."""
    scores, shorts = carray(floats_at(score), count), carray(bfloat16_at(weights), count + 1)
    for k in range(count):
        scores[k] = rounding(rounding(scores[k], rounded) * scaling, rounded)
    top, total = highest(scores), np.float32(0)
    for k in range(count):
        scores[k] = exp(scores[k] - top)
        total += scores[k]
    for k in range(count):
        if paired:
            shorts[k] = bfloat16_of(scores[k] / total)
        else:
            scores[k] = rounding(scores[k] / total, rounded)
    if paired and count % 2:
        shorts[count] = 0


@njit(inline="always")
def _gather(values, size, dim, start, stop, first, places, there, paired):
    """Put the values of a text's tokens from `start` to `stop` where they can be multiplied: the first so many lie in order, the
    others in columns `places`. Of pairs the last may lie beside zeros."""
    for k in range(start, stop, 2 if paired else 1):
        column = k if k < first else places[k - first]
        if paired:
            beside = column if k + 1 == stop else k + 1 if k + 1 < first else places[k + 1 - first]
            ones = carray(int32_at(values + 4 * dim * (column // 2)), dim)
            others = carray(int32_at(values + 4 * dim * (beside // 2)), dim)
            low, high, none = 16 * (column % 2), 16 * (beside % 2), np.int32(0 if k + 1 == stop else -1)
            words = carray(int32_at(there + 2 * dim * (k - start)), dim)
            for j in range(dim):
                words[j] = ones[j] >> low & 0xFFFF | (others[j] >> high & none) << 16
        else:
            _copy(values + size * dim * column, 1, there + size * dim * (k - start), 1, dim, size)


@njit(inline="always")
def _add(several, weights, values, y, k, stride, dim, between, stored):
    """y [several, dim] += weights [several, k] times values [k, dim] in `stored` form: rows of weights are `stride` apart, those
    of y `between`; both are counted in words, as k is, of pairs."""
    one = 0
    while one < several:
        rows, column, weight = at_once(several - one), 0, weights + 4 * one * stride
        while column < dim:
            at, place = values + (2 if stored == BFLOAT16 else 4) * column, y + 4 * (one * between + column)
            width = BLOCK if dim - column >= BLOCK else NARROW
            values_block(stored, width, rows, weight, at, place, k, stride, dim, PANEL, between, *EARLY, 0)
            column += width
        one += rows


@kernel(17, 1, FREE)
def attend(
    qkv, stride, keys, values, room, dim, mixed, scratch, most, straight, branch, longest, counts, n, heads, kv, rounded,
    scaling,
):  # fmt: skip
    """mixed [n, heads dim] = attention of rows whose rotated queries come first in the rows of qkv.

    keys, values [kv, room, dim] as `put` stores them, with the rows' own; `room` is whole blocks of `KEYS`. A row sees the
    first `straight` [n] columns of them, then the first `counts` [n] of its row in `branch` [n, longest], which come one
    after the other; none sees any but the first `most`. The scratch is `scratch_floats` long.
    """
    size, width, share, apart = 2 if rounded else 4, heads * dim, heads // kv, whole(most, KEYS)
    together = multiplied_together(dim, rounded)
    paired, words = together == 2, dim // together
    stored = BF16_DOT if paired else BFLOAT16 if rounded else FLOAT32
    firsts, lengths = carray(integers_at(straight), n), carray(integers_at(counts), n)
    places = carray(integers_at(branch), (n, longest))
    i = 0
    while i < n:
        rows, all_see, columns = min(n - i, ROW_GROUP), firsts[i], np.int64(0)
        for row in range(i, i + rows):
            last = places[row, lengths[row] - 1] if lengths[row] else firsts[row] - 1
            all_see, columns = min(all_see, firsts[row]), max(columns, last + 1)
        all_see -= all_see % together
        several = rows * share  # rows of a head, those of the next, and so on
        weights = scratch + 4 * several * apart
        queries = weights + 2 * several * apart
        answers = queries + 4 * several * dim
        spare = answers + 4 * several * dim
        summed, rows_apart = (weights, apart // 2) if paired else (scratch, apart)
        for group in range(kv):
            key, value = keys + size * group * room * dim, values + size * group * room * dim
            for one in range(several):
                head, row = group * share + one // rows, i + one % rows
                store_numbers(qkv + 4 * (row * stride + head * dim), queries + 4 * one * words, dim, paired)
            for start in range(0, columns, KEYS):
                near, form = key + size * start * dim, stored
                if stored == BFLOAT16 and several > ROWS:
                    read_numbers(near, spare, KEYS * dim, rounded)
                    near, form = spare, FLOAT32
                _scores(queries, several, near, scratch + 4 * start, words, apart, form)
            for one in range(several):
                row, score = i + one % rows, scratch + 4 * one * apart
                first, longer = firsts[row], lengths[row]
                scores = carray(floats_at(score), apart)
                for k in range(longer):
                    scores[first + k] = scores[places[row, k]]
                _softmax(score, weights + 2 * one * apart, first + longer, scaling, rounded, paired)
            clear(answers, several * dim)
            for start in range(0, all_see, VALUES):
                count = min(VALUES, all_see - start) // together
                near, weight = value + size * start * dim, summed + 4 * (start // together)
                _add(several, weight, near, answers, count, rows_apart, dim, dim, stored)
            for row in range(i, i + rows):
                first, end, one = firsts[row], firsts[row] + lengths[row], row - i
                weight, answer = summed + 4 * one * rows_apart, answers + 4 * one * dim
                in_a_row = first - first % together
                if in_a_row > all_see:
                    count = (in_a_row - all_see) // together
                    at, near = weight + 4 * (all_see // together), value + size * all_see * dim
                    _add(share, at, near, answer, count, rows * rows_apart, dim, rows * dim, stored)
                for start in range(in_a_row, end, VALUES):
                    stop = min(start + VALUES, end)
                    _gather(value, size, dim, start, stop, first, places[row], spare, paired)
                    at, count = weight + 4 * (start // together), whole(stop - start, together) // together
                    _add(share, at, spare, answer, count, rows * rows_apart, dim, rows * dim, stored)
            for one in range(several):
                answer = carray(floats_at(answers + 4 * one * dim), dim)
                head, row = group * share + one // rows, i + one % rows
                out = carray(floats_at(mixed + 4 * (row * width + head * dim)), dim)
                for j in range(dim):
                    out[j] = rounding(answer[j], rounded)
        i += rows
