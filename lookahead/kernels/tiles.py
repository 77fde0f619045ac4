"""Products by an Intel processor's matrix unit (AMX), which multiplies 16 rows as quickly as one.

Its registers are tiles of 16 rows of 64 bytes. One step adds, to 16 x 16 float32 sums, the products of 32 bfloat16 inputs:
pair by pair in the order of the inputs, for every row alike, so here too a row has its own bits in any company.

Weights lie as the tiles are read (`packed`): blocks of 64 outputs, of these every 32 inputs, of these four tiles of 16
pairs of inputs by 16 outputs. Source: Intel 64 and IA-32 Architectures Software Developer's Manual, volume 1, chapter 18;
arch_prctl(2) for the system's leave, which a process must ask for once.
"""

import ctypes
import platform
from functools import lru_cache

import numpy as np
from llvmlite import ir
from numba import types
from numba.extending import intrinsic

from .compiling import INTEGER
from .large_pages import in_large_pages
from .vectors import BLOCK, FEATURES, whole

ROWS, INPUTS, OUTPUTS = 16, 32, 16  # of a step
TILE = 1024  # bytes
SUMS, LEFT, RIGHT = range(4), 4, (5, 6)  # registers
COLUMNS = 0x0040_0040_0040_0040  # 64 bytes a row, of four registers
WEIGHTS_ROWS = 0x10_10_10 << 40  # 16 rows, of registers 5 to 7
ARCH_PRCTL, REQUEST_PERMISSION, TILE_DATA = 158, 0x1023, 18
_BYTE, _INT64 = ir.IntType(8), ir.IntType(64)


@lru_cache(maxsize=1)
def available() -> bool:
    """Whether this processor has the unit, and the system lets this process use it."""
    if not {"+amx-tile", "+amx-bf16"} <= set(FEATURES.split(",")) or platform.system() != "Linux":
        return False
    return ctypes.CDLL(None).syscall(ARCH_PRCTL, REQUEST_PERMISSION, TILE_DATA) == 0


def packed(weight: np.ndarray) -> np.ndarray:
    """A weight [out, in] of bfloat16 as uint16 in tiles, with zeros after the last output and input."""
    out, size = weight.shape
    steps = whole(size, INPUTS) // INPUTS
    padded = np.zeros((whole(out, BLOCK), steps * INPUTS), weight.dtype)
    padded[:out, :size] = weight
    tiles = padded.reshape(-1, BLOCK // OUTPUTS, OUTPUTS, steps, INPUTS // 2, 2)
    return in_large_pages(tiles.transpose(0, 3, 1, 4, 2, 5))


def _declared(builder, name: str, *kinds: ir.Type) -> ir.Function:
    return builder.module.declare_intrinsic(f"llvm.x86.{name}", (), ir.FunctionType(ir.VoidType(), kinds))


def _pointer(builder, address):
    return builder.inttoptr(address, _BYTE.as_pointer())


def _sizes(instruction: str):
    """A function that moves the registers' sizes, of 64 bytes, from an address or to it."""

    @intrinsic
    def move(typing_context, address):
        def code(context, builder, signature, arguments):
            builder.call(_declared(builder, instruction, _BYTE.as_pointer()), [_pointer(builder, arguments[0])])
            return context.get_dummy_value()

        return types.void(INTEGER), code

    return move


configure = _sizes("ldtilecfg")  # clears the registers too
configuration = _sizes("sttilecfg")  # whoever else uses the registers relies on finding his own


@intrinsic
def multiply(typing_context, x, x_stride, w, y, y_stride, steps):
    """y [rows, 64] float32 = x [rows, 32 steps] bfloat16 times the block at w; strides in bytes, rows as configured."""

    def code(context, builder, signature, arguments):
        x, x_stride, w, y, y_stride, steps = arguments
        move = [_BYTE, _BYTE.as_pointer(), _INT64]
        load, store = (_declared(builder, name, *move) for name in ("tileloadd64", "tilestored64"))
        zero, step = _declared(builder, "tilezero", _BYTE), _declared(builder, "tdpbf16ps", _BYTE, _BYTE, _BYTE)
        register, number = (lambda n: ir.Constant(_BYTE, n)), (lambda n: ir.Constant(_INT64, n))
        for total in SUMS:
            builder.call(zero, [register(total)])
        begin, loop, after = builder.block, builder.append_basic_block("step"), builder.append_basic_block("after")
        builder.branch(loop)
        builder.position_at_end(loop)
        i = builder.phi(_INT64)
        i.add_incoming(number(0), begin)
        inputs = _pointer(builder, builder.add(x, builder.mul(i, number(2 * INPUTS))))
        builder.call(load, [register(LEFT), inputs, x_stride])
        tiles = builder.add(w, builder.mul(i, number(len(SUMS) * TILE)))
        for total in SUMS:
            right = register(RIGHT[total % len(RIGHT)])
            weights = _pointer(builder, builder.add(tiles, number(total * TILE)))
            builder.call(load, [right, weights, number(4 * OUTPUTS)])
            builder.call(step, [register(total), register(LEFT), right])
        following = builder.add(i, number(1))
        i.add_incoming(following, loop)
        builder.cbranch(builder.icmp_signed("<", following, steps), loop, after)
        builder.position_at_end(after)
        for total in SUMS:
            place = _pointer(builder, builder.add(y, number(4 * OUTPUTS * total)))
            builder.call(store, [register(total), place, y_stride])
        return context.get_dummy_value()

    return types.void(*[INTEGER] * 6), code
