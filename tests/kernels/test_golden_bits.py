"""Golden bits: each sum of a product adds its terms one after the other and rounds once per term, on any processor.

The expected bits come from exact arithmetic in Python, so they were not recorded on a machine.
"""

from fractions import Fraction

import numpy as np
import pytest
import torch

from lookahead.kernels.product import Product
from lookahead.kernels.vectors import BF16_DOT, BF16_SPLIT, FLOAT32

pytestmark = pytest.mark.models

SIZES = [(1, 7, 64), (3, 18, 20), (6, 16, 65), (9, 24, 130)]  # rows, inputs, outputs


def sums_in_order(x, weight):
    """Return the sums of x [rows, in] times a weight [out, in]: fused multiply-adds in the order of the inputs."""
    sums = np.zeros((len(x), len(weight)), np.float32)
    for row, inputs in enumerate(x.tolist()):
        for column, weights in enumerate(weight.tolist()):
            total = Fraction(0)
            for a, b in zip(inputs, weights, strict=True):
                total = Fraction(float(nearest(total + Fraction(a) * Fraction(b))))
            sums[row, column] = float(total)
    return torch.from_numpy(sums)


def nearest(exact):
    """Return the float32 that is nearest to a fraction, ties to even. Rounding to float64 first could round twice."""
    guess = np.float32(float(exact))
    neighbors = [guess, np.nextafter(guess, np.float32(np.inf)), np.nextafter(guess, np.float32(-np.inf))]
    return min(neighbors, key=lambda number: (abs(Fraction(float(number)) - exact), int(number.view(np.uint32)) & 1))


@pytest.mark.parametrize(("rows", "size", "out"), SIZES)
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16], ids=str)
def test_a_product_has_the_bits_of_sums_in_order(rows, size, out, dtype):
    draws = torch.Generator().manual_seed(rows)
    x, weight = (torch.randn(n, size, generator=draws).to(dtype) for n in (rows, out))
    product = Product(weight)
    if product.storage not in (FLOAT32, BF16_SPLIT):  # other formats add two terms or a tile per instruction
        assert product.storage == BF16_DOT or dtype == torch.bfloat16
        assert torch.allclose(product(x).float(), sums_in_order(x.float(), weight.float()), atol=0.02, rtol=0.01)
        return
    assert torch.equal(product(x), sums_in_order(x.float(), weight.float()).to(dtype))
