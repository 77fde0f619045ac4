"""What kernels are made of: the few steps that numba has no words for, written in LLVM's.

Vectors are 16 floats where the processor's are (AVX-512), else 8. A product's sums stay in registers over the whole loop
(`_block`), each adding its terms one by one with one rounding a term, so that the order is the same for any number of rows.
Weights lie in panels, as wide as the sums that registers hold for six rows, so that such a loop reads memory in one go.

Storage formats of numbers:

- `BFLOAT16`, `FLOAT32`: one after the other, as keys, values and embeddings are. bfloat16 is the upper half of a float32.
- `BF16_SPLIT`: two bfloat16 weights in a word. One instruction splits off either as a float32.
- `BF16_DOT`: two bfloat16 weights in a word, and two inputs: one instruction adds both products (AVX512-BF16). AMD processors
  use it. An Intel takes twice as long for that instruction as for two of float32 (measured: 83 against 117 GFLOP/s a core on an
  Emerald Rapids whose matrix unit is hidden).
- `BF16_AMX`: for the matrix unit of Intel processors (`tiles`).
- `INT8_BY_4`: four 8-bit weights in a word, whose products one instruction adds (AVX512-VNNI).
- `INT8_BY_2`: two 8-bit weights in 16 bits, for processors without that instruction, which multiply them in 16 bits: on that EPYC
  1.4 times as many products per second as of float32.
"""

from collections.abc import Iterable, Iterator

import numpy as np
from llvmlite import ir
from llvmlite.binding import get_host_cpu_name
from numba import carray, config, njit, types
from numba.core.codegen import get_host_cpu_features  # empty where LLVM cannot tell
from numba.extending import intrinsic, register_jitable

from ..model.shape import Shape
from .compiling import INTEGER
from .large_pages import LINE

FEATURES = config.CPU_FEATURES or get_host_cpu_features()  # NUMBA_CPU_FEATURES and _NAME play another processor
NAME = config.CPU_NAME or get_host_cpu_name()
LANES = 16 if "+avx512f" in FEATURES else 8  # floats in a vector
SUMS = 24 if LANES == 16 else 12  # vectors of sums that the registers hold beside weights and inputs
ROWS = 6  # that are computed at once at most
BLOCK, NARROW = 64, 16  # outputs that are computed together; a head's size is whole narrow blocks
KEYS = 32  # that lie side by side, since their products with queries are computed together
PANEL = SUMS // ROWS * LANES  # outputs whose weights lie side by side: as many as one loop adds up for so many rows
FEW = 2  # rows at most for which one loop adds up several panels: of one it would wait for its own sums
BFLOAT16, FLOAT32, INT8_BY_2, BF16_AMX, BF16_SPLIT, BF16_DOT, INT8_BY_4 = range(7)
BYTES = {BFLOAT16: 2, FLOAT32: 4, INT8_BY_2: 2, BF16_SPLIT: 4, BF16_DOT: 4, INT8_BY_4: 4}
TOGETHER = {BF16_SPLIT: 2, BF16_DOT: 2, INT8_BY_2: 2, INT8_BY_4: 4}  # inputs whose weights lie side by side
HAS_BF16_DOT = LANES == 16 and "+avx512bf16" in FEATURES.split(",") and NAME.startswith("znver")
# How many bytes early weights are asked for, into the first cache and into the second. On an Emerald Rapids: 200 MB for one row
# 20.6 -> 14.7 ms, for six 27.2 -> 15.2. Up to `ROWS` rows a Zen 4 reads quicker unasked: 269 MB for four 18.1 -> 12.3 ms.
NEAR = 4096
EARLY = (0, 0) if HAS_BF16_DOT else (NEAR, 12288)
HAS_VNNI = LANES == 16 and "+avx512vnni" in FEATURES.split(",")

_FLOAT, _INT32, _INT64 = ir.FloatType(), ir.IntType(32), ir.IntType(64)
_VECTOR = ir.VectorType(_FLOAT, LANES)
_STORED = {
    BFLOAT16: ir.IntType(16), FLOAT32: _FLOAT, INT8_BY_2: ir.IntType(16), BF16_SPLIT: _INT32, BF16_DOT: _INT32, INT8_BY_4: _INT32,
}  # fmt: skip


