"""The steps of a Llama's pass beside products and attention: norms, sums, the gate and the rotation.

Every number of a row is added up in a fixed order, independent of the number of rows and keys of a pass, so a row has the same
bits in every pass, on any processor (`product` and `attend` too). Sums of a bfloat16 model are rounded wherever transformers' Llama
rounds them.

A kernel takes addresses and sizes, is compiled once, and is called by address from compiled code (`whole_pass`) or through
ctypes. The caller keeps the memory behind an address alive and large enough.
"""

import numpy as np
from numba import carray

from .compiling import FREE, kernel
from .vectors import exp, floats_at, read_numbers, rounding, store_numbers


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
        gates = carray(floats_at(both + 4 * i * stride), width)
        ups = carray(floats_at(both + 4 * (i * stride + width)), width)
        out = carray(floats_at(y + 4 * i * width), width)
        for j in range(width):
            gate = gates[j]
            out[j] = rounding(rounding(gate / (np.float32(1) + exp(-gate)), rounded) * ups[j], rounded)


@kernel(8)
def apply_rope(qkv, cos, sin, n, heads, half, stride, rounded):
    """Rotate the first so many heads of every row by its position: cos, sin [n, 2 half]."""
    for i in range(n):
        c, s = carray(floats_at(cos + 8 * i * half), 2 * half), carray(floats_at(sin + 8 * i * half), 2 * half)
        for head in range(heads):
            start = qkv + 4 * (i * stride + 2 * half * head)
            first, second = carray(floats_at(start), half), carray(floats_at(start + 4 * half), half)
            for j in range(half):
                a, b = first[j], second[j]
                first[j] = rounding(rounding(a * c[j], rounded) + rounding(b * s[j], rounded), rounded)
                second[j] = rounding(rounding(b * c[half + j], rounded) + rounding(a * s[half + j], rounded), rounded)


read, store = kernel(4)(read_numbers.py_func), kernel(4)(store_numbers.py_func)
