"""The operations of a Llama's pass except products and attention: norms, sums, gates and rotary embeddings.

Each sum over a row has a fixed order, independent of the number of rows and keys of the pass. So a row has the same
bits in every pass, on any processor (also in `product` and `attend`). The sums of a bfloat16 model are rounded at the
same points as in transformers' Llama.

A kernel's arguments are addresses and sizes. It is compiled once, and called by address from compiled code
(`llama_pass`) or through ctypes. The caller keeps the memory at an address alive and large enough.
"""

import numpy as np
from numba import carray

from .compiling import REASSOCIATED, kernel
from .vectors import exp, floats_at, read_numbers, round_if, store_numbers


@kernel(6, 1, REASSOCIATED)
def norm(x, weight, y, n, width, rounded, eps):
    """Compute y [n, width] = x divided by its root mean square, times the weight."""
    weights = carray(floats_at(weight), width)
    for i in range(n):
        row, out = carray(floats_at(x + 4 * i * width), width), carray(floats_at(y + 4 * i * width), width)
        total = np.float32(0)
        for j in range(width):
            total += row[j] * row[j]
        scale = np.float32(1) / np.sqrt(total / np.float32(width) + eps)
        for j in range(width):
            out[j] = round_if(round_if(row[j] * scale, rounded) * weights[j], rounded)


@kernel(5)
def add_bias(y, bias, n, width, rounded):
    """Add the bias [width] to each row of y [n, width]."""
    biases = carray(floats_at(bias), width)
    for i in range(n):
        row = carray(floats_at(y + 4 * i * width), width)
        for j in range(width):
            row[j] = round_if(row[j] + biases[j], rounded)


@kernel(3, 1)
def scale(x, n, rounded, factor):
    """Multiply n numbers at x by a factor."""
    numbers = carray(floats_at(x), n)
    for i in range(n):
        numbers[i] = round_if(numbers[i] * factor, rounded)


@kernel(6)
def add(x, y, n, width, stride, rounded):
    """Add y to x [n, width]. The rows of y are `stride` apart."""
    for i in range(n):
        row, addend = carray(floats_at(x + 4 * i * width), width), carray(floats_at(y + 4 * i * stride), width)
        for j in range(width):
            row[j] = round_if(row[j] + addend[j], rounded)


@kernel(6)
def gate(gate_up, y, n, width, stride, rounded):
    """Compute y [n, width] = silu(gate) times up. The rows of `gate_up` are `stride` apart, gate first."""
    for i in range(n):
        gates = carray(floats_at(gate_up + 4 * i * stride), width)
        ups = carray(floats_at(gate_up + 4 * (i * stride + width)), width)
        out = carray(floats_at(y + 4 * i * width), width)
        for j in range(width):
            gate = gates[j]
            out[j] = round_if(round_if(gate / (np.float32(1) + exp(-gate)), rounded) * ups[j], rounded)


@kernel(8)
def apply_rope(qkv, cos, sin, n, heads, half, stride, rounded):
    """Rotate the first `heads` heads of each row by its position: cos, sin [n, 2 half]."""
    for i in range(n):
        c, s = carray(floats_at(cos + 8 * i * half), 2 * half), carray(floats_at(sin + 8 * i * half), 2 * half)
        for head in range(heads):
            start = qkv + 4 * (i * stride + 2 * half * head)
            first, second = carray(floats_at(start), half), carray(floats_at(start + 4 * half), half)
            for j in range(half):
                a, b = first[j], second[j]
                first[j] = round_if(round_if(a * c[j], rounded) + round_if(b * s[j], rounded), rounded)
                second[j] = round_if(round_if(b * c[half + j], rounded) + round_if(a * s[half + j], rounded), rounded)


read, store = kernel(4)(read_numbers.py_func), kernel(4)(store_numbers.py_func)
