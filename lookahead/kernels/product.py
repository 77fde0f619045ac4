"""Products with a weight, laid out in the blocks that kernels read: as it is, or in eight bits."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import torch

from . import tiles
from .multiply import multiply, packed, spare_floats
from .vectors import BLOCK, FLOAT32, FOURS, HALVES, MULTIPLIES_FOURS, MULTIPLIES_PAIRS, PAIRS, TILES, TWOS, whole

LARGEST, TINY = 127, 1e-12  # of an 8-bit number; of a scale
UNSIGNED = 128  # what is added to the inputs of fours


def stored(dtype: torch.dtype, small: bool = False) -> int:
    """How weights of a number format, or in eight bits if `small`, are stored for the kernels on this processor."""
    if small:
        return FOURS if MULTIPLIES_FOURS else TWOS
    if dtype == torch.float32:
        return FLOAT32
    if tiles.available():
        return TILES
    return PAIRS if MULTIPLIES_PAIRS else HALVES


def _numbers(tensor: torch.Tensor) -> np.ndarray:
    """The tensor's memory: bfloat16 as uint16."""
    tensor = tensor.contiguous()
    return tensor.view(torch.uint16).numpy() if tensor.dtype == torch.bfloat16 else tensor.numpy()


class Product:
    """A weight [out, in] in blocks, in eight bits if `small`. `nbytes` is what they take."""

    def __init__(self, weight: torch.Tensor, small: bool = False):
        self.out, self.size = weight.shape
        self.rounded = weight.dtype == torch.bfloat16
        self.stored = stored(weight.dtype, small)
        self.width = whole(self.out, BLOCK)
        self.scales = np.zeros(2 * self.width, np.float32)  # and where the sums of fours begin
        if small:
            exact = weight.float()
            scale = (exact.abs().amax(1) / LARGEST).clamp_min(TINY)
            weight = (exact / scale[:, None]).round_()
            self.scales[: self.out] = scale.numpy()
            # Sums of whole numbers, exact in float32 too, where torch adds up quicker.
            self.scales[self.width :].view(np.int32)[: self.out] = -UNSIGNED * weight.sum(1).int().numpy()
            weight = weight.to(torch.int8)
        self.blocks = packed(_numbers(weight), self.stored)
        self.nbytes = self.blocks.nbytes + (self.scales.nbytes if small else 0)

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
