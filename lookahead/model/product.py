"""Products with a weight, laid out in the blocks that kernels read: as it is, or in eight bits.

Knows tensors and kernels. It does not know models.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import torch

from . import kernels, tiles
from .vectors import MULTIPLIES_PAIRS, whole

LARGEST, TINY = 127, 1e-12  # of an 8-bit number; of a scale


def stored(dtype: torch.dtype) -> int:
    """How weights of a number format are stored for the kernels on this processor."""
    if dtype == torch.float32:
        return kernels.FLOAT32
    if tiles.available():
        return kernels.TILES
    return kernels.PAIRS if MULTIPLIES_PAIRS else kernels.BFLOAT16


def _numbers(tensor: torch.Tensor) -> np.ndarray:
    """The tensor's memory: bfloat16 as uint16."""
    tensor = tensor.contiguous()
    return tensor.view(torch.uint16).numpy() if tensor.dtype == torch.bfloat16 else tensor.numpy()


class Product:
    """A weight [out, in] in blocks, in eight bits if `small`. `nbytes` is what they take."""

    def __init__(self, weight: torch.Tensor, small: bool = False):
        self.out, self.size = weight.shape
        self.rounded = weight.dtype == torch.bfloat16
        self.stored = kernels.INT8 if small else stored(weight.dtype)
        self.scales = np.zeros(whole(self.out, kernels.BLOCK), np.float32)
        if small:
            exact = weight.float()
            scale = (exact.abs().amax(1) / LARGEST).clamp_min(TINY)
            weight = (exact / scale[:, None]).round().to(torch.int8)
            self.scales[: self.out] = scale.numpy()
        self.blocks = kernels.packed(_numbers(weight), self.stored)
        self.nbytes = self.blocks.nbytes + (self.scales.nbytes if small else 0)

    def __call__(self, x: torch.Tensor) -> torch.Tensor:
        """x [rows, in] times the weight: [rows, out]."""
        wide, y = x.float().contiguous(), torch.empty(len(x), len(self.scales))
        self.bound(wide, y)()
        return y[:, : self.out].to(x.dtype)

    def bound(self, x: torch.Tensor, y: torch.Tensor) -> Callable[[], None]:
        """The same into y [rows, whole blocks of outputs], both float32."""
        (rows, width), blocks, scales = y.shape, self.blocks.ctypes.data, self.scales.ctypes.data
        kernel, rounded = kernels.multiply(self.stored).ctypes, int(self.rounded)
        spare = torch.empty(kernels.spare_floats(rows, self.size))
        return lambda: kernel(
            x.data_ptr(), blocks, scales, y.data_ptr(), spare.data_ptr(), rows, self.size, width, rounded
        )
