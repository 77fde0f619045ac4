"""Products of rows and a weight (GEMM), with one kernel per storage format.

A product adds the terms of each sum one by one, in the order of the inputs. It is fast because the processor's
registers hold the sums of a panel of outputs (64, or 16 if vectors are short) for several rows. A weight is read once
for up to six rows. Weights are stored in panels too (`pack`), in one of the storage formats of `vectors`. 8-bit weights
have one scale per output.
"""

from collections.abc import Callable, Sequence

import numpy as np
import torch
from numba import carray
from numba.extending import register_jitable

from . import tiles
from .compiling import ORDERED, internal, kernel
from .large_pages import LINE, in_large_pages
from .records import ATTENTION, PASS, PRODUCT
from .team import share
from .vectors import (
    BF16_AMX,
    BF16_DOT,
    BF16_SPLIT,
    BLOCK,
    FEW_ROWS,
    FLOAT32,
    HAS_BF16_DOT,
    HAS_VNNI,
    INT8_BY_2,
    INT8_BY_4,
    INTERLEAVE,
    L1_AHEAD,
    PANEL,
    PREFETCH,
    ROWS,
    bfloat16_at,
    block_kernel,
    bytes_at,
    call,
    floats_at,
    int16_at,
    int32_at,
    integers_at,
    max_abs,
    memory_at,
    round_if,
    round_up,
    to_bfloat16,
    to_float32,
)

INT8_MAX, MIN_SCALE = 127, 1e-12  # the largest 8-bit number; the smallest scale
SHARED = 1 << 16  # the fewest products of numbers that threads share; fewer take as long as a handover
PASS_BYTES, PRODUCT_BYTES, ATTENTION_BYTES = (round_up(record.itemsize, LINE) for record in (PASS, PRODUCT, ATTENTION))
ZERO_POINT = 128  # of the inputs of `INT8_BY_4`

block_float32, block_bf16_split, block_bf16_dot, block_int8_by_2, block_int8_by_4 = (
    block_kernel(storage) for storage in (FLOAT32, BF16_SPLIT, BF16_DOT, INT8_BY_2, INT8_BY_4)
)


@internal(ORDERED)
def tile_rows(remaining):
    """Return the number of rows to compute at once. Two groups of similar size replace a full and a small one."""
    return remaining if remaining <= 6 else 4 if remaining in (7, 8) else 5 if remaining in (9, 10) else 6


@internal(ORDERED)
def clear(y, count):
    """Set `count` floats at the address `y` to zero."""
    numbers = carray(floats_at(y), count)
    for i in range(count):
        numbers[i] = np.float32(0)


@internal(ORDERED)
def _clear_outputs(y, n, width, first, stop):
    """Set the outputs from `first` to `stop` of all rows of y [n, width] to zero."""
    for i in range(n):
        clear(y + 4 * (i * width + first), stop - first)


@internal(ORDERED)
def _round_outputs(y, n, width, first, stop):
    """Round the same outputs to bfloat16, in place."""
    for i in range(n):
        numbers = carray(floats_at(y + 4 * (i * width + first)), stop - first)
        for j in range(stop - first):
            numbers[j] = to_float32(to_bfloat16(numbers[j]))


