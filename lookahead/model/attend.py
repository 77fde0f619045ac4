"""Attention in compiled code, of a few rows at a time.

The heads of these rows that share keys go through them together, some keys after the others: so a key comes from memory once
for all of them, and is widened to float32 once. Behind a long text most of a pass is this.

Every row adds its keys in the order of its text: as many as lie in that order, then the others one by one, whatever the rows
beside it see. A branch of a tree is a list of columns; nothing is masked. Where the processor multiplies bfloat16 in pairs, so
it does queries, which are rounded, and keys.

Knows addresses and numbers. It does not know models, tokens or caches.
"""

from __future__ import annotations

import numpy as np
from numba import carray, njit
from numba.extending import register_jitable

from .compiling import FREE, kernel
from .multiply import at_once, clear, round_all
from .vectors import (
    BLOCK,
    EARLY,
    LANES,
    MULTIPLIES_PAIRS,
    NARROW,
    PANEL,
    ROWS,
    bfloat16_at,
    bfloat16_of,
    dot_bfloat16,
    dot_float32,
    dot_pairs,
    dots_float32,
    dots_pairs,
    exp,
    float_of,
    floats_at,
    highest,
    integers_at,
    narrow_bfloat16,
    narrow_float32,
    rounding,
    whole,
    wide_bfloat16,
    wide_float32,
)

KEYS, VALUES = 32, 128  # that all heads of some rows go through, before any goes on: both stay in the first cache