class _BFloat(ir.HalfType):
    """LLVM's type for bfloat16, which llvmlite has no name for."""

    intrinsic_name = "bf16"

    def __str__(self) -> str:
        return "bfloat"


_BFloat._create_instance()
_BF16_DOT = ir.VectorType(_BFloat(), 2 * LANES)
_INT8_BY_2, _INT8_BY_4 = (ir.VectorType(ir.IntType(8), together * LANES) for together in (2, 4))


@register_jitable
def whole(width, block):
    """The width in whole blocks."""
    return -(-width // block) * block


def fits(shape: Shape) -> bool:
    """Whether the kernels take a Llama of that shape."""
    return shape.head_dim % NARROW == 0


def _address(element):
    """A function that makes a pointer to such elements of an integer."""

    @intrinsic
    def pointer(typing_context, address):
        def code(context, builder, signature, arguments):
            return builder.inttoptr(arguments[0], context.get_value_type(signature.return_type))

        return types.CPointer(element)(INTEGER), code

    return pointer


bytes_at, bfloat16_at, int16_at, int32_at, floats_at, integers_at = (
    _address(kind) for kind in (types.uint8, types.uint16, types.int16, types.int32, types.float32, INTEGER)
)


def _reinterpreted(given, wanted, kind: ir.Type):
    """A function that reinterprets 32 bits."""

    @intrinsic
    def cast(typing_context, bits):
        return wanted(given), lambda context, builder, signature, arguments: builder.bitcast(arguments[0], kind)

    return cast


as_float = _reinterpreted(types.uint32, types.float32, _FLOAT)
as_bits = _reinterpreted(types.float32, types.uint32, _INT32)


@intrinsic
def call(typing_context, address, arguments):
    """Call a kernel by its address."""

    def code(context, builder, signature, values):
        each = [context.get_value_type(kind) for kind in signature.args[1].types]
        kernel = builder.inttoptr(values[0], ir.FunctionType(ir.VoidType(), each).as_pointer())
        builder.call(kernel, [builder.extract_value(values[1], i) for i in range(len(each))])
        return context.get_dummy_value()

    return types.void(INTEGER, arguments), code


def _block(stored: int, width: int = BLOCK, panel: int = PANEL):
    """A function that adds to y[row, :width] the sum over k of x[row, k] w[k, :width], for 1 to `ROWS` rows; of more than `FEW`
    rows only as far as a panel goes.

    Of addresses: x float32 [rows, x_stride], w [width / PANEL, k, PANEL] as stored, whose panels begin `w_panel` numbers apart
    and whose k `w_stride`, y float32 [rows, y_stride]. Of `BF16_SPLIT`, `BF16_DOT` and `INT8_BY_4` k counts words, as x does of the last two;
    `INT8_BY_4` adds up as int32. Meanwhile lines that lie `near` and, `1 << slow` times as slowly, `far` after w's are brought.
    """

    @intrinsic
    def multiply(typing_context, rows, x, w, y, k, x_stride, w_stride, w_panel, y_stride, near, far, slow):
        def code(context, builder, signature, arguments):
            _by_rows(builder, stored, width, panel, *arguments)
            return context.get_dummy_value()

        return types.void(*[INTEGER] * 12), code

    return multiply


def _attention_block(*widths: int):
    """`_block` for keys or values in any of their formats and blocks of these widths, each a panel. Format and width are arguments."""
    formats = (BFLOAT16, FLOAT32, *[BF16_DOT] * HAS_BF16_DOT)
    forms = {stored * 2 * BLOCK + width: (stored, width) for stored in formats for width in widths}

    @intrinsic
    def multiply(
        typing_context, stored, width, rows, x, w, y, k, x_stride, w_stride, w_panel, y_stride, near, far, slow
    ):
        def code(context, builder, signature, arguments):
            form = builder.add(builder.mul(arguments[0], _number(2 * BLOCK)), arguments[1])
            for case in _cases(builder, form, forms):
                stored, width = forms[case]
                _by_rows(builder, stored, width, width, *arguments[2:])
            return context.get_dummy_value()

        return types.void(*[INTEGER] * 14), code

    return multiply


def _cases(builder, value, cases: Iterable[int]) -> Iterator[int]:
    """A switch over a value: yields each case at the beginning of its code."""
    done = builder.append_basic_block("done")
    choice = builder.switch(value, done)
    for case in cases:
        choice.add_case(_number(case), builder.append_basic_block("case"))
        builder.position_at_end(builder.function.blocks[-1])
        yield case
        builder.branch(done)
    builder.position_at_end(done)


def _by_rows(builder, stored: int, width: int, panel: int, count, x, w, y, *sizes) -> None:
    """The code of a `_block`."""
    together, total = stored in (BF16_DOT, INT8_BY_2, INT8_BY_4), _INT32 if stored in (INT8_BY_2, INT8_BY_4) else _FLOAT
    x = builder.inttoptr(x, (_INT32 if together else _FLOAT).as_pointer())
    y = builder.inttoptr(y, total.as_pointer())
    w = builder.inttoptr(w, _STORED[stored].as_pointer())
    for rows in _cases(builder, count, range(1, ROWS + 1)):
        vectors, most = (width // LANES, SUMS) if rows <= FEW else (panel // LANES, PANEL // LANES)
        at_once = 1 << (min(vectors, most, SUMS // rows).bit_length() - 1)
        for first in range(0, vectors, at_once):
            _added_up(builder, rows, range(first, first + at_once), stored, width, x, w, y, sizes)


def _added_up(builder, rows, vectors, stored, width, x, w, y, sizes) -> None:
    """The loop over k for so many rows and those vectors of a block of that width, with all sums in registers."""
    k, x_stride, w_stride, w_panel, y_stride, near, far, slow = sizes
    begin, loop, after = builder.block, builder.append_basic_block("k"), builder.append_basic_block("after")
    rows, vector = range(rows), ir.VectorType(y.type.pointee, LANES)
    places = [
        builder.bitcast(builder.gep(y, [_sum(builder, y_stride, row, v * LANES)]), vector.as_pointer())
        for row in rows
        for v in vectors
    ]
    start = [builder.load(place, align=4) for place in places]
    builder.cbranch(builder.icmp_signed("<", _number(0), k), loop, after)
    builder.position_at_end(loop)
    i, sums = builder.phi(_INT64), [builder.phi(vector) for _ in places]
    at, panels = builder.mul(i, w_stride), [divmod(v * LANES, PANEL) for v in vectors]
    stored_at = [builder.add(at, _sum(builder, w_panel, *panel)) for panel in panels]
    for (_, first), place in zip(panels, stored_at, strict=True):
        if width == BLOCK and first * BYTES[stored] % LINE == 0:
            _ask_for(builder, w, place, BYTES[stored], near, far, slow)
    step, halves = (
        {BF16_DOT: _dot_bf16, INT8_BY_2: _dot_int8_by_2, INT8_BY_4: _dot_int8_by_4}.get(stored, _fused),
        2 if stored == BF16_SPLIT else 1,
    )
    added = sums
    for half in range(halves):
        weights = [_loaded(builder, w, place, stored, half) for place in stored_at]
        column = _sum(builder, i, halves, half)
        inputs = [
            _spread(builder, builder.load(builder.gep(x, [builder.add(builder.mul(x_stride, _number(row)), column)])))
            for row in rows
        ]
        pairs = [(one, weight) for one in inputs for weight in weights]
        added = [step(builder, one, weight, total) for (one, weight), total in zip(pairs, added, strict=True)]
    following = builder.add(i, _number(1))
    builder.cbranch(builder.icmp_signed("<", following, k), loop, after)
    builder.position_at_end(after)
    ends = [builder.phi(vector) for _ in places]
    for phi, first, later in (
        (i, _number(0), following),
        *zip(sums, start, added, strict=True),
        *zip(ends, start, added, strict=True),
    ):
        phi.add_incoming(first, begin)
        phi.add_incoming(later, loop)
    for end, place in zip(ends, places, strict=True):
        builder.store(end, place, align=4)


def _ask_for(builder, w, place, size, near, far, slow) -> None:
    """Have lines brought that lie `near` and `far` after a place of w; after an array's end none is read."""
    byte, (data, reading) = ir.IntType(8).as_pointer(), (ir.Constant(_INT32, 1), ir.Constant(_INT32, 0))
    kind = ir.FunctionType(ir.VoidType(), [byte, _INT32, _INT32, _INT32])
    prefetch = builder.module.declare_intrinsic("llvm.prefetch.p0", (), kind)
    start, way = builder.bitcast(w, byte), builder.mul(place, _number(size))
    for early, locality in ((builder.add(way, near), 3), (builder.add(builder.lshr(way, slow), far), 2)):
        builder.call(prefetch, [builder.gep(start, [early]), reading, ir.Constant(_INT32, locality), data])


def _number(n: int) -> ir.Constant:
    return ir.Constant(_INT64, n)


def _sum(builder, stride, row: int, column: int):
    """Where a number lies in an array of rows."""
    return builder.add(builder.mul(stride, _number(row)), _number(column))


def _fused(builder, a, b, total):
    """a b + total, rounded once."""
    kind = ir.FunctionType(_VECTOR, [_VECTOR] * 3)
    return builder.call(builder.module.declare_intrinsic(f"llvm.fma.v{LANES}f32", (), kind), [a, b, total])


def _dot_bf16(builder, a, b, total):
    """Two products of bfloat16 and the total, for every pair of a and b."""
    kind = ir.FunctionType(_VECTOR, [_VECTOR, _BF16_DOT, _BF16_DOT])
    step = builder.module.declare_intrinsic("llvm.x86.avx512bf16.dpbf16ps.512", (), kind)
    return builder.call(step, [total, builder.bitcast(a, _BF16_DOT), builder.bitcast(b, _BF16_DOT)])


def _dot_int8_by_2(builder, a, b, total):
    """Two products of bytes and the total, for every two of a, which lie in 16 bits, and b."""
    longer = ir.VectorType(_INT32, 2 * LANES)
    a = builder.bitcast(a, b.type)
    products = builder.mul(builder.sext(a, longer), builder.sext(b, longer))
    masks = [ir.Constant(ir.VectorType(_INT32, LANES), list(range(first, 2 * LANES, 2))) for first in (0, 1)]
    both = builder.add(*(builder.shuffle_vector(products, products, mask) for mask in masks))
    return builder.add(total, both)  # LLVM knows all but the last sum as one step (pmaddwd)


def _dot_int8_by_4(builder, a, b, total):
    """Four products of bytes, a's without a sign, and the total, for every four of a and b."""
    integers = ir.VectorType(_INT32, LANES)
    kind = ir.FunctionType(integers, [integers, _INT8_BY_4, _INT8_BY_4])
    step = builder.module.declare_intrinsic("llvm.x86.avx512.vpdpbusd.512", (), kind)
    return builder.call(step, [total, builder.bitcast(a, _INT8_BY_4), builder.bitcast(b, _INT8_BY_4)])


def _loaded(builder, w, place, stored: int, half: int = 0):
    """A vector of stored numbers as float32, of words the lower or the upper half; `BF16_DOT` and `INT8_BY_4` as they are."""
    width = ir.VectorType(_STORED[stored], LANES)
    vector = builder.load(builder.bitcast(builder.gep(w, [place]), width.as_pointer()), align=BYTES[stored])
    if stored == BFLOAT16:
        longer = ir.VectorType(_INT32, LANES)
        return builder.bitcast(builder.shl(builder.zext(vector, longer), ir.Constant(longer, [16] * LANES)), _VECTOR)
    if stored == BF16_SPLIT:
        lower, upper = (ir.Constant(vector.type, [number] * LANES) for number in (16, 0xFFFF0000))
        return builder.bitcast(builder.and_(vector, upper) if half else builder.shl(vector, lower), _VECTOR)
    if stored == INT8_BY_2:
        return builder.sext(builder.bitcast(vector, _INT8_BY_2), ir.VectorType(ir.IntType(16), 2 * LANES))
    return vector


def _spread(builder, number):
    """A vector of the same number, or word."""
    nothing = ir.Constant(ir.VectorType(number.type, LANES), ir.Undefined)
    first = builder.insert_element(nothing, number, ir.Constant(_INT32, 0))
    return builder.shuffle_vector(first, nothing, ir.Constant(ir.VectorType(_INT32, LANES), [0] * LANES))


block_float32, block_bf16_split, block_bf16_dot, block_int8_by_2, block_int8_by_4 = (
    _block(stored) for stored in (FLOAT32, BF16_SPLIT, BF16_DOT, INT8_BY_2, INT8_BY_4)
)
keys_block, values_block = _attention_block(KEYS), _attention_block(BLOCK, NARROW)


@njit(inline="always")
def float_of(short):
    """bfloat16 as float32."""
    return as_float(np.uint32(short) << np.uint32(16))


@njit(inline="always")
def bfloat16_of(number):
    """float32 rounded to bfloat16, ties to even."""
    bits = as_bits(number)
    return np.uint16((bits + np.uint32(0x7FFF) + ((bits >> np.uint32(16)) & np.uint32(1))) >> np.uint32(16))


@njit(inline="always")
def rounding(number, rounded):
    """Return `number`, rounded to bfloat16 if `rounded`."""
    return float_of(bfloat16_of(number)) if rounded else number


@njit(inline="always")
def exp(x):
    """e to the x, for x of at most 87. Source: Cephes' expf, its polynomial and its two parts of ln 2."""
    x = max(x, np.float32(-87.0))
    n = np.floor(x * np.float32(1.44269504) + np.float32(0.5))
    f = x - n * np.float32(0.693359375) + n * np.float32(2.12194440e-4)
    p = np.float32(1.9875691500e-4)
    p = p * f + np.float32(1.3981999507e-3)
    p = p * f + np.float32(8.3334519073e-3)
    p = p * f + np.float32(4.1665795894e-2)
    p = p * f + np.float32(1.6666665459e-1)
    p = p * f + np.float32(5.0000001201e-1)
    return (p * f * f + f + np.float32(1.0)) * as_float(np.uint32((np.int32(n) + np.int32(127)) << np.int32(23)))


@njit(inline="always")
def in_order(bits):
    """A float's bits as a whole number in the floats' order, or back."""
    return np.int32(bits ^ np.int32((bits >> np.int32(31)) & np.int32(0x7FFFFFFF)))


@njit(error_model="numpy")
def copy(numbers, there):
    """Copy numbers to another place: assigning an array would compile its errors too, for seconds."""
    for i in range(len(numbers)):
        there[i] = numbers[i]


@njit(inline="always")
def read_numbers(stored, there, count, rounded):
    """Put numbers that are stored at an address, as bfloat16 if they are `rounded`, as float32 at another."""
    numbers = carray(floats_at(there), count)
    for i in range(count):
        numbers[i] = float_of(bfloat16_at(stored)[i]) if rounded else floats_at(stored)[i]


@njit(inline="always")
def store_numbers(numbers, there, count, rounded):
    """Put float32 numbers from an address as they are stored at another."""
    given = carray(floats_at(numbers), count)
    for i in range(count):
        if rounded:
            bfloat16_at(there)[i] = bfloat16_of(given[i])
        else:
            floats_at(there)[i] = given[i]


@njit(inline="always")
def highest(numbers):
    """The highest of some float32 that are no NaN: compared as whole numbers, for of floats LLVM compares one by one."""
    top = np.int32(-(1 << 31))
    for i in range(len(numbers)):
        number = in_order(np.int32(as_bits(numbers[i])))
        top = number if number > top else top
    return as_float(np.uint32(in_order(top)))


@njit(inline="always")
def largest_size(numbers):
    """The largest absolute value of some float32, in the same way."""
    top = np.int32(0)
    for i in range(len(numbers)):
        number = np.int32(np.int32(as_bits(numbers[i])) & np.int32(0x7FFFFFFF))
        top = number if number > top else top
    return as_float(np.uint32(top))
