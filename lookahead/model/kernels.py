"""The steps of a Llama's pass: machine code for this processor, made by numba when it is first needed and kept.

Every number of a row is added up in an order of its own, whatever the number of rows or of keys that others look at, so
that a row has the same bits in any company, on any processor.

- A product adds a weight's terms one by one in the order of its inputs. It is quick because 64 outputs of several rows
  are added up at once in the processor's registers (`_block`), so that a weight is read once for up to six rows. Weights
  lie in blocks of 64 outputs (`packed`): bfloat16, float32, or 8-bit numbers with a scale for every output. Where the
  processor has a matrix unit, bfloat16 goes through that (`tiles`); where it multiplies bfloat16, two terms are one step.
- Attention adds the keys of a row in the order of its text: as many as lie in that order, then the others one by one. A
  branch of a tree is a list of columns; nothing is masked.
- Of a bfloat16 model sums are rounded wherever transformers' Llama rounds them.

A kernel takes addresses and sizes, is compiled once, and is called by address from compiled code (`whole_pass`) or through
ctypes. Whoever calls it sees to it that what an address points to is as long as it should be, and stays.

Knows numbers. It does not know models, tokens or caches.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import lru_cache

import numpy as np
from numba import carray, cfunc, njit, types

from . import tiles
from .vectors import (
    BFLOAT16,
    BLOCK,
    FLOAT32,
    INT8,
    INTEGER,
    LANES,
    NARROW,
    PAIRS,
    TILES,
    bfloat16_at,
    bfloat16_of,
    block_bfloat16,
    block_float32,
    block_int8,
    block_pairs,
    dot_bfloat16,
    dot_float32,
    dots_bfloat16,
    dots_float32,
    exp,
    float_of,
    floats_at,
    integers_at,
    narrow_bfloat16,
    narrow_float32,
    rounding,
    whole,
)

ORDERED = {"nnan", "ninf", "nsz", "contract"}  # no other order of adding
FREE = ORDERED | {"reassoc", "arcp"}  # for sums over one row, whose order is the compiler's, once


@njit(inline="always")
def _at_once(left):
    """How many of the rows that are left are computed together: two groups alike where one would be small."""
    return left if left <= 6 else 4 if left == 7 else 5 if left in (9, 10) else 6


# ------------------------------------------------------------------ the steps of a pass


def _kernel(integers: int, floats: int = 0, fastmath=ORDERED) -> Callable:
    """Makes a function of so many integers and then floats something that is compiled when it is first asked for."""
    signature = types.void(*[INTEGER] * integers, *[types.float32] * floats)

    def make(function):
        return lru_cache(maxsize=1)(
            lambda: kept(cfunc, signature, nopython=True, fastmath=fastmath, error_model="numpy")(function)
        )

    return make


def kept(compiler: Callable, *arguments, **options) -> Callable:
    """The compiler, keeping what it makes beside this file or in the user's cache, where one of them can be written."""

    def compiled(function):
        try:
            return compiler(*arguments, cache=True, **options)(function)
        except RuntimeError:  # neither can
            return compiler(*arguments, **options)(function)

    return compiled


@njit(inline="always")
def _clear(y, count):
    numbers = carray(floats_at(y), count)
    for i in range(count):
        numbers[i] = np.float32(0)


@njit(inline="always")
def _round(y, count):
    numbers = carray(floats_at(y), count)
    for i in range(count):
        numbers[i] = float_of(bfloat16_of(numbers[i]))


