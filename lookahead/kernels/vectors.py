"""Building blocks of the kernels. The operations that numba lacks are written in LLVM's intermediate representation.

A vector has 16 floats if the processor has AVX-512, else 8. The sums of a product stay in registers during the whole
loop (`block_kernel`). Each sum adds its terms one by one and rounds once per term, so the order does not depend on the
number of rows. Weights are stored in panels. A panel is as wide as the sums that fit in the registers for six rows, so
each loop reads contiguous memory.

Storage formats of numbers:

- `BFLOAT16`, `FLOAT32`: contiguous, for keys, values and embeddings. bfloat16 is the upper half of a float32.
- `BF16_SPLIT`: two bfloat16 weights per 32-bit word. One instruction extracts either of them as a float32.
- `BF16_DOT`: two bfloat16 weights per word and two inputs: one instruction adds both products (AVX512-BF16), on AMD
  processors. On Intel, that instruction takes twice as long as two float32 instructions (measured on an Emerald Rapids
  without its matrix unit: 83 against 117 GFLOP/s per core).
- `BF16_AMX`: for the matrix unit of Intel processors (`tiles`).
- `INT8_BY_4`: four 8-bit weights per word. One instruction adds their products (AVX512-VNNI).
- `INT8_BY_2`: two 8-bit weights per 16 bits, multiplied in 16 bits, for processors without that instruction. On a
  virtual AMD EPYC it computes 1.4 times as many products per second as float32.
"""

from collections.abc import Iterable, Iterator

import numpy as np
from llvmlite import ir
from llvmlite.binding import get_host_cpu_name
from numba import carray, config, njit, types
from numba.core.codegen import get_host_cpu_features  # empty if LLVM cannot detect them
from numba.extending import register_jitable

from ..model.shape import Shape
from .compiling import INTEGER, internal, intrinsic
from .large_pages import LINE

FEATURES = config.CPU_FEATURES or get_host_cpu_features()  # NUMBA_CPU_FEATURES and NUMBA_CPU_NAME override them
CPU = config.CPU_NAME or get_host_cpu_name()
LANES = 16 if "+avx512f" in FEATURES else 8  # floats in a vector
ACCUMULATORS = 24 if LANES == 16 else 12  # vectors of sums in registers; the other registers hold weights and inputs
ROWS = 6  # the most rows that one loop computes
BLOCK, NARROW = 64, 16  # outputs per block; a head's size is a multiple of `NARROW`
KEY_BLOCK = 32  # keys per block: one loop computes their products with the queries
PANEL = ACCUMULATORS // ROWS * LANES  # outputs per panel: one loop sums them for `ROWS` rows
FEW_ROWS = 2  # up to this many rows, one loop sums several panels; with one panel it waits for its sums
BFLOAT16, FLOAT32, INT8_BY_2, BF16_AMX, BF16_SPLIT, BF16_DOT, INT8_BY_4 = range(7)
BYTES = {BFLOAT16: 2, FLOAT32: 4, INT8_BY_2: 2, BF16_SPLIT: 4, BF16_DOT: 4, INT8_BY_4: 4}
INTERLEAVE = {BF16_SPLIT: 2, BF16_DOT: 2, INT8_BY_2: 2, INT8_BY_4: 4}  # inputs whose weights are interleaved
HAS_BF16_DOT = LANES == 16 and "+avx512bf16" in FEATURES.split(",") and CPU.startswith("znver")
# Prefetch distances in bytes, into the L1 and the L2 cache. On an Emerald Rapids, 200 MB for one row take 14.7 ms instead of
# 20.6; for six rows, 15.2 ms instead of 27.2. Up to `ROWS` rows, a Zen 4 is faster without prefetching: 12.3 ms instead of 18.1
# (269 MB).
L1_AHEAD = 4096
PREFETCH = (0, 0) if HAS_BF16_DOT else (L1_AHEAD, 12288)
HAS_VNNI = LANES == 16 and "+avx512vnni" in FEATURES.split(",")

