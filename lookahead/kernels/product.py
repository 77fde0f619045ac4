"""Products of rows with a weight, one kernel for each way in which weights are stored.

A product adds a weight's terms one by one in the order of its inputs. It is fast because a panel of outputs (64, or 16 where
vectors are short) of several rows is added up at once in the processor's registers, so that a weight is read once for up to six
rows. Weights lie in panels too (`packed`), in one of the storage formats of `vectors`; 8-bit weights have a scale for every output.
"""

from collections.abc import Callable, Sequence

import numpy as np
import torch
from numba import carray, njit
from numba.extending import register_jitable

from . import tiles
from .compiling import kernel
from .large_pages import in_large_pages
from .vectors import (
    BF16_AMX,
    BF16_DOT,
    BF16_SPLIT,
    BLOCK,
    EARLY,
    FEW,
    FLOAT32,
    HAS_BF16_DOT,
    HAS_VNNI,
    INT8_BY_2,
    INT8_BY_4,
    NEAR,
    PANEL,
    ROWS,
    TOGETHER,
    bfloat16_at,
    bfloat16_of,
    block_bf16_dot,
    block_bf16_split,
    block_float32,
    block_int8_by_2,
    block_int8_by_4,
    bytes_at,
    float_of,
    floats_at,
    int16_at,
    int32_at,
    integers_at,
    largest_size,
    rounding,
    whole,
)

LARGEST, TINY = 127, 1e-12  # of an 8-bit number; of a scale
UNSIGNED = 128  # what is added to the inputs of `INT8_BY_4`


@njit(inline="always")
def at_once(left):
    """How many of the rows that are left are computed together: two groups alike where one would be small."""
    return left if left <= 6 else 4 if left in (7, 8) else 5 if left in (9, 10) else 6


@njit(inline="always")
def clear(y, count):
    """Set `count` floats at the address `y` to zero."""
    numbers = carray(floats_at(y), count)
    for i in range(count):
        numbers[i] = np.float32(0)


@njit(inline="always")
def round_all(y, count):
    """Round `count` floats at the address `y` to bfloat16, in place."""
    numbers = carray(floats_at(y), count)
    for i in range(count):
        numbers[i] = float_of(bfloat16_of(numbers[i]))