@internal(ORDERED)
def _multiply_panels(block, size, interleave, x, stride, w, y, n, k, width, first, stop):
    """Add the products of all rows x [n, stride] to each panel of outputs from `first` to `stop` in turn.

    A step computes `interleave` inputs and reads `size` bytes of weights per output. Inputs after the last full step
    are left out.

    If several loops read a panel, computation takes longer than memory access, so the loops prefetch the next panel: one
    half during the first loop, and one half during the second. Prefetching it in one loop would wait for memory.
    """
    steps = round_up(k, interleave) // interleave
    outputs = BLOCK if n <= FEW_ROWS else PANEL
    for i in range(first // outputs, stop // outputs):
        row, panel_bytes = 0, size * outputs * steps
        weights = w + i * panel_bytes
        while row < n:
            rows, (l1, l2), shift = tile_rows(n - row), PREFETCH, 0
            if n > ROWS:
                l1, l2, shift = L1_AHEAD, panel_bytes + (panel_bytes // 2 if row else 0), 1
            out = y + 4 * (row * width + i * outputs)
            inputs, panel = x + 4 * row * stride, PANEL * steps
            block(rows, inputs, weights, out, k // interleave, stride, PANEL, panel, width, l1, l2, shift)
            row += rows


@kernel(11)
def _multiply_bf16_split(x, w, scale, y, temp, n, k, width, first, stop, rounded):
    """Compute y [n, width] = x [n, k] times the bfloat16 weight at `w`; round to bfloat16 if `rounded`.

    Only the outputs from `first` to `stop` are computed, both multiples of `BLOCK`.
    """
    _clear_outputs(y, n, width, first, stop)
    _multiply_panels(block_bf16_split, 4, 2, x, k, w, y, n, k, width, first, stop)
    for i in range(first // PANEL, stop // PANEL if k % 2 else 0):  # the last input has no pair
        weights = carray(bfloat16_at(w + 4 * PANEL * ((i + 1) * (round_up(k, 2) // 2) - 1)), 2 * PANEL)
        for row in range(n):
            last = floats_at(x + 4 * (row * k + k - 1))[0]
            sums = carray(floats_at(y + 4 * (row * width + i * PANEL)), PANEL)
            for j in range(PANEL):
                sums[j] += last * to_float32(weights[2 * j])
    if rounded:
        _round_outputs(y, n, width, first, stop)


@kernel(11)
def _multiply_float32(x, w, scale, y, temp, n, k, width, first, stop, rounded):
    """Compute the same with float32 weights."""
    _clear_outputs(y, n, width, first, stop)
    _multiply_panels(block_float32, 4, 1, x, k, w, y, n, k, width, first, stop)


@internal(ORDERED)
def _quantize(x, k, out, padded, zero):
    """Write x [k] to out [padded] as bytes with this zero point, then zeros. Return the scale."""
    row = carray(floats_at(x), k)
    largest = max(max_abs(row), np.float32(1e-12))
    inverse = np.float32(127) / largest
    for j in range(k):
        out[j] = np.int32(row[j] * inverse + np.float32(128.5)) - (128 - zero)
    for j in range(k, padded):
        out[j] = zero
    return largest / np.float32(127)


@internal(ORDERED)
def _dequantize(y, scale, row_scales, n, width, first, stop, rounded):
    """Multiply the integer sums at y [n, width] by the scales of their outputs and rows, in place."""
    scales = carray(floats_at(scale), width)
    for i in range(n):
        sums, out = carray(int32_at(y + 4 * i * width), width), carray(floats_at(y + 4 * i * width), width)
        row_scale = floats_at(row_scales)[i]
        for j in range(first, stop):
            out[j] = round_if(np.float32(sums[j]) * (scales[j] * row_scale), rounded)


@kernel(11)
def _multiply_int8_by_2(x, w, scale, y, temp, n, k, width, first, stop, rounded):
    """Compute the same with 8-bit weights. Inputs are quantized to 8 bits, one scale per row; the sums are integers."""
    padded = round_up(k, 2)
    row_scales = temp + 2 * n * padded
    for i in range(n):
        out = carray(int16_at(temp + 2 * i * padded), padded)
        floats_at(row_scales)[i] = _quantize(x + 4 * i * k, k, out, padded, 0)
    _clear_outputs(y, n, width, first, stop)
    _multiply_panels(block_int8_by_2, 2, 2, temp, padded // 2, w, y, n, padded, width, first, stop)
    _dequantize(y, scale, row_scales, n, width, first, stop, rounded)


@kernel(11)
def _multiply_int8_by_4(x, w, scale, y, temp, n, k, width, first, stop, rounded):
    """Compute the same bits for `INT8_BY_4`.

    Input bytes are unsigned: 128 is added to each. The initial sums (int32), which are stored after the scales,
    compensate for it.
    """
    padded = round_up(k, 4)
    row_scales, initial = temp + n * padded, carray(int32_at(scale + 4 * width), width)
    for i in range(n):
        out = carray(bytes_at(temp + i * padded), padded)
        floats_at(row_scales)[i] = _quantize(x + 4 * i * k, k, out, padded, 128)
        sums = carray(int32_at(y + 4 * i * width), width)
        for j in range(first, stop):
            sums[j] = initial[j]
    _multiply_panels(block_int8_by_4, 4, 4, temp, padded // 4, w, y, n, padded, width, first, stop)
    _dequantize(y, scale, row_scales, n, width, first, stop, rounded)


@internal(ORDERED)
def _rows_to_bfloat16(x, y, n, k, padded):
    """Write the rows x [n, k] to y [n, padded] as bfloat16, each followed by zeros."""
    for i in range(n):
        row, out = carray(floats_at(x + 4 * i * k), k), carray(bfloat16_at(y + 2 * i * padded), padded)
        for j in range(k):
            out[j] = to_bfloat16(row[j])
        for j in range(k, padded):
            out[j] = np.uint16(0)


@kernel(11)
def _multiply_bf16_dot(x, w, scale, y, temp, n, k, width, first, stop, rounded):
    """Compute the same with bfloat16 weights for `BF16_DOT`. Inputs are rounded."""
    padded = round_up(k, 2)
    _rows_to_bfloat16(x, temp, n, k, padded)
    _clear_outputs(y, n, width, first, stop)
    _multiply_panels(block_bf16_dot, 4, 2, temp, padded // 2, w, y, n, padded, width, first, stop)
    if rounded:
        _round_outputs(y, n, width, first, stop)


@kernel(11)
def _multiply_bf16_amx(x, w, scale, y, temp, n, k, width, first, stop, rounded):
    """Compute the same with bfloat16 weights in AMX tiles."""
    if n == 0:  # tiles cannot be configured for zero rows
        return
    padded = round_up(k, tiles.INPUTS)
    steps, size = padded // tiles.INPUTS, 2 * padded
    saved, tile_config, inputs = temp, temp + 64, temp + 128
    _rows_to_bfloat16(x, inputs, n, k, padded)
    words = carray(integers_at(tile_config), 8)
    words[0], words[1], words[4], words[5], words[7] = 1, 0, 0, 0, 0  # the only palette
    words[2], words[3] = tiles.COLUMNS, tiles.COLUMNS
    rows = min(n, tiles.ROWS)
    words[6] = rows * tiles.ROWS_OF_ALL + tiles.WEIGHTS_ROWS
    tiles.save_configuration(saved)
    tiles.configure(tile_config)
    for block in range(first // BLOCK, stop // BLOCK):
        weights = w + block * steps * 4 * tiles.TILE
        for start in range(0, n, tiles.ROWS):
            row = min(start, n - rows)  # compute the last `rows` rows, some of them again, with the same bits
            sums = y + 4 * (row * width + block * BLOCK)
            tiles.multiply(inputs + row * size, size, weights, sums, 4 * width, steps)
    tiles.configure(saved)
    if rounded:
        _round_outputs(y, n, width, first, stop)


@register_jitable
def temp_floats(rows: int, k: int) -> int:
    """Return the floats that a product of rows [rows, k] needs for tile configurations, rows in 16 bits, and scales."""
    return 32 + rows * (round_up(k, tiles.INPUTS) // 2 + 1)


@internal(ORDERED)
def _product_at(address):
    return carray(memory_at(address), 1, PRODUCT)[0]


@internal(ORDERED)
def pass_at(address):
    """Return the `PASS` at an address."""
    return carray(memory_at(address), 1, PASS)[0]


@kernel(9)
def multiply(pass_, x, weight, scales, y, n, k, width, rounded):
    """Compute y [n, width] = x [n, k] times a weight. The threads of the pass share the outputs."""
    this, job = pass_at(pass_), _product_at(pass_at(pass_).product_job)
    job.multiply, job.x, job.weight, job.scales, job.y = this.multiply, x, weight, scales, y
    job.temp, job.temp_bytes, job.n, job.k, job.width = this.temp, this.temp_bytes, n, k, width
    job.rounded = rounded
    large = n * k * width >= SHARED
    share(this.team, this.threads, this.multiply_share, this.product_job, width // BLOCK, large)


@kernel(4)
def multiply_share(product, thread, first, stop):
    """Compute the blocks of outputs from `first` to `stop` of a product."""
    job = _product_at(product)
    call(job.multiply, (
        job.x, job.weight, job.scales, job.y, job.temp + thread * job.temp_bytes, job.n, job.k, job.width, BLOCK * first,
        BLOCK * stop, job.rounded,
    ))  # fmt: skip


@internal()
def pass_floats(threads, rows, k):
    """Return the size, in floats, of the memory of `begin_pass`."""
    return (PASS_BYTES + PRODUCT_BYTES + ATTENTION_BYTES) // 4 + threads * temp_floats(rows, k)


@internal()
def begin_pass(kernels, threads, address, rows, k):
    """Write a `PASS` for products of at most `rows` rows and `k` inputs. `llama_pass.describe` completes it for layers."""
    this = pass_at(address)
    this.team, this.threads, this.product_job = kernels.team, threads, address + PASS_BYTES
    this.attention_job = this.product_job + PRODUCT_BYTES
    this.temp, this.temp_bytes = this.attention_job + ATTENTION_BYTES, 4 * temp_floats(rows, k)
    this.counter, this.previous = 0, 0
    this.product, this.multiply, this.multiply_share = kernels.product, kernels.multiply, kernels.multiply_share


MULTIPLY = {
    FLOAT32: _multiply_float32, INT8_BY_2: _multiply_int8_by_2, BF16_AMX: _multiply_bf16_amx, BF16_SPLIT: _multiply_bf16_split,
    BF16_DOT: _multiply_bf16_dot, INT8_BY_4: _multiply_int8_by_4,
}  # fmt: skip


def pack(weight: np.ndarray, storage: int) -> np.ndarray:
    """Pack a weight [out, in] into panels [panels, in, PANEL], or into tiles.

    Formats that interleave inputs have panels [panels, in / 2, PANEL, 2], or 4 instead of 2. Zeros follow the last
    output and input, up to full blocks.
    """
    if storage == BF16_AMX:
        return tiles.pack(weight)
    out, size = weight.shape
    interleave = INTERLEAVE.get(storage, 1)
    padded = np.zeros((round_up(out, BLOCK), round_up(size, interleave)), weight.dtype)
    padded[:out, :size] = weight
    groups = padded.view(f"i{interleave * weight.itemsize}")  # interleaved weights move as one number
    panels = in_large_pages(groups.reshape(-1, PANEL, groups.shape[1]).transpose(0, 2, 1))
    return panels.view(weight.dtype).reshape(-1, groups.shape[1], PANEL, interleave)


def storage_format(dtype: torch.dtype, int8: bool = False) -> int:
    """Return the storage format, on this processor, of weights of a number format, or of 8-bit weights if `int8`."""
    if int8:
        return INT8_BY_4 if HAS_VNNI else INT8_BY_2
    if dtype == torch.float32:
        return FLOAT32
    if tiles.available():
        return BF16_AMX
    return BF16_DOT if HAS_BF16_DOT else BF16_SPLIT


class Product:
    """A weight [out, in], packed for a kernel, in eight bits if `int8`. `nbytes` is its packed size with scales."""

    def __init__(self, weight: torch.Tensor, int8: bool = False):
        self.out_features, self.in_features = weight.shape
        self.rounded = weight.dtype == torch.bfloat16
        self.storage = storage_format(weight.dtype, int8)
        self.width = round_up(self.out_features, BLOCK)
        self.scales = np.zeros(2 * self.width, np.float32)  # then the initial sums of `INT8_BY_4`
        if int8:
            floats = weight.float()
            scale = (floats.abs().amax(1) / INT8_MAX).clamp_min(MIN_SCALE)
            weight = (floats / scale[:, None]).round_()
            self.scales[: self.out_features] = scale.numpy()
            # Sums of integers are exact in float32, which torch sums faster.
            self.scales[self.width :].view(np.int32)[: self.out_features] = -ZERO_POINT * weight.sum(1).int().numpy()
            weight = weight.to(torch.int8)
        numbers = weight.contiguous().view(torch.uint16) if weight.dtype == torch.bfloat16 else weight.contiguous()
        self.blocks = pack(numbers.numpy(), self.storage)
        self.nbytes = self.blocks.nbytes + (self.scales.nbytes if int8 else 0)

    def __call__(self, x: torch.Tensor) -> torch.Tensor:
        """Return x [rows, in] times the weight: [rows, out]."""
        inputs, y = x.float().contiguous(), torch.empty(len(x), self.width)
        self.bind(inputs, y)()
        return y[:, : self.out_features].to(x.dtype)

    def bind(self, x: torch.Tensor, y: torch.Tensor) -> Callable[[], None]:
        """Return a function that computes the same from x into y [rows, width in full blocks], both float32."""
        (rows, width), blocks, scales = y.shape, self.blocks.ctypes.data, self.scales.ctypes.data
        kernel, k, rounded = MULTIPLY[self.storage]().ctypes, self.in_features, int(self.rounded)
        temp = torch.empty(temp_floats(rows, k))
        return lambda: kernel(
            x.data_ptr(), blocks, scales, y.data_ptr(), temp.data_ptr(), rows, k, width, 0, width, rounded
        )


def addresses(rows: Sequence[Sequence[Product]]) -> tuple[np.ndarray, np.ndarray]:
    """Return the addresses of the packed weights and of the scales of products, [rows, products] each."""
    blocks = np.array([[product.blocks.ctypes.data for product in row] for row in rows])
    return blocks, np.array([[product.scales.ctypes.data for product in row] for row in rows])