@njit(inline="always")
def _by_blocks(block, size, x, w, y, n, k, width):
    """Every block of outputs for all rows before the next: `size` bytes a stored weight."""
    _clear(y, n * width)
    for i in range(width // BLOCK):
        row = 0
        while row < n:
            rows = _at_once(n - row)
            out = y + 4 * (row * width + i * BLOCK)
            block(rows, x + 4 * row * k, w + size * i * BLOCK * k, out, k, k, BLOCK, width)
            row += rows


@_kernel(9)
def _multiply_bfloat16(x, w, scale, y, spare, n, k, width, rounded):
    """y [n, width] = x [n, k] times the weight at `w`; `width` is whole blocks. Sums are rounded if they should be."""
    _by_blocks(block_bfloat16, 2, x, w, y, n, k, width)
    if rounded:
        _round(y, n * width)


@_kernel(9)
def _multiply_float32(x, w, scale, y, spare, n, k, width, rounded):
    """The same with float32 weights."""
    _by_blocks(block_float32, 4, x, w, y, n, k, width)


@_kernel(9)
def _multiply_int8(x, w, scale, y, spare, n, k, width, rounded):
    """The same with 8-bit weights, whose sums are multiplied by the scale of their output."""
    _by_blocks(block_int8, 1, x, w, y, n, k, width)
    scales = carray(floats_at(scale), width)
    for i in range(n):
        sums = carray(floats_at(y + 4 * i * width), width)
        for j in range(width):
            sums[j] = rounding(sums[j] * scales[j], rounded)


@njit(inline="always")
def _shortened(x, y, n, k, wide):
    """Rows x [n, k] as bfloat16 at y [n, wide], with zeros behind them."""
    for i in range(n):
        row, out = carray(floats_at(x + 4 * i * k), k), carray(bfloat16_at(y + 2 * i * wide), wide)
        for j in range(k):
            out[j] = bfloat16_of(row[j])
        for j in range(k, wide):
            out[j] = np.uint16(0)


@_kernel(9)
def _multiply_pairs(x, w, scale, y, spare, n, k, width, rounded):
    """The same with bfloat16 weights in pairs, of inputs that are rounded; `spare` as `spare_floats` has it."""
    pairs = whole(k, 2) // 2
    _shortened(x, spare, n, k, 2 * pairs)
    _by_blocks(block_pairs, 4, spare, w, y, n, pairs, width)
    if rounded:
        _round(y, n * width)


@_kernel(9)
def _multiply_in_tiles(x, w, scale, y, spare, n, k, width, rounded):
    """The same with bfloat16 weights in tiles."""
    wide = whole(k, tiles.INPUTS)
    steps, size = wide // tiles.INPUTS, 2 * wide
    before, sizes, inputs = spare, spare + 64, spare + 128
    _shortened(x, inputs, n, k, wide)
    words = carray(integers_at(sizes), 8)
    words[0], words[1], words[4], words[5], words[7] = 1, 0, 0, 0, 0  # the one palette there is
    words[2], words[3] = tiles.COLUMNS, tiles.COLUMNS
    rows = min(n, tiles.ROWS)
    words[6] = rows * 0x01_01_01_01_01 + tiles.WEIGHTS_ROWS
    tiles.configuration(before)
    tiles.configure(sizes)
    for block in range(width // BLOCK):
        weights = w + block * steps * 4 * tiles.TILE
        for start in range(0, n, tiles.ROWS):
            first = min(start, n - rows)  # the last rows once more, with the same bits, rather than fewer
            sums = y + 4 * (first * width + block * BLOCK)
            tiles.multiply(inputs + first * size, size, weights, sums, 4 * width, steps)
    tiles.configure(before)
    if rounded:
        _round(y, n * width)


def spare_floats(rows: int, k: int) -> int:
    """Room to work in for a product of so many rows [rows, k]: two configurations of tiles, and the rows in bfloat16."""
    return 32 + rows * whole(k, tiles.INPUTS) // 2


@_kernel(6, 1, FREE)
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


@_kernel(6)
def add(x, y, n, width, stride, rounded):
    """x [n, width] += y, whose rows are `stride` apart."""
    for i in range(n):
        row, more = carray(floats_at(x + 4 * i * width), width), carray(floats_at(y + 4 * i * stride), width)
        for j in range(width):
            row[j] = rounding(row[j] + more[j], rounded)


@_kernel(6)
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


@_kernel(8)
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


@_kernel(4)
def read(stored, y, count, rounded):
    """Stored numbers as float32."""
    out = carray(floats_at(y), count)
    if rounded:
        shorts = carray(bfloat16_at(stored), count)
        for i in range(count):
            out[i] = float_of(shorts[i])
    else:
        _copy(carray(floats_at(stored), count), out)


@_kernel(4)
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
    top = np.float32(-1e30)
    for k in range(len(scores)):
        top = max(top, scores[k])
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
        block_bfloat16(rows, weights, values, y, k, stride, dim, width)
    elif wide:
        block_float32(rows, weights, values, y, k, stride, dim, width)
    elif rounded:
        narrow_bfloat16(rows, weights, values, y, k, stride, dim, width)
    else:
        narrow_float32(rows, weights, values, y, k, stride, dim, width)


@_kernel(17, 1, FREE)
def attend(
    qkv, stride, keys, values, room, dim, mixed, scores, most, straight, branch, longest, counts, n, heads, kv, rounded,
    scaling,
):  # fmt: skip
    """mixed [n, heads dim] = attention of rows whose turned queries come first in the rows of qkv.

    keys, values [kv, room, dim] as stored, with the rows' own. A row sees the first `straight` [n] of them, then the first
    `counts` [n] places of its row in `branch` [n, longest]. scores [n, most] is room for as many as any row sees.
    """
    size, width = 2 if rounded else 4, heads * dim
    firsts, lengths = carray(integers_at(straight), n), carray(integers_at(counts), n)
    places = carray(integers_at(branch), (n, longest))
    _clear(mixed, n * width)
    for head in range(heads):
        shared = size * room * dim * (head * kv // heads)
        for i in range(n):
            query, first, score = qkv + 4 * (i * stride + head * dim), firsts[i], scores + 4 * i * most
            row, k = carray(floats_at(score), first + lengths[i]), 0
            while k < len(row):
                key = keys + shared + size * dim * (k if k < first else places[i, k - first])
                many = k + LANES <= first
                if many and rounded:
                    dots_bfloat16(query, key, score + 4 * k, dim)
                elif many:
                    dots_float32(query, key, score + 4 * k, dim)
                elif rounded:
                    dot_bfloat16(query, key, score + 4 * k, dim)
                else:
                    dot_float32(query, key, score + 4 * k, dim)
                k += LANES if many else 1
            for j in range(len(row)):
                row[j] = rounding(rounding(row[j], rounded) * scaling, rounded)
            _softmax(row, rounded)
        start = 0
        while start < dim:
            wide = dim - start >= BLOCK
            out, value, i = mixed + 4 * (head * dim + start), values + shared + size * start, 0
            while i < n:
                rows, all_see = _at_once(n - i), firsts[i]
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
        _round(mixed, n * width)


def multiply(stored: int):
    """The kernel for weights that are stored in this way."""
    return {
        BFLOAT16: _multiply_bfloat16, FLOAT32: _multiply_float32, INT8: _multiply_int8, TILES: _multiply_in_tiles,
        PAIRS: _multiply_pairs,
    }[stored]()  # fmt: skip


def packed(weight: np.ndarray, stored: int) -> np.ndarray:
    """A weight [out, in] in blocks [blocks, in, 64], or of pairs [blocks, in / 2, 64, 2], with zeros behind the last output
    and input; or in tiles."""
    if stored == TILES:
        return tiles.packed(weight)
    out, size = weight.shape
    together = 2 if stored == PAIRS else 1
    blocks = np.zeros((whole(out, BLOCK), whole(size, together)), weight.dtype)
    blocks[:out, :size] = weight
    return np.ascontiguousarray(blocks.reshape(-1, BLOCK, blocks.shape[1] // together, together).transpose(0, 2, 1, 3))