@register_jitable
def scratch_floats(n, heads, kv, most, dim):
    """How many floats of room `attend` takes for n rows that see `most` keys at most."""
    return min(n, ROWS) * (heads // kv) * (whole(most, LANES) + dim) + KEYS * dim


@njit(inline="always")
def _softmax(scores, rounded):
    """In place, of one row."""
    top = highest(scores)
    total = np.float32(0)
    for k in range(len(scores)):
        scores[k] = exp(scores[k] - top)
        total += scores[k]
    for k in range(len(scores)):
        scores[k] = rounding(scores[k] / total, rounded)


@njit(inline="always")
def _add(rows, weights, values, y, k, stride, dim, between, rounded):
    """y [rows, dim] += weights [rows, k] times values [k, dim]: rows of weights are `stride` apart, those of y `between`."""
    column = 0
    while column < dim:
        at, place, wide = values + (2 if rounded else 4) * column, y + 4 * column, dim - column >= BLOCK
        if wide and rounded:
            wide_bfloat16(rows, weights, at, place, k, stride, dim, PANEL, between, *EARLY, 0)
        elif wide:
            wide_float32(rows, weights, at, place, k, stride, dim, PANEL, between, *EARLY, 0)
        elif rounded:
            narrow_bfloat16(rows, weights, at, place, k, stride, dim, PANEL, between, *EARLY, 0)
        else:
            narrow_float32(rows, weights, at, place, k, stride, dim, PANEL, between, *EARLY, 0)
        column += BLOCK if wide else NARROW


@njit(inline="always")
def _put_query(query, place, dim, paired):
    """Put a query at a place: as it is, or as bfloat16, which it is rounded to."""
    row, floats, shorts = carray(floats_at(query), dim), carray(floats_at(place), dim), carray(bfloat16_at(place), dim)
    for j in range(dim):
        if paired:
            shorts[j] = bfloat16_of(row[j])
        else:
            floats[j] = row[j]


@njit(inline="always")
def _widen(numbers, place, count):
    """Put bfloat16 numbers as float32 at a place."""
    shorts, floats = carray(bfloat16_at(numbers), count), carray(floats_at(place), count)
    for j in range(count):
        floats[j] = float_of(shorts[j])


@njit(inline="always")
def _scores(query, key, score, dim, many, rounded, paired):
    """At `score`, the products of a query and the key at that address, or of as many keys as a vector has numbers."""
    if paired and many:
        dots_pairs(query, key, score, dim // 2)
    elif paired:
        dot_pairs(query, key, score, dim // 2)
    elif many:
        dots_float32(query, key, score, dim)
    elif rounded:
        dot_bfloat16(query, key, score, dim)
    else:
        dot_float32(query, key, score, dim)


@kernel(17, 1, FREE)
def attend(
    qkv, stride, keys, values, room, dim, mixed, scratch, most, straight, branch, longest, counts, n, heads, kv, rounded,
    scaling,
):  # fmt: skip
    """mixed [n, heads dim] = attention of rows whose turned queries come first in the rows of qkv.

    keys, values [kv, room, dim] as stored, with the rows' own. A row sees the first `straight` [n] of them, then the first
    `counts` [n] places of its row in `branch` [n, longest], `most` together at most. The scratch is `scratch_floats` long.
    """
    size, width, share, apart = 2 if rounded else 4, heads * dim, heads // kv, 4 * whole(most, LANES)
    paired = MULTIPLIES_PAIRS and rounded and dim % (2 * LANES) == 0
    widened = rounded and not paired
    firsts, lengths = carray(integers_at(straight), n), carray(integers_at(counts), n)
    places = carray(integers_at(branch), (n, longest))
    clear(mixed, n * width)
    i = 0
    while i < n:
        rows, all_see, any_sees = at_once(n - i), firsts[i], firsts[i]
        for row in range(i, i + rows):
            all_see, any_sees = min(all_see, firsts[row]), max(any_sees, firsts[row])
        several = rows * share  # rows of a head, those of the next, and so on
        queries = scratch + several * apart
        wide = queries + 4 * several * dim
        for group in range(kv):
            key, value = keys + size * group * room * dim, values + size * group * room * dim
            query, answer = qkv + 4 * (i * stride + group * share * dim), mixed + 4 * (i * width + group * share * dim)
            for one in range(several):
                _put_query(query + 4 * (one % rows * stride + one // rows * dim), queries + 4 * one * dim, dim, paired)
            for start in range(0, any_sees, KEYS):
                near, bytes_each, end = key + size * start * dim, size * dim, min(start + KEYS, any_sees)
                if widened:
                    _widen(near, wide, (end - start) * dim)
                    near, bytes_each = wide, 4 * dim
                for one in range(several):
                    k, seen = start, min(end, firsts[i + one % rows])
                    while k < seen:  # what is computed behind the last key is written over, or not looked at
                        many = widened or k + LANES <= room
                        at = near + bytes_each * (k - start)
                        _scores(queries + 4 * one * dim, at, scratch + one * apart + 4 * k, dim, many, rounded, paired)
                        k += LANES if many else 1
            for one in range(several):
                row, score = i + one % rows, scratch + one * apart
                first, longer = firsts[row], lengths[row]
                for k in range(longer):
                    at = key + size * dim * places[row, k]
                    _scores(queries + 4 * one * dim, at, score + 4 * (first + k), dim, False, rounded, paired)
                scores = carray(floats_at(score), first + longer)
                for k in range(len(scores)):
                    scores[k] = rounding(rounding(scores[k], rounded) * scaling, rounded)
                _softmax(scores, rounded)
            for start in range(0, all_see, VALUES):
                count, one = min(VALUES, all_see - start), 0
                while one < several:
                    # Of a single row the heads lie like rows.
                    together, between = (at_once(several - one), dim) if rows == 1 else (rows, width)
                    weights, at = scratch + one * apart + 4 * start, answer + 4 * (one // rows) * dim
                    _add(together, weights, value + size * start * dim, at, count, apart // 4, dim, between, rounded)
                    one += together
            for one in range(several):
                row, score = i + one % rows, scratch + one * apart
                first, at = firsts[row], answer + 4 * (one % rows * width + one // rows * dim)
                _add(1, score + 4 * all_see, value + size * dim * all_see, at, first - all_see, 0, dim, 0, rounded)
                for k in range(lengths[row]):
                    _add(1, score + 4 * (first + k), value + size * dim * places[row, k], at, 1, 0, dim, 0, rounded)
        i += rows
    if rounded:
        round_all(mixed, n * width)
