"""The steps of a Llama's pass: machine code for this processor, made by numba when it is first needed and kept.

Every number of a row is added up in an order of its own, whatever the number of rows or of keys that others look at, so
that a row has the same bits in any company, on any processor.

- Products: see `multiply`.
- Attention adds the keys of a row in the order of its text: as many as lie in that order, then the others one by one. A
  branch of a tree is a list of columns; nothing is masked. Where the processor multiplies bfloat16 in pairs, so it does
  queries, which are rounded, and keys.
- Of a bfloat16 model sums are rounded wherever transformers' Llama rounds them.

A kernel takes addresses and sizes, is compiled once, and is called by address from compiled code (`whole_pass`) or through
ctypes. Whoever calls it sees to it that what an address points to is as long as it should be, and stays.

Knows numbers. It does not know models, tokens or caches.
"""

from __future__ import annotations

import numpy as np
from numba import carray, njit

from .compiling import FREE, kernel
from .multiply import at_once, clear, round_all
from .vectors import (
    BLOCK,
    FAR,
    LANES,
    MULTIPLIES_PAIRS,
    NARROW,
    PANEL,
    bfloat16_at,
    bfloat16_of,
    dot_bfloat16,
    dot_float32,
    dot_pairs,
    dots_bfloat16,
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
    wide_bfloat16,
    wide_float32,
)


@kernel(6, 1, FREE)
def norm(x, weight, y, n, width, rounded, eps):
    """y [n, width] = x over the root of its mean square, times the weight."""
    weights = carray(floats_at(weight), width)
    for i in range(n):
        row, out = carray(floats_at(x + 4 * i * width), width), carray(floats_at(y + 4 * i * width), width)
        total = np.float32(0)
        for j in range(width):
            total += row[j] * row[j]
        scale = np.float32(1) / np.sqrt(total / np.float32(width) + eps)
        for j in range(width):
            out[j] = rounding(rounding(row[j] * scale, rounded) * weights[j], rounded)


@kernel(6)
def add(x, y, n, width, stride, rounded):
    """x [n, width] += y, whose rows are `stride` apart."""
    for i in range(n):
        row, more = carray(floats_at(x + 4 * i * width), width), carray(floats_at(y + 4 * i * stride), width)
        for j in range(width):
            row[j] = rounding(row[j] + more[j], rounded)


@kernel(6)
def gate(both, y, n, width, stride, rounded):
    """y [n, width] = silu(gate) times up, of rows `stride` apart that hold the gate first."""
    for i in range(n):
        gates, ups = (
            carray(floats_at(both + 4 * i * stride), width),
            carray(floats_at(both + 4 * (i * stride + width)), width),
        )
        out = carray(floats_at(y + 4 * i * width), width)
        for j in range(width):
            gate = gates[j]
            out[j] = rounding(rounding(gate / (np.float32(1) + exp(-gate)), rounded) * ups[j], rounded)


@kernel(8)
def turn(qkv, cos, sin, n, heads, half, stride, rounded):
    """Turn the first so many heads of every row by its position: cos, sin [n, 2 half]."""
    for i in range(n):
        c, s = carray(floats_at(cos + 8 * i * half), 2 * half), carray(floats_at(sin + 8 * i * half), 2 * half)
        for head in range(heads):
            start = qkv + 4 * (i * stride + 2 * half * head)
            first, second = carray(floats_at(start), half), carray(floats_at(start + 4 * half), half)
            for j in range(half):
                a, b = first[j], second[j]
                first[j] = rounding(rounding(a * c[j], rounded) + rounding(b * s[j], rounded), rounded)
                second[j] = rounding(rounding(b * c[half + j], rounded) + rounding(a * s[half + j], rounded), rounded)


@njit(inline="always")
def _copy(numbers, out):
    for i in range(len(out)):
        out[i] = numbers[i]


@kernel(4)
def read(stored, y, count, rounded):
    """Stored numbers as float32."""
    out = carray(floats_at(y), count)
    if rounded:
        shorts = carray(bfloat16_at(stored), count)
        for i in range(count):
            out[i] = float_of(shorts[i])
    else:
        _copy(carray(floats_at(stored), count), out)


