"""Products with a weight, laid out in the blocks that kernels read: as it is, or in eight bits."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np
import torch

from . import tiles
from .multiply import multiply, packed, spare_floats
from .vectors import BF16_AMX, BF16_DOT, BF16_SPLIT, BLOCK, FLOAT32, HAS_BF16_DOT, HAS_VNNI, INT8_BY_2, INT8_BY_4, whole

LARGEST, TINY = 127, 1e-12  # of an 8-bit number; of a scale
UNSIGNED = 128  # what is added to the inputs of `INT8_BY_4`


def stored(dtype: torch.dtype, int8: bool = False) -> int:
    """How weights of a number format, or in eight bits if `int8`, are stored for the kernels on this processor."""
    if int8:
        return INT8_BY_4 if HAS_VNNI else INT8_BY_2
    if dtype == torch.float32:
        return FLOAT32
    if tiles.available():
        return BF16_AMX
    return BF16_DOT if HAS_BF16_DOT else BF16_SPLIT


def _numbers(tensor: torch.Tensor) -> np.ndarray:
    """The tensor's memory: bfloat16 as uint16."""
    tensor = tensor.contiguous()
    return tensor.view(torch.uint16).numpy() if tensor.dtype == torch.bfloat16 else tensor.numpy()


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
        self.blocks = packed(_numbers(weight), self.stored)
        self.nbytes = self.blocks.nbytes + (self.scales.nbytes if int8 else 0)

    def __call__(self, x: torch.Tensor) -> torch.Tensor:
        """x [rows, in] times the weight: [rows, out]."""
        wide, y = x.float().contiguous(), torch.empty(len(x), self.width)
        self.bound(wide, y)()
        return y[:, : self.out].to(x.dtype)

    def bound(self, x: torch.Tensor, y: torch.Tensor) -> Callable[[], None]:
        """The same into y [rows, whole blocks of outputs], both float32."""
        (rows, width), blocks, scales = y.shape, self.blocks.ctypes.data, self.scales.ctypes.data
        kernel, rounded = multiply(self.stored).ctypes, int(self.rounded)
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
