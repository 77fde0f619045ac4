"""The operators of a pass, one by one: which of them change a row's bits with its company, and from how many rows on.

A kernel that adds a row's terms in another order when there are more rows, or more keys, rounds otherwise. In a model's
logits that shows rarely (a sum of bfloat16 products is kept in 24 bits and given back in 8), so comparing logits needs
thousands of rows to find it. Here every operator is given numbers whose sum is exactly zero: for every product there is
one of the opposite sign elsewhere in the row. All that is left of such a sum is rounding, and another order of adding
gives other bits in nearly every number, at the first try.

Operators are taken with the shapes, strides and number format of a model, and as its pass calls them. Elementwise ones
and norms, which have no signs to play with, are given random numbers and compared before they are rounded.

Knows tensors and a model's shapes. It does not know text, caches or what a row limit is good for.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import lru_cache

import torch
from torch.nn.functional import linear

from ..model import attention
from ..model.attention import WIDEST
from ..model.cache import BLOCK, room_for
from ..model.forward import Forward, Product
from ..model.shape import Shape

SOME = (1, 2, 3, 4, 8, 9, 16, 17, 24, 31, 32, 33, 48, 64)  # of them, where all would take long
LARGE = 4_000_000  # numbers in a weight from which on only some are looked at
TILES = (2, 32, 128)  # keys that kernels add at once, smallest first
BEYOND = (0, 128, 1024)  # further columns that the branches of a tree may need
MEANT = (100, 450, 1000, 1900)  # cached keys behind which attention is looked at: before and after its kernels change


@dataclass(frozen=True, slots=True)
class Operator:
    """One operator of a pass. `run(rows, columns)` computes those rows [rows, ...] with buffers of so many columns.

    `keys` is how many of the columns count, 0 where there are none; `columns` are the lengths to compare.
    """

    name: str
    run: Callable[[slice, int], torch.Tensor]
    rows: Sequence[int] = tuple(range(1, WIDEST + 1))
    keys: int = 0
    columns: tuple[int, ...] = (0,)


@dataclass(frozen=True, slots=True)
class Reach:
    """How far an operator's rows keep their bits: passes of `least` to `most` rows, and `columns` of keys at most.

    `least` is 1 where a lone row has the bits that it has in company, 2 where any two rows have. `most` is 1 where rows
    depend on their number in any case.
    """

    name: str
    keys: int
    least: int
    most: int
    columns: int
    asked: int  # columns up to which it was compared


@torch.inference_mode()
def reach(operator: Operator) -> Reach:
    """Compare every row count and buffer length with rows computed alone, and with rows computed two by two."""
    first = operator.columns[0]
    alone = [operator.run(slice(i, i + 1), first) for i in range(WIDEST)]
    for least in (1, 2):
        if least == 2:  # a kernel of its own for a single row
            pairs = [operator.run(slice(i, i + 2), first) for i in range(0, WIDEST, 2)]
            alone = [row[None] for pair in pairs for row in pair]
        wanted = torch.cat(alone)
        counts = [n for n in operator.rows if n >= least]
        most = _most(operator, first, counts, wanted)
        if most > least:
            break
    else:
        return Reach(operator.name, operator.keys, 1, 1, 0, operator.columns[-1])
    reached = first
    for columns in operator.columns[1:]:
        now = _most(operator, columns, [n for n in SOME if n >= least], wanted)
        if now <= least:
            break
        most, reached = min(most, now), columns
    return Reach(operator.name, operator.keys, least, most, reached, operator.columns[-1])


def _most(operator: Operator, columns: int, counts: Sequence[int], wanted: torch.Tensor) -> int:
    """The largest of the row counts up to which all have the wanted bits; 1 if not even the first has."""
    most = 1
    for n in counts:
        if not torch.equal(operator.run(slice(0, n), columns), wanted[:n]):
            break
        most = n
    return most


@dataclass(frozen=True, slots=True)
class Kernels:
    """What a pass computes with: a number format, and how its products are made (None: all as the passes do, else with
    torch's attention). `natural` gives operators ordinary numbers to work on."""

    dtype: torch.dtype
    form: Callable[[torch.Tensor], Product] | None = None
    natural: bool = False

    @classmethod
    def of(cls, passes: Forward) -> Kernels:
        """Those of a model's passes."""
        return cls(passes.dtype)


def of(passes: Forward, kernels: Kernels) -> Iterator[Operator]:
    """The operators of a model's pass, in order."""
    shape, draw = passes.shape, torch.Generator().manual_seed(0)
    size = (WIDEST, shape.hidden)
    x = (torch.randn(size, generator=draw) * _scales(size, draw)).to(kernels.dtype)
    yield Operator("norm", lambda rows, _: passes.norm(x[rows]))
    products = _products(passes, kernels, draw)
    yield next(products)
    for keys in (n for n in MEANT if n < shape.context_length or n == MEANT[0]):
        whole = None if kernels.form else _whole_attention(passes, kernels, keys, draw)
        yield from [whole] if whole else _attention(shape, kernels, keys, draw)
    yield from products
    gate, up = (torch.randn(WIDEST, shape.hidden * 4, generator=draw).to(kernels.dtype) for _ in range(2))
    yield Operator("activation", lambda rows, _: passes.activation(gate[rows]) * up[rows])


@torch.inference_mode()
def units(operator: Operator, rows: int) -> int:
    """By how much a row differs at most between a pass of so many rows and alone, in units in the last place of the row's
    largest number, rounded up."""
    columns = operator.columns[0]
    many = operator.run(slice(0, rows), columns)
    alone = torch.cat([operator.run(slice(i, i + 1), columns) for i in range(rows)])
    largest = alone.flatten(1).double().abs().amax(1).clamp_min(torch.finfo(alone.dtype).tiny)
    unit = torch.exp2(largest.log2().floor()) * torch.finfo(alone.dtype).eps
    return math.ceil(float(((many.double() - alone.double()).flatten(1).abs().amax(1) / unit).max()))


def _products(passes: Forward, kernels: Kernels, draw: torch.Generator) -> Iterator[Operator]:
    """Every product of another shape, as the pass computes it."""
    for (width, size), form in dict.fromkeys(passes.products()):
        x, weight = _cancelling(WIDEST, width, size, kernels, draw)
        multiply = (kernels.form or form)(weight)
        counts = SOME if weight.numel() > LARGE else tuple(range(1, WIDEST + 1))
        name = "head" if width == passes.shape.vocab else "product"
        yield Operator(f"{name} {size} x {width}", lambda rows, _, x=x, multiply=multiply: multiply(x[rows]), counts)


def a_product(dtype: torch.dtype) -> Operator:
    """A product of no model in particular, to see what a number format is worth on this processor."""
    x, weight = _cancelling(WIDEST, 256, 320, Kernels(dtype), torch.Generator().manual_seed(0))
    return Operator("product 320 x 256", lambda rows, _: linear(x[rows], weight), (1, 2, 3, 8, 16))


def _attention(shape: Shape, kernels: Kernels, keys: int, draw: torch.Generator) -> Iterator[Operator]:
    """Scores, softmax and the product with the values behind so many keys."""
    heads, kv_heads, dim = shape.heads, shape.kv_heads, shape.head_dim
    dtype = kernels.dtype
    least = room_for(keys)
    columns = tuple(least + further for further in BEYOND)
    group = heads // kv_heads

    @lru_cache(maxsize=1)
    def first(buffer: torch.Tensor, n: int) -> torch.Tensor:
        return buffer[:, :, :n].contiguous()

    turned = lambda t: t.reshape(kv_heads, WIDEST, group, -1).transpose(1, 2).reshape(heads, WIDEST, -1)  # noqa: E731
    pairs = [_cancelling(WIDEST * group, columns[-1], dim, kernels, draw) for _ in range(kv_heads)]
    query = turned(torch.stack([x for x, _ in pairs]))[None]
    key = torch.stack([w for _, w in pairs])[None]
    yield Operator(
        "scores",
        lambda rows, n: attention._scores(query[:, :, rows], first(key, n), 1.0, None)[
            0, :, :, :least
        ].transpose(0, 1),
        SOME, keys, columns,
    )  # fmt: skip
    scores = torch.full((1, heads, WIDEST, columns[-1]), torch.finfo(dtype).min, dtype=dtype)
    scores[..., :keys] = 4 * torch.randn(1, heads, WIDEST, keys, generator=draw).to(dtype)
    yield Operator(
        "softmax",
        lambda rows, n: torch.softmax(scores[:, :, rows, :n], -1, dtype=torch.float32)[0, :, :, :least].transpose(0, 1),
        SOME, keys, columns,
    )  # fmt: skip
    pairs = [_cancelling(WIDEST * group, dim, keys, kernels, draw) for _ in range(kv_heads)]
    weights = torch.zeros(1, heads, WIDEST, columns[-1], dtype=dtype)
    weights[..., :keys] = turned(torch.stack([x for x, _ in pairs]))[None]
    value = torch.zeros(1, kv_heads, columns[-1], dim, dtype=dtype)
    value[:, :, :keys] = torch.stack([w.t() for _, w in pairs])[None]
    yield Operator(
        "values",
        lambda rows, n: attention._mixed(weights[:, :, rows, :n].contiguous(), first(value, n))[
            0
        ].transpose(0, 1),
        SOME, keys, columns,
    )  # fmt: skip


def _whole_attention(passes: Forward, kernels: Kernels, keys: int, draw: torch.Generator) -> Operator | None:
    """Attention behind so many keys where it is one operator of the pass."""
    shape = passes.shape
    columns = tuple(room_for(keys) + further for further in BEYOND)
    query = torch.randn(WIDEST, shape.heads, shape.head_dim, generator=draw)
    key, value = (
        torch.randn(shape.kv_heads, columns[-1], shape.head_dim, generator=draw).to(kernels.dtype) for _ in range(2)
    )
    if passes.attention(query[:1], key, value, keys) is None:
        return None
    run = lambda rows, n: passes.attention(query[rows], key[:, :n].contiguous(), value[:, :n].contiguous(), keys)  # noqa: E731
    return Operator("attention", run, SOME, keys, columns)


@torch.inference_mode()
def tile(shape: Shape, kernels: Kernels) -> int | None:
    """By how many keys the product with the values adds: a gap of whole tiles leaves the bits alone. None: no such size."""
    dtype, draw = kernels.dtype, torch.Generator().manual_seed(1)
    keys, columns = 2 * TILES[-1], 8 * BLOCK
    pairs = [
        _cancelling(shape.heads // shape.kv_heads, shape.head_dim, keys, kernels, draw) for _ in range(shape.kv_heads)
    ]
    x = torch.cat([x for x, _ in pairs])[None, :, None]
    w = torch.stack([w.t() for _, w in pairs])[None]

    def mixed(gap: int, at: int, rows: int) -> torch.Tensor:
        """The product with a gap of columns before column `at`."""
        weights = torch.zeros(1, shape.heads, rows, columns, dtype=dtype)
        value = torch.zeros(1, shape.kv_heads, columns, shape.head_dim, dtype=dtype)
        for start, stop, to in ((0, at, 0), (at, keys, at + gap)):
            weights[..., to : to + stop - start] = x[..., start:stop]
            value[:, :, to : to + stop - start] = w[:, :, start:stop]
        return attention._mixed(weights, value)[:, :, 0]

    wanted = {rows: mixed(0, 0, rows) for rows in (2, 9)}
    for size in TILES:
        places = [(gap, at) for gap in range(size, columns - keys, size) for at in range(0, keys, max(size, 16))]
        some = places[:: max(1, len(places) // 64)]
        if all(torch.equal(mixed(gap, at, rows), wanted[rows]) for gap, at in some for rows in wanted):
            return size
    return None


def _cancelling(rows: int, width: int, size: int, kernels: Kernels, draw) -> tuple[torch.Tensor, torch.Tensor]:
    """x [rows, size] and a weight [width, size] whose product is exactly 0 but for rounding; ordinary ones if `natural`."""
    dtype = kernels.dtype
    if kernels.natural:
        return torch.randn(rows, size, generator=draw).to(dtype), torch.randn(width, size, generator=draw).to(dtype)
    half = size // 2
    x, w = ((torch.randn(n, half, generator=draw) * _scales((n, half), draw)).to(dtype) for n in (rows, width))
    order = torch.randperm(2 * half, generator=draw)
    x, w = torch.cat([x, x], 1)[:, order], torch.cat([w, -w], 1)[:, order]
    if size % 2:
        x, w = (torch.cat([t, torch.zeros(len(t), 1, dtype=dtype)], 1) for t in (x, w))
    return x.contiguous(), w.contiguous()


def _scales(shape: tuple[int, ...], draw: torch.Generator) -> torch.Tensor:
    """Powers of two over twelve binary orders, so that sums do not fit their 24 bits."""
    return torch.exp2(torch.randint(-6, 7, shape, generator=draw).float())
