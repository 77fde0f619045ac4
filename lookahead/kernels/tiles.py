"""Products on the matrix unit of Intel processors (AMX), which multiplies 16 rows as fast as one.

Its registers are tiles of 16 rows of 64 bytes. One step adds the products of 32 bfloat16 inputs to 16 x 16 float32
sums. It adds pair by pair, in the order of the inputs, in each row. So the bits of a row do not depend on the
other rows.

Attention uses the same unit (`score`, `mix`, `add_mix`). Keys and values are in pairs (`attend`), which is the order of tiles.

Weights are stored in the order in which tiles are read (`pack`): blocks of 64 outputs, each in steps of 32 inputs, each
step in four tiles of 16 pairs of inputs by 16 outputs. Source: Intel 64 and IA-32 Architectures Software Developer's
Manual, volume 1, chapter 18. A process must request permission from the system once: arch_prctl(2).
"""

import ctypes
import platform
from collections.abc import Callable, Iterator
from functools import lru_cache

import numpy as np
from llvmlite import ir
from numba import types
from numba.extending import register_jitable

from .compiling import INTEGER, intrinsic
from .large_pages import in_large_pages
from .vectors import BLOCK, FEATURES, round_up

ROWS, INPUTS, OUTPUTS = 16, 32, 16  # of one step
TILE = 1024  # bytes
ACCUMULATORS, LEFT, RIGHT = range(4), 4, (5, 6)  # registers
COLUMNS = 0x0040_0040_0040_0040  # 64 bytes per row, for four registers
ROWS_OF_ALL = 0x01_01_01_01_01  # one row, for registers 0 to 4
WEIGHTS_ROWS = 0x10_10_10 << 40  # 16 rows, for registers 5 to 7
ARCH_PRCTL, REQUEST_PERMISSION, TILE_DATA = 158, 0x1023, 18
_BYTE, _INT64 = ir.IntType(8), ir.IntType(64)
IN_CODE = {"+amx-tile", "+amx-bf16"} <= set(FEATURES.split(","))  # whether compiled code may contain the instructions
# The registers of attention: for all rows, and for the rows of one token. `RIGHT[0]` is that of keys and values.
SCORES, TOKEN, TOKEN_LEFT = (0, 1), 6, 7


@lru_cache(maxsize=1)
def available() -> bool:
    """Return whether this processor has the unit and the system lets this process use it."""
    if not IN_CODE or platform.system() != "Linux":
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
    """Return a function that loads the tile configuration (64 bytes) from an address, or stores it there.

    It does nothing if code may not contain it.
    """
    if not IN_CODE:
        return register_jitable(lambda address: None)

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


class _Emitter:
    """Emits instructions of the unit."""

    def __init__(self, builder):
        self._builder = builder
        move = [_BYTE, _BYTE.as_pointer(), _INT64]
        self._load, self._store = (_intrinsic(builder, name, *move) for name in ("tileloadd64", "tilestored64"))
        self._zero, self._step = _intrinsic(builder, "tilezero", _BYTE), _intrinsic(builder, "tdpbf16ps", *[_BYTE] * 3)

    def plus(self, address, number: int, *factors):
        """Return an address plus a number times the factors."""
        product = ir.Constant(_INT64, number)
        for factor in factors:
            product = self._builder.mul(product, factor)
        return self._builder.add(address, product)

    def zero(self, register: int) -> None:
        self._builder.call(self._zero, [ir.Constant(_BYTE, register)])

    def load(self, register: int, address, stride) -> None:
        self._builder.call(self._load, [ir.Constant(_BYTE, register), _pointer(self._builder, address), stride])

    def store(self, register: int, address, stride) -> None:
        self._builder.call(self._store, [ir.Constant(_BYTE, register), _pointer(self._builder, address), stride])

    def step(self, total: int, left: int, right: int) -> None:
        self._builder.call(self._step, [ir.Constant(_BYTE, register) for register in (total, left, right)])

    def loop(self, steps) -> Iterator[ir.Value]:
        """Emit a loop of at least one step. Yield the index of the step at the start of its code."""
        builder = self._builder
        begin, body, after = builder.block, builder.append_basic_block("step"), builder.append_basic_block("after")
        builder.branch(body)
        builder.position_at_end(body)
        i = builder.phi(_INT64)
        i.add_incoming(ir.Constant(_INT64, 0), begin)
        yield i
        following = builder.add(i, ir.Constant(_INT64, 1))
        i.add_incoming(following, builder.block)
        builder.cbranch(builder.icmp_signed("<", following, steps), body, after)
        builder.position_at_end(after)


def _emitted(emit: Callable) -> Callable:
    """Return a function of seven integers whose code is emitted; it does nothing if code may not contain it.

    Its arguments are the addresses of the left matrix, the right one and y, each with its stride in bytes, and the number of
    steps.
    """
    if not IN_CODE:
        return register_jitable(lambda left, left_stride, right, right_stride, y, y_stride, steps: None)

    @intrinsic
    def compute(typing_context, left, left_stride, right, right_stride, y, y_stride, steps):
        def code(context, builder, signature, arguments):
            emit(_Emitter(builder), *arguments)
            return context.get_dummy_value()

        return types.void(*[INTEGER] * 7), code

    return compute


def _add_products(unit: _Emitter, totals, register: int, left, left_stride, right, right_stride, steps) -> None:
    """Emit a loop that adds left [rows, 32 steps] times right [16 steps, 16 for each total], in pairs, to the totals."""
    for i in unit.loop(steps):
        unit.load(register, unit.plus(left, 64, i), left_stride)
        for number, total in enumerate(totals):
            block = unit.plus(unit.plus(right, 16, i, right_stride), 64 * number)
            unit.load(RIGHT[0], block, right_stride)
            unit.step(total, register, RIGHT[0])


def _product(totals) -> Callable:
    """Return a function that computes y = left times right, with 16 columns for each total."""

    @_emitted
    def compute(unit: _Emitter, left, left_stride, right, right_stride, y, y_stride, steps):
        for total in totals:
            unit.zero(total)
        _add_products(unit, totals, LEFT, left, left_stride, right, right_stride, steps)
        for number, total in enumerate(totals):
            unit.store(total, unit.plus(y, 64 * number), y_stride)

    return compute


score = _product(SCORES)  # queries [rows, 32 steps] times the keys of a block [16 steps, 32]
mix = _product(ACCUMULATORS)  # softmax weights [rows, 32 steps] times values [16 steps, 64]


@_emitted
def add_mix(unit: _Emitter, left, left_stride, right, right_stride, y, y_stride, steps):
    """Add the softmax weights of the heads of one token, times 16 columns of values, to y [heads, 16]."""
    unit.load(TOKEN, y, y_stride)
    _add_products(unit, [TOKEN], TOKEN_LEFT, left, left_stride, right, right_stride, steps)
    unit.store(TOKEN, y, y_stride)
