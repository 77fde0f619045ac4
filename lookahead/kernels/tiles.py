"""Products on the matrix unit of Intel processors (AMX), which multiplies 16 rows as fast as one.

Its registers are tiles of 16 rows of 64 bytes. One step adds the products of 32 bfloat16 inputs to 16 x 16 float32
sums. It adds pair by pair, in the order of the inputs, in each row. So the bits of a row do not depend on the
other rows.

Weights are stored in the order in which tiles are read (`pack`): blocks of 64 outputs, each in steps of 32 inputs, each
step in four tiles of 16 pairs of inputs by 16 outputs. Source: Intel 64 and IA-32 Architectures Software Developer's
Manual, volume 1, chapter 18. A process must request permission from the system once: arch_prctl(2).
"""

import ctypes
import platform
from functools import lru_cache

import numpy as np
from llvmlite import ir
from numba import types

from .compiling import INTEGER, intrinsic
from .large_pages import in_large_pages
from .vectors import BLOCK, FEATURES, round_up

ROWS, INPUTS, OUTPUTS = 16, 32, 16  # of one step
TILE = 1024  # bytes
ACCUMULATORS, LEFT, RIGHT = range(4), 4, (5, 6)  # registers
COLUMNS = 0x0040_0040_0040_0040  # 64 bytes per row, for four registers
WEIGHTS_ROWS = 0x10_10_10 << 40  # 16 rows, for registers 5 to 7
ARCH_PRCTL, REQUEST_PERMISSION, TILE_DATA = 158, 0x1023, 18
_BYTE, _INT64 = ir.IntType(8), ir.IntType(64)


@lru_cache(maxsize=1)
def available() -> bool:
    """Return whether this processor has the unit and the system lets this process use it."""
    if not {"+amx-tile", "+amx-bf16"} <= set(FEATURES.split(",")) or platform.system() != "Linux":
        return False
    return ctypes.CDLL(None).syscall(ARCH_PRCTL, REQUEST_PERMISSION, TILE_DATA) == 0


def pack(weight: np.ndarray) -> np.ndarray:
    """Pack a bfloat16 weight [out, in], as uint16, into tiles. Zeros follow the last output and input."""
    out, size = weight.shape
    steps = round_up(size, INPUTS) // INPUTS
    padded = np.zeros((round_up(out, BLOCK), steps * INPUTS), weight.dtype)
    padded[:out, :size] = weight
    pairs = padded.view(np.uint32)  # they move as one number
    tiles = pairs.reshape(-1, BLOCK // OUTPUTS, OUTPUTS, steps, INPUTS // 2)
    return in_large_pages(tiles.transpose(0, 3, 1, 4, 2))


def _intrinsic(builder, name: str, *kinds: ir.Type) -> ir.Function:
    return builder.module.declare_intrinsic(f"llvm.x86.{name}", (), ir.FunctionType(ir.VoidType(), kinds))


def _pointer(builder, address):
    return builder.inttoptr(address, _BYTE.as_pointer())


def _config_instruction(instruction: str):
    """Return a function that loads the tile configuration (64 bytes) from an address, or stores it there."""

    @intrinsic
    def move(typing_context, address):
        def code(context, builder, signature, arguments):
            builder.call(_intrinsic(builder, instruction, _BYTE.as_pointer()), [_pointer(builder, arguments[0])])
            return context.get_dummy_value()

        return types.void(INTEGER), code

    return move


configure = _config_instruction("ldtilecfg")  # also clears the registers
save_configuration = _config_instruction("sttilecfg")  # other users of the registers rely on their configuration


@intrinsic
def multiply(typing_context, x, x_stride, w, y, y_stride, steps):
    """Compute y [rows, 64] float32 = x [rows, 32 steps] bfloat16 times the block at w.

    Strides are in bytes. The number of rows is that of the tile configuration.
    """

    def code(context, builder, signature, arguments):
        x, x_stride, w, y, y_stride, steps = arguments
        move = [_BYTE, _BYTE.as_pointer(), _INT64]
        load, store = (_intrinsic(builder, name, *move) for name in ("tileloadd64", "tilestored64"))
        zero, step = _intrinsic(builder, "tilezero", _BYTE), _intrinsic(builder, "tdpbf16ps", _BYTE, _BYTE, _BYTE)
        register, number = (lambda n: ir.Constant(_BYTE, n)), (lambda n: ir.Constant(_INT64, n))
        for accumulator in ACCUMULATORS:
            builder.call(zero, [register(accumulator)])
        begin, loop, after = builder.block, builder.append_basic_block("step"), builder.append_basic_block("after")
        builder.branch(loop)
        builder.position_at_end(loop)
        i = builder.phi(_INT64)
        i.add_incoming(number(0), begin)
        inputs = _pointer(builder, builder.add(x, builder.mul(i, number(2 * INPUTS))))
        builder.call(load, [register(LEFT), inputs, x_stride])
        tiles = builder.add(w, builder.mul(i, number(len(ACCUMULATORS) * TILE)))
        for accumulator in ACCUMULATORS:
            right = register(RIGHT[accumulator % len(RIGHT)])
            weights = _pointer(builder, builder.add(tiles, number(accumulator * TILE)))
            builder.call(load, [right, weights, number(4 * OUTPUTS)])
            builder.call(step, [register(accumulator), register(LEFT), right])
        next_i = builder.add(i, number(1))
        i.add_incoming(next_i, loop)
        builder.cbranch(builder.icmp_signed("<", next_i, steps), loop, after)
        builder.position_at_end(after)
        for accumulator in ACCUMULATORS:
            pointer = _pointer(builder, builder.add(y, number(4 * OUTPUTS * accumulator)))
            builder.call(store, [register(accumulator), pointer, y_stride])
        return context.get_dummy_value()

    return types.void(*[INTEGER] * 6), code