_FLOAT, _INT32, _INT64 = ir.FloatType(), ir.IntType(32), ir.IntType(64)
_VECTOR = ir.VectorType(_FLOAT, LANES)
_ELEMENT = {
    BFLOAT16: ir.IntType(16), FLOAT32: _FLOAT, INT8_BY_2: ir.IntType(16), BF16_SPLIT: _INT32, BF16_DOT: _INT32, INT8_BY_4: _INT32,
}  # fmt: skip


class _BFloat(ir.HalfType):
    """LLVM's bfloat16 type, which llvmlite does not define."""

    intrinsic_name = "bf16"

    def __str__(self) -> str:
        return "bfloat"


_BFloat._create_instance()
_BF16_DOT = ir.VectorType(_BFloat(), 2 * LANES)
_INT8_BY_2, _INT8_BY_4 = (ir.VectorType(ir.IntType(8), count * LANES) for count in (2, 4))


@register_jitable
def round_up(width, block):
    """Return `width`, rounded up to a multiple of `block`."""
    return -(-width // block) * block


def supports(shape: Shape) -> bool:
    """Return whether the kernels support a Llama of this shape."""
    return shape.head_dim % NARROW == 0


def _pointer_to(element):
    """Return a function that converts an integer address to a pointer to elements of this type."""

    @intrinsic
    def pointer(typing_context, address):
        def code(context, builder, signature, arguments):
            return builder.inttoptr(arguments[0], context.get_value_type(signature.return_type))

        return types.CPointer(element)(INTEGER), code

    return pointer


bytes_at, bfloat16_at, int16_at, int32_at, floats_at, integers_at = (
    _pointer_to(kind) for kind in (types.uint8, types.uint16, types.int16, types.int32, types.float32, INTEGER)
)


@intrinsic
def memory_at(typing_context, address):
    """Convert an integer address to a pointer to records, for `carray`."""

    def code(context, builder, signature, arguments):
        return builder.inttoptr(arguments[0], context.get_value_type(signature.return_type))

    return types.voidptr(INTEGER), code


def _bitcast(source, result, kind: ir.Type):
    """Return a function that reinterprets 32 bits as another type."""

    @intrinsic
    def cast(typing_context, bits):
        return result(source), lambda context, builder, signature, arguments: builder.bitcast(arguments[0], kind)

    return cast


as_float = _bitcast(types.uint32, types.float32, _FLOAT)
as_bits = _bitcast(types.float32, types.uint32, _INT32)


@intrinsic
def call(typing_context, address, arguments):
    """Call the kernel at `address`."""

    def code(context, builder, signature, values):
        argument_types = [context.get_value_type(kind) for kind in signature.args[1].types]
        kernel = builder.inttoptr(values[0], ir.FunctionType(ir.VoidType(), argument_types).as_pointer())
        builder.call(kernel, [builder.extract_value(values[1], i) for i in range(len(argument_types))])
        return context.get_dummy_value()

    return types.void(INTEGER, arguments), code


def block_kernel(storage: int, width: int = BLOCK, panel: int = PANEL):
    """Return a function that adds the sum over k of x[row, k] w[k, :width] to y[row, :width], for 1 to `ROWS` rows.

    For more than `FEW_ROWS` rows it computes one panel only. Addresses: x float32 [rows, x_stride]; w [width / PANEL,
    k, PANEL] as stored, with `w_panel` numbers from panel to panel and `w_stride` from k to k; y float32 [rows,
    y_stride].

    With `BF16_SPLIT`, `BF16_DOT` and `INT8_BY_4`, k counts words; with the last two, x has words as well. `INT8_BY_4`
    sums in int32. The loop prefetches the cache lines `l1` and `l2` bytes ahead in w. The second prefetch moves `1 <<
    shift` times as slowly.
    """

    @intrinsic
    def multiply(typing_context, rows, x, w, y, k, x_stride, w_stride, w_panel, y_stride, l1, l2, shift):
        def code(context, builder, signature, arguments):
            _emit_block(builder, storage, width, panel, *arguments)
            return context.get_dummy_value()

        return types.void(*[INTEGER] * 12), code

    return multiply


def attention_kernel(*widths: int):
    """Return a `block_kernel` for keys or values, with format and width as arguments. Each width is one panel."""
    formats = (BFLOAT16, FLOAT32, *[BF16_DOT] * HAS_BF16_DOT)
    variants = {storage * 2 * BLOCK + width: (storage, width) for storage in formats for width in widths}

    @intrinsic
    def multiply(
        typing_context, storage, width, rows, x, w, y, k, x_stride, w_stride, w_panel, y_stride, l1, l2, shift
    ):
        def code(context, builder, signature, arguments):
            variant = builder.add(builder.mul(arguments[0], _const(2 * BLOCK)), arguments[1])
            for case in _cases(builder, variant, variants):
                storage, width = variants[case]
                _emit_block(builder, storage, width, width, *arguments[2:])
            return context.get_dummy_value()

        return types.void(*[INTEGER] * 14), code

    return multiply


def _cases(builder, value, cases: Iterable[int]) -> Iterator[int]:
    """Emit a switch over `value`. Yield each case at the start of its code."""
    done = builder.append_basic_block("done")
    switch = builder.switch(value, done)
    for case in cases:
        switch.add_case(_const(case), builder.append_basic_block("case"))
        builder.position_at_end(builder.function.blocks[-1])
        yield case
        builder.branch(done)
    builder.position_at_end(done)


def _emit_block(builder, storage: int, width: int, panel: int, count, x, w, y, *sizes) -> None:
    """Emit a `block_kernel`: a case per number of rows, with a loop per group of vectors whose sums fit registers."""
    words, total = storage in (BF16_DOT, INT8_BY_2, INT8_BY_4), _INT32 if storage in (INT8_BY_2, INT8_BY_4) else _FLOAT
    x = builder.inttoptr(x, (_INT32 if words else _FLOAT).as_pointer())
    y = builder.inttoptr(y, total.as_pointer())
    w = builder.inttoptr(w, _ELEMENT[storage].as_pointer())
    for rows in _cases(builder, count, range(1, ROWS + 1)):
        vectors, limit = (width // LANES, ACCUMULATORS) if rows <= FEW_ROWS else (panel // LANES, PANEL // LANES)
        tile = 1 << (min(vectors, limit, ACCUMULATORS // rows).bit_length() - 1)
        for first in range(0, vectors, tile):
            _emit_loop(builder, rows, range(first, first + tile), storage, width, x, w, y, sizes)


def _emit_loop(builder, rows, vectors, storage, width, x, w, y, sizes) -> None:
    """Emit the loop over k for `rows` rows and these vectors of a block, with all sums in registers."""
    k, x_stride, w_stride, w_panel, y_stride, l1, l2, shift = sizes
    begin, loop, after = builder.block, builder.append_basic_block("k"), builder.append_basic_block("after")
    rows, vector = range(rows), ir.VectorType(y.type.pointee, LANES)
    cells = [builder.gep(y, [_offset(builder, y_stride, row, v * LANES)]) for row in rows for v in vectors]
    pointers = [builder.bitcast(cell, vector.as_pointer()) for cell in cells]
    initial = [builder.load(pointer, align=4) for pointer in pointers]
    builder.cbranch(builder.icmp_signed("<", _const(0), k), loop, after)
    builder.position_at_end(loop)
    i, sums = builder.phi(_INT64), [builder.phi(vector) for _ in pointers]
    offset, panels = builder.mul(i, w_stride), [divmod(v * LANES, PANEL) for v in vectors]
    offsets = [builder.add(offset, _offset(builder, w_panel, *panel)) for panel in panels]
    for (_, first), index in zip(panels, offsets, strict=True):
        if width == BLOCK and first * BYTES[storage] % LINE == 0:
            _prefetch(builder, w, index, BYTES[storage], l1, l2, shift)
    step = {BF16_DOT: _dot_bf16, INT8_BY_2: _dot_int8_by_2, INT8_BY_4: _dot_int8_by_4}.get(storage, _fma)
    halves, added = 2 if storage == BF16_SPLIT else 1, sums
    for half in range(halves):
        weights = [_load(builder, w, index, storage, half) for index in offsets]
        column = _offset(builder, i, halves, half)
        indices = [builder.add(builder.mul(x_stride, _const(row)), column) for row in rows]
        inputs = [_broadcast(builder, builder.load(builder.gep(x, [index]))) for index in indices]
        pairs = [(value, weight) for value in inputs for weight in weights]
        added = [step(builder, value, weight, total) for (value, weight), total in zip(pairs, added, strict=True)]
    next_i = builder.add(i, _const(1))
    builder.cbranch(builder.icmp_signed("<", next_i, k), loop, after)
    builder.position_at_end(after)
    results = [builder.phi(vector) for _ in pointers]
    firsts, laters = [_const(0), *initial, *initial], [next_i, *added, *added]
    for phi, first, later in zip([i, *sums, *results], firsts, laters, strict=True):
        phi.add_incoming(first, begin)
        phi.add_incoming(later, loop)
    for result, pointer in zip(results, pointers, strict=True):
        builder.store(result, pointer, align=4)


def _prefetch(builder, w, index, size, l1, l2, shift) -> None:
    """Prefetch the lines `l1` and `l2` bytes after `w[index]`. A prefetch after the end of an array reads nothing."""
    byte, (data, reading) = ir.IntType(8).as_pointer(), (ir.Constant(_INT32, 1), ir.Constant(_INT32, 0))
    kind = ir.FunctionType(ir.VoidType(), [byte, _INT32, _INT32, _INT32])
    prefetch = builder.module.declare_intrinsic("llvm.prefetch.p0", (), kind)
    start, offset = builder.bitcast(w, byte), builder.mul(index, _const(size))
    for ahead, locality in ((builder.add(offset, l1), 3), (builder.add(builder.lshr(offset, shift), l2), 2)):
        builder.call(prefetch, [builder.gep(start, [ahead]), reading, ir.Constant(_INT32, locality), data])


def _const(n: int) -> ir.Constant:
    return ir.Constant(_INT64, n)


def _offset(builder, stride, row: int, column: int):
    """Return the index of an element in an array of rows."""
    return builder.add(builder.mul(stride, _const(row)), _const(column))


def _fma(builder, a, b, total):
    """Return a b + total, rounded once."""
    kind = ir.FunctionType(_VECTOR, [_VECTOR] * 3)
    return builder.call(builder.module.declare_intrinsic(f"llvm.fma.v{LANES}f32", (), kind), [a, b, total])


def _dot_bf16(builder, a, b, total):
    """Return `total` plus two bfloat16 products, per pair of elements of a and b."""
    kind = ir.FunctionType(_VECTOR, [_VECTOR, _BF16_DOT, _BF16_DOT])
    step = builder.module.declare_intrinsic("llvm.x86.avx512bf16.dpbf16ps.512", (), kind)
    return builder.call(step, [total, builder.bitcast(a, _BF16_DOT), builder.bitcast(b, _BF16_DOT)])


def _dot_int8_by_2(builder, a, b, total):
    """Return `total` plus two products of bytes, per pair of elements; a's bytes are stored in 16 bits each."""
    longer = ir.VectorType(_INT32, 2 * LANES)
    a = builder.bitcast(a, b.type)
    products = builder.mul(builder.sext(a, longer), builder.sext(b, longer))
    masks = [ir.Constant(ir.VectorType(_INT32, LANES), list(range(first, 2 * LANES, 2))) for first in (0, 1)]
    pair_sums = builder.add(*(builder.shuffle_vector(products, products, mask) for mask in masks))
    return builder.add(total, pair_sums)  # LLVM selects pmaddwd for all but the last sum


def _dot_int8_by_4(builder, a, b, total):
    """Return `total` plus four products of bytes, per four elements of a and b; a is unsigned."""
    integers = ir.VectorType(_INT32, LANES)
    kind = ir.FunctionType(integers, [integers, _INT8_BY_4, _INT8_BY_4])
    step = builder.module.declare_intrinsic("llvm.x86.avx512.vpdpbusd.512", (), kind)
    return builder.call(step, [total, builder.bitcast(a, _INT8_BY_4), builder.bitcast(b, _INT8_BY_4)])


def _load(builder, w, index, storage: int, half: int = 0):
    """Load stored numbers; convert them to float32, except `BF16_DOT` and `INT8_BY_4`. Words have two halves."""
    width = ir.VectorType(_ELEMENT[storage], LANES)
    vector = builder.load(builder.bitcast(builder.gep(w, [index]), width.as_pointer()), align=BYTES[storage])
    if storage == BFLOAT16:
        longer = ir.VectorType(_INT32, LANES)
        return builder.bitcast(builder.shl(builder.zext(vector, longer), ir.Constant(longer, [16] * LANES)), _VECTOR)
    if storage == BF16_SPLIT:
        lower, upper = (ir.Constant(vector.type, [number] * LANES) for number in (16, 0xFFFF0000))
        return builder.bitcast(builder.and_(vector, upper) if half else builder.shl(vector, lower), _VECTOR)
    if storage == INT8_BY_2:
        return builder.sext(builder.bitcast(vector, _INT8_BY_2), ir.VectorType(ir.IntType(16), 2 * LANES))
    return vector


def _broadcast(builder, number):
    """Return a vector of the same number or word."""
    undefined = ir.Constant(ir.VectorType(number.type, LANES), ir.Undefined)
    first = builder.insert_element(undefined, number, ir.Constant(_INT32, 0))
    return builder.shuffle_vector(first, undefined, ir.Constant(ir.VectorType(_INT32, LANES), [0] * LANES))


@njit(inline="always")
def to_float32(short):
    """Convert the bits of a bfloat16 to float32."""
    return as_float(np.uint32(short) << np.uint32(16))


@njit(inline="always")
def to_bfloat16(number):
    """Round a float32 to bfloat16, ties to even. Return its bits."""
    bits = as_bits(number)
    return np.uint16((bits + np.uint32(0x7FFF) + ((bits >> np.uint32(16)) & np.uint32(1))) >> np.uint32(16))


@njit(inline="always")
def round_if(number, rounded):
    """Return `number`, rounded to bfloat16 if `rounded`."""
    return to_float32(to_bfloat16(number)) if rounded else number


@njit(inline="always")
def exp(x):
    """Return e to the power of x, for x of at most 87. Source: expf of Cephes (polynomial, two parts of ln 2)."""
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
def ordered_bits(bits):
    """Map the bits of a float to an integer with the same order, or back."""
    return np.int32(bits ^ np.int32((bits >> np.int32(31)) & np.int32(0x7FFFFFFF)))


@internal()
def copy(source, destination):
    """Copy an array element by element. The error handling of array assignment would take seconds to compile."""
    for i in range(len(source)):
        destination[i] = source[i]


@njit(inline="always")
def read_numbers(source, destination, count, rounded):
    """Copy `count` numbers between addresses and convert them to float32. The source is bfloat16 if `rounded`."""
    out = carray(floats_at(destination), count)
    for i in range(count):
        out[i] = to_float32(bfloat16_at(source)[i]) if rounded else floats_at(source)[i]


@njit(inline="always")
def store_numbers(source, destination, count, rounded):
    """Copy `count` float32 numbers between addresses. Round them to bfloat16 if `rounded`."""
    numbers = carray(floats_at(source), count)
    for i in range(count):
        if rounded:
            bfloat16_at(destination)[i] = to_bfloat16(numbers[i])
        else:
            floats_at(destination)[i] = numbers[i]


@njit(inline="always")
def maximum(numbers):
    """Return the maximum of float32 numbers without NaN. It compares integers, which LLVM vectorizes, unlike floats."""
    top = np.int32(-(1 << 31))
    for i in range(len(numbers)):
        number = ordered_bits(np.int32(as_bits(numbers[i])))
        top = number if number > top else top
    return as_float(np.uint32(ordered_bits(top)))


@njit(inline="always")
def max_abs(numbers):
    """Return the largest absolute value of float32 numbers, by the same method."""
    top = np.int32(0)
    for i in range(len(numbers)):
        number = np.int32(np.int32(as_bits(numbers[i])) & np.int32(0x7FFFFFFF))
        top = number if number > top else top
    return as_float(np.uint32(top))