@kernel(4)
def store(y, stored, count, rounded):
    """float32 as numbers are stored there."""
    numbers = carray(floats_at(y), count)
    if rounded:
        shorts = carray(bfloat16_at(stored), count)
        for i in range(count):
            shorts[i] = bfloat16_of(numbers[i])
    else:
        _copy(numbers, carray(floats_at(stored), count))


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
def _weighed(rows, weights, values, y, k, stride, dim, width, wide, rounded):
    """y [rows, 64 or 16 columns] += weights [rows, k] times values [k, dim]: `wide` columns or few."""
    if wide and rounded:
        wide_bfloat16(rows, weights, values, y, k, stride, dim, PANEL, width, FAR, 0)
    elif wide:
        wide_float32(rows, weights, values, y, k, stride, dim, PANEL, width, FAR, 0)
    elif rounded:
        narrow_bfloat16(rows, weights, values, y, k, stride, dim, PANEL, width, FAR, 0)
    else:
        narrow_float32(rows, weights, values, y, k, stride, dim, PANEL, width, FAR, 0)


@njit(inline="always")
def _in_pairs(query, place, dim):
    """A rounded query as bfloat16 at a place, which is returned."""
    row, out = carray(floats_at(query), dim), carray(bfloat16_at(place), dim)
    for j in range(dim):
        out[j] = bfloat16_of(row[j])
    return place


@njit(inline="always")
def _scores(query, key, score, dim, many, rounded, paired):
    """At `score`, the products of a query and the key at that address, or of as many keys as a vector has numbers."""
    if paired and many:
        dots_pairs(query, key, score, dim // 2)
    elif paired:
        dot_pairs(query, key, score, dim // 2)
    elif many and rounded:
        dots_bfloat16(query, key, score, dim)
    elif many:
        dots_float32(query, key, score, dim)
    elif rounded:
        dot_bfloat16(query, key, score, dim)
    else:
        dot_float32(query, key, score, dim)


@kernel(17, 1, FREE)
def attend(
    qkv, stride, keys, values, room, dim, mixed, scores, most, straight, branch, longest, counts, n, heads, kv, rounded,
    scaling,
):  # fmt: skip
    """mixed [n, heads dim] = attention of rows whose turned queries come first in the rows of qkv.

    keys, values [kv, room, dim] as stored, with the rows' own. A row sees the first `straight` [n] of them, then the first
    `counts` [n] places of its row in `branch` [n, longest]. scores [n, most] is room for as many as any row sees, and for a
    vector and a query behind the last.
    """
    size, width = 2 if rounded else 4, heads * dim
    paired = MULTIPLIES_PAIRS and rounded and dim % (2 * LANES) == 0
    firsts, lengths = carray(integers_at(straight), n), carray(integers_at(counts), n)
    places = carray(integers_at(branch), (n, longest))
    clear(mixed, n * width)
    for head in range(heads):
        shared = size * room * dim * (head * kv // heads)
        for i in range(n):
            query, first, score = qkv + 4 * (i * stride + head * dim), firsts[i], scores + 4 * i * most
            if paired:
                query = _in_pairs(query, scores + 4 * (n * most + LANES), dim)
            row, k = carray(floats_at(score), first + lengths[i]), 0
            while k < len(row):
                key = keys + shared + size * dim * (k if k < first else places[i, k - first])
                many = k < first and k + LANES <= room  # those behind `first` are computed too, and written over
                _scores(query, key, score + 4 * k, dim, many, rounded, paired)
                k = min(k + LANES, first) if many else k + 1
            for j in range(len(row)):
                row[j] = rounding(rounding(row[j], rounded) * scaling, rounded)
            _softmax(row, rounded)
        start = 0
        while start < dim:
            wide = dim - start >= BLOCK
            out, value, i = mixed + 4 * (head * dim + start), values + shared + size * start, 0
            while i < n:
                rows, all_see = at_once(n - i), firsts[i]
                for j in range(i, i + rows):
                    all_see = min(all_see, firsts[j])
                weights, y = scores + 4 * i * most, out + 4 * i * width
                _weighed(rows, weights, value, y, all_see, most, dim, width, wide, rounded)
                for j in range(i, i + rows):
                    weights, y, seen = scores + 4 * j * most, out + 4 * j * width, firsts[j]
                    place = value + size * dim * all_see
                    _weighed(1, weights + 4 * all_see, place, y, seen - all_see, most, dim, width, wide, rounded)
                    for k in range(lengths[j]):
                        place = value + size * dim * places[j, k]
                        _weighed(1, weights + 4 * (seen + k), place, y, 1, most, dim, width, wide, rounded)
                i += rows
            start += BLOCK if wide else NARROW
    if rounded:
        round_all(mixed, n * width)