@njit(inline="always")
def _by_blocks(block, size, together, x, stride, w, y, n, k, width):
    """Add every panel of outputs for all rows x [n, stride] before the next. A step takes so many inputs `together` and `size`
    bytes of weights an output; inputs after the last whole step are left.

    Where several loops read a panel, computing takes longer than bringing it: meanwhile the next one is asked for, half of it
    while the first rows are computed and half while the second are. Either alone would wait for memory.
    """
    steps = whole(k, together) // together
    outputs = BLOCK if n <= FEW else PANEL
    for i in range(width // outputs):
        row, following = 0, size * outputs * steps
        weights = w + i * following
        while row < n:
            rows, (near, far), slow = at_once(n - row), EARLY, 0
            if n > ROWS:
                near, far, slow = NEAR, following + (following // 2 if row else 0), 1
            out = y + 4 * (row * width + i * outputs)
            inputs, panel = x + 4 * row * stride, PANEL * steps
            block(rows, inputs, weights, out, k // together, stride, PANEL, panel, width, near, far, slow)
            row += rows


@kernel(9)
def _multiply_bf16_split(x, w, scale, y, spare, n, k, width, rounded):
    """y [n, width] = x [n, k] times the bfloat16 weight at `w`; `width` is whole blocks. Sums are rounded if they should be."""
    clear(y, n * width)
    _by_blocks(block_bf16_split, 4, 2, x, k, w, y, n, k, width)
    for i in range(width // PANEL if k % 2 else 0):  # the last input has none beside it
        weights = carray(bfloat16_at(w + 4 * PANEL * ((i + 1) * (whole(k, 2) // 2) - 1)), 2 * PANEL)
        for row in range(n):
            last = floats_at(x + 4 * (row * k + k - 1))[0]
            sums = carray(floats_at(y + 4 * (row * width + i * PANEL)), PANEL)
            for j in range(PANEL):
                sums[j] += last * float_of(weights[2 * j])
    if rounded:
        round_all(y, n * width)


@kernel(9)
def _multiply_float32(x, w, scale, y, spare, n, k, width, rounded):
    """The same with float32 weights."""
    clear(y, n * width)
    _by_blocks(block_float32, 4, 1, x, k, w, y, n, k, width)


@njit(inline="always")
def _in_bytes(x, k, out, wide, zero):
    """Numbers x [k] as bytes after `zero` in out [wide], with zeros after them; returns their scale."""
    row = carray(floats_at(x), k)
    largest = max(largest_size(row), np.float32(1e-12))
    inverse = np.float32(127) / largest
    for j in range(k):
        out[j] = np.int32(row[j] * inverse + np.float32(128.5)) - (128 - zero)
    for j in range(k, wide):
        out[j] = zero
    return largest / np.float32(127)


@njit(inline="always")
def _scaled(y, scale, row_scales, n, width, rounded):
    """The sums at y [n, width], which are whole numbers, times the scales of their outputs and rows."""
    scales = carray(floats_at(scale), width)
    for i in range(n):
        sums, out = carray(int32_at(y + 4 * i * width), width), carray(floats_at(y + 4 * i * width), width)
        by = floats_at(row_scales)[i]
        for j in range(width):
            out[j] = rounding(np.float32(sums[j]) * (scales[j] * by), rounded)


@kernel(9)
def _multiply_int8_by_2(x, w, scale, y, spare, n, k, width, rounded):
    """The same with 8-bit weights, which have a scale for every output, of inputs in 8 bits with a scale for every row:
    inputs lie in 16 bits, and sums are of whole numbers."""
    wide = whole(k, 2)
    row_scales = spare + 2 * n * wide
    for i in range(n):
        out = carray(int16_at(spare + 2 * i * wide), wide)
        floats_at(row_scales)[i] = _in_bytes(x + 4 * i * k, k, out, wide, 0)
    clear(y, n * width)
    _by_blocks(block_int8_by_2, 2, 2, spare, wide // 2, w, y, n, wide, width)
    _scaled(y, scale, row_scales, n, width, rounded)


@kernel(9)
def _multiply_int8_by_4(x, w, scale, y, spare, n, k, width, rounded):
    """The same, and with the same bits, for `INT8_BY_4`. Bytes of inputs have no sign, so 128 is added to each; after the scales is
    what that must be taken off with, where sums begin (int32)."""
    wide = whole(k, 4)
    row_scales, begin = spare + n * wide, carray(int32_at(scale + 4 * width), width)
    for i in range(n):
        out = carray(bytes_at(spare + i * wide), wide)
        floats_at(row_scales)[i] = _in_bytes(x + 4 * i * k, k, out, wide, 128)
        sums = carray(int32_at(y + 4 * i * width), width)
        for j in range(width):
            sums[j] = begin[j]
    _by_blocks(block_int8_by_4, 4, 4, spare, wide // 4, w, y, n, wide, width)
    _scaled(y, scale, row_scales, n, width, rounded)


@njit(inline="always")
def _shortened(x, y, n, k, wide):
    """Rows x [n, k] as bfloat16 at y [n, wide], with zeros after them."""
    for i in range(n):
        row, out = carray(floats_at(x + 4 * i * k), k), carray(bfloat16_at(y + 2 * i * wide), wide)
        for j in range(k):
            out[j] = bfloat16_of(row[j])
        for j in range(k, wide):
            out[j] = np.uint16(0)


@kernel(9)
def _multiply_bf16_dot(x, w, scale, y, spare, n, k, width, rounded):
    """The same with bfloat16 weights for `BF16_DOT`, of inputs that are rounded; `spare` as `spare_floats` has it."""
    wide = whole(k, 2)
    _shortened(x, spare, n, k, wide)
    clear(y, n * width)
    _by_blocks(block_bf16_dot, 4, 2, spare, wide // 2, w, y, n, wide, width)
    if rounded:
        round_all(y, n * width)


@kernel(9)
def _multiply_bf16_amx(x, w, scale, y, spare, n, k, width, rounded):
    """The same with bfloat16 weights in tiles."""
    if n == 0:  # tiles cannot be configured with zero rows
        return
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
        round_all(y, n * width)


@register_jitable
def spare_floats(rows: int, k: int) -> int:
    """Scratch of a product of rows [rows, k]: two configurations of tiles, the rows in 16 bits, and a scale for each."""
    return 32 + rows * (whole(k, tiles.INPUTS) // 2 + 1)


MULTIPLY = {
    FLOAT32: _multiply_float32, INT8_BY_2: _multiply_int8_by_2, BF16_AMX: _multiply_bf16_amx, BF16_SPLIT: _multiply_bf16_split,
    BF16_DOT: _multiply_bf16_dot, INT8_BY_4: _multiply_int8_by_4,
}  # fmt: skip


def packed(weight: np.ndarray, stored: int) -> np.ndarray:
    """A weight [out, in] in panels [panels, in, PANEL], or with several inputs `TOGETHER` [panels, in / 2, PANEL, 2], whole
    blocks of them, with zeros after the last output and input; or in tiles."""
    if stored == BF16_AMX:
        return tiles.packed(weight)
    out, size = weight.shape
    together = TOGETHER.get(stored, 1)
    blocks = np.zeros((whole(out, BLOCK), whole(size, together)), weight.dtype)
    blocks[:out, :size] = weight
    units = blocks.view(f"i{together * weight.itemsize}")  # what stays together, moved as one number
    rows = in_large_pages(units.reshape(-1, PANEL, units.shape[1]).transpose(0, 2, 1))
    return rows.view(weight.dtype).reshape(-1, units.shape[1], PANEL, together)


def stored(dtype: torch.dtype, int8: bool = False) -> int:
    """How weights of a number format, or in eight bits if `int8`, are stored for the kernels on this processor."""
    if int8:
        return INT8_BY_4 if HAS_VNNI else INT8_BY_2
    if dtype == torch.float32:
        return FLOAT32
    if tiles.available():
        return BF16_AMX
    return BF16_DOT if HAS_BF16_DOT else BF16_SPLIT


class Product:
    """A weight [out, in] in blocks, in eight bits if `int8`. `nbytes` is what they take."""

    def __init__(self, weight: torch.Tensor, int8: bool = False):
        self.out, self.size = weight.shape
        self.rounded = weight.dtype == torch.bfloat16
        self.stored = stored(weight.dtype, int8)
        self.width = whole(self.out, BLOCK)
        self.scales = np.zeros(2 * self.width, np.float32)  # and where the sums of `INT8_BY_4` begin
        if int8:
            exact = weight.float()
            scale = (exact.abs().amax(1) / LARGEST).clamp_min(TINY)
            weight = (exact / scale[:, None]).round_()
            self.scales[: self.out] = scale.numpy()
            # Sums of whole numbers, exact in float32 too, where torch adds up quicker.
            self.scales[self.width :].view(np.int32)[: self.out] = -UNSIGNED * weight.sum(1).int().numpy()
            weight = weight.to(torch.int8)
        numbers = weight.contiguous().view(torch.uint16) if weight.dtype == torch.bfloat16 else weight.contiguous()
        self.blocks = packed(numbers.numpy(), self.stored)
        self.nbytes = self.blocks.nbytes + (self.scales.nbytes if int8 else 0)

    def __call__(self, x: torch.Tensor) -> torch.Tensor:
        """x [rows, in] times the weight: [rows, out]."""
        wide, y = x.float().contiguous(), torch.empty(len(x), self.width)
        self.bound(wide, y)()
        return y[:, : self.out].to(x.dtype)

    def bound(self, x: torch.Tensor, y: torch.Tensor) -> Callable[[], None]:
        """The same into y [rows, whole blocks of outputs], both float32."""
        (rows, width), blocks, scales = y.shape, self.blocks.ctypes.data, self.scales.ctypes.data
        kernel, rounded = MULTIPLY[self.stored]().ctypes, int(self.rounded)
        spare = torch.empty(spare_floats(rows, self.size))
        return lambda: kernel(
            x.data_ptr(), blocks, scales, y.data_ptr(), spare.data_ptr(), rows, self.size, width, rounded
        )


def addresses(rows: Sequence[Sequence[Product]]) -> tuple[np.ndarray, np.ndarray]:
    """The addresses of the blocks and of the scales of products, [rows, products] each."""
    blocks, scales = (
        np.array([[getattr(product, part).ctypes.data for product in row] for row in rows])
        for part in ("blocks", "scales")
    )
    return blocks, scales
