"""Llama's passes, each one compiled call (`whole_pass`), for target and drafters on a CPU.

The arithmetic and the order of roundings are those of `transformers.models.llama`. The order of every sum is independent of what
else a pass computes (`elementwise`): a token has the same bits in a prompt, a chain, a tree or a single step. A drafter's weights
may be kept in eight bits, because its drafts are verified. `model.modules` computes models that are not plain Llamas.
"""

from __future__ import annotations

import copy
from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np
import torch

from ..core import parallel
from ..core.lm import DraftTree
from ..model.cache import NOTHING
from ..model.forward import EVERY, Forward, Part
from ..model.shape import Shape
from . import attend, chain, heads, whole_pass
from .cache import CompiledCache
from .llama_weights import Weights
from .product import Product, addresses, stored
from .records import ALONE, Caches, Columns, Kernels, Outputs, PackedWeights, Rows, Sizes, Step
from .rotary import SPARE_POSITIONS, RotaryTables

if TYPE_CHECKING:
    from transformers import PreTrainedModel

LONG = 16  # rows a core at least, of a text that several read


def prepare(dtype: torch.dtype) -> None:
    """Compile what passes in a number format need: seconds, where it has not been done before."""
    whole_pass.addresses(stored(dtype))
    attend.move()


class Llama(Forward):
    """`source` makes transformers' model of the same weights when it is needed; with `int8` products have weights in eight bits."""

    batch_invariant = batches = True

    @torch.inference_mode()
    def __init__(
        self, shape: Shape, weights: Weights, source: Callable[[Llama], PreTrainedModel], int8: bool = False,
        shared: dict[tuple[int, bool], Product] | None = None,
    ):  # fmt: skip
        self.shape, self.weights, self.int8, self._source = shape, weights, int8, source
        self._shared = {} if shared is None else shared  # by weight, and whether in eight bits
        self._rotary = RotaryTables(
            weights.inv_freq, self.dtype, shape.context_length + SPARE_POSITIONS, weights.attention_factor
        )

    # Made with the first pass: of a draft model that is read and then kept in eight bits there is none.
    @cached_property
    def _products(self) -> list[list[Product]]:
        return [[self._product(weight, self.int8) for weight in layer.products] for layer in self.weights.layers]

    @cached_property
    def _head(self) -> Product:
        return self._product(self.tables[1], self.int8)

    @property
    def drafting_head(self) -> Product:
        """The output head in eight bits, for trained heads beside this model."""
        return self._product(self.tables[1], int8=True)

    def _product(self, weight: torch.Tensor, int8: bool) -> Product:
        key = id(weight), int8  # the weights stay as long as the model
        if key not in self._shared:
            self._shared[key] = Product(weight, int8)
        return self._shared[key]

    @property
    def tables(self) -> tuple[torch.Tensor, torch.Tensor]:
        return self.weights.embed, self.weights.head

    @cached_property
    def _sizes(self) -> Sizes:
        shape, first = self.shape, self.weights.layers[0]
        widest = max(weight.shape[1] for weight in (*first.products, self.tables[1]))
        inner = first.gate_up.shape[0] // 2
        return Sizes.of(shape, inner, shape.vocab, widest, self.dtype, self.weights.eps)

    @cached_property
    def _packed(self) -> tuple[Kernels, PackedWeights]:
        return whole_pass.addresses(self._head.stored), PackedWeights(
            self.weights.embed.data_ptr(),
            torch.stack(self.weights.norms).float().numpy(),
            np.empty((self.shape.layers, 0, self.shape.head_dim), np.float32),
            *addresses([*self._products, [self._head] * 4]),
        )

    @cached_property
    def model(self) -> PreTrainedModel:
        return self._source(self)

    @property
    def dtype(self) -> torch.dtype:
        return self.weights.embed.dtype

    @property
    def copies(self) -> int:
        return sum(product.nbytes for row in (*self._products, [self._head]) for product in row)

    @property
    def read_bytes(self) -> int:
        return self.copies + sum(norm.nbytes for norm in self.weights.norms)

    def new_cache(self) -> CompiledCache:
        return CompiledCache(self.shape.layers)

    def parameters(self) -> list[torch.Tensor]:
        return self.weights.parameters()

    def first(self, layers: int) -> Llama:
        short: Any = copy.copy(self)
        for name in ("model", "_packed", "_products"):
            vars(short).pop(name, None)
        short.shape = replace(self.shape, layers=layers)
        short.weights = replace(self.weights, layers=self.weights.layers[:layers])
        return short

    def converted(self, dtype: torch.dtype) -> Llama:
        return self if dtype == self.dtype else Llama(self.shape, self.weights.to(dtype), self._source)

    def for_drafting(self) -> Llama:
        return Llama(self.shape, self.weights, self._source, int8=True, shared=self._shared)

    def lay_out(self, parents, base, first, cache):
        cache.lay_out(base + len(parents))
        return Columns.of(parents, base, first)

    def __call__(self, ids, positions, cache: CompiledCache, rows: Columns, only: slice = EVERY) -> torch.Tensor:
        if isinstance(positions, slice) and positions.start + len(ids) > self._rotary.most:
            # A slice is cut short where an index would be refused.
            raise IndexError("a row lies behind the model's last position")
        if isinstance(positions, slice) and only != EVERY and (parts := parallel.workers(len(ids) // LONG)) > 1:
            return self._in_parts(ids.numpy(), positions.start, cache, rows, only, parts)
        places = positions if isinstance(positions, slice) else rows.positions
        return self._prepared(ids.numpy(), places, [(cache, len(ids))], rows, only)()

    def _in_parts(
        self, ids: np.ndarray, start: int, cache: CompiledCache, rows: Columns, only: slice, parts: int
    ) -> torch.Tensor:
        """A pass over a chain of many rows in so many parts, on a core each: a part is a layer behind the one before it."""
        n, layers = len(ids), self.shape.layers
        cache.states(start, start + n)  # room for all of them, so that what the first parts write into stays
        first, stop, _ = only.indices(n)
        counters = np.zeros(parts, np.int64)
        passes = []
        for part in range(parts):
            begin, end = n * part // parts, n * (part + 1) // parts
            wanted = slice(min(max(first, begin), end) - begin, max(min(stop, end), begin) - begin)
            of_part = Columns(*(array[begin:end] for array in rows))
            counter = counters.ctypes.data + counters.itemsize * part
            step = Step(counter, counter - counters.itemsize if part else 0)
            places = slice(start + begin, start + end)
            passes.append(self._prepared(ids[begin:end], places, [(cache, end - begin)], of_part, wanted, step))

        def run(part: int) -> torch.Tensor:
            try:
                return passes[part]()
            finally:
                counters[part] = layers  # whatever happened, nobody waits for it any more

        return torch.cat(parallel.map_parallel(run, range(parts)))

    def together(self, parts: Sequence[Part]) -> list[torch.Tensor]:
        rows = [len(part.tokens) for part in parts]
        groups = parallel.balanced(rows)
        # Everything is prepared before the first core begins: then they have Python to themselves no more.
        passes = [self._beside([parts[text] for text in group]) for group in groups]
        answers = parallel.map_parallel(lambda run: run().float(), passes)
        by_text = {}
        for group, answer in zip(groups, answers, strict=True):
            by_text.update(zip(group, answer.split([rows[text] for text in group]), strict=True))
        return [by_text[text] for text in range(len(parts))]

    def _beside(self, parts: Sequence[Part]) -> Callable[[], torch.Tensor]:
        """Several texts' rows in one compiled call."""
        ids = np.array([token for part in parts for token in part.tokens])
        rows = Columns.beside([part.rows for part in parts])
        return self._prepared(ids, rows.positions, [(part.cache, len(part.tokens)) for part in parts], rows)

    def _prepared(
        self, ids: np.ndarray, places: slice | np.ndarray, caches: Sequence[tuple[CompiledCache, int]], rows: Columns,
        only: slice = EVERY, step: Step = ALONE,
    ) -> Callable[[], torch.Tensor]:  # fmt: skip
        """A pass over rows of one text or of several, each with its cache and so many of the rows, as soon as it is called:
        logits of those in `only`. `places` are the positions of the rows."""
        shape, n, taps = self.shape, len(ids), caches[0][0].taps
        addresses = np.empty((len(caches), shape.layers, 2), np.int64)
        for of_text, (cache, length) in zip(addresses, caches, strict=True):
            of_text[:] = cache.make_room(length, shape.kv_heads, shape.head_dim, self.dtype)
        rooms = np.array([cache.capacity for cache, _ in caches])
        ends = np.cumsum([length for _, length in caches])
        states = np.zeros(len(caches), np.int64)
        for text, (cache, length) in enumerate(caches if len(taps) else ()):
            start = rows.new[ends[text] - length]
            states[text] = cache.states(start, start + length).data_ptr()
        first, stop, _ = only.indices(n)
        logits = torch.empty(stop - first, shape.vocab, dtype=self.dtype)
        end = places.stop if isinstance(places, slice) else int(places.max()) + 1
        given = Rows(ids, *(table[places] for table in self._rotary.up_to(end)))
        outputs = Outputs(first, stop - first, logits.data_ptr(), taps, states)
        (kernels, weights), stored_at = self._packed, Caches(addresses, rooms, ends)

        def run() -> torch.Tensor:
            whole_pass.forward(kernels, self._sizes, weights, stored_at, given, rows, outputs, step)
            return logits

        return run

    def chain(self, ids, base, cache, request):
        given = self._behind(ids, base, cache, request.most)
        tokens, confidences, *_ = chain.chain(*given, chain.Request.of(request))
        return tokens.tolist(), confidences.tolist()

    def tree(self, ids, base, cache, request, branches, rows):
        given = self._behind(ids, base, cache, rows)
        *grown, read, _, _ = chain.tree(*given, branches, rows, chain.Request.of(request))
        return DraftTree(*(part.tolist() for part in grown), read)

    def _behind(self, ids: Sequence[int], base: int, cache: CompiledCache, drafted: int) -> tuple:
        """What `chain`'s calls take to read ids after `base` cached tokens and draft so many."""
        shape, stop, (kernels, weights) = self.shape, base + len(ids) + drafted, self._packed
        cache.lay_out(stop)
        addresses = cache.make_room(stop - base, shape.kv_heads, shape.head_dim, self.dtype)[None]
        caches, rotations = Caches(addresses, np.array([cache.capacity]), NOTHING), self._rotary.up_to(stop)
        return kernels, self._sizes, weights, caches, np.array(ids), base, rotations, NOTHING

    def head_passes(self, network):
        return heads.passes(network, self)

    def _attention(self, query: torch.Tensor, keys: torch.Tensor, values: torch.Tensor, seen: int) -> torch.Tensor:
        """Attention of one row's query [heads, dim] to the first columns that it has seen."""
        (heads, dim), (kv, room, _) = query.shape, keys.shape
        row, mixed = Columns.of([-1], seen - 1), torch.empty(heads, dim)
        scratch = torch.empty(attend.scratch_floats(1, heads, kv, seen, dim))
        attend.attend().ctypes(
            query.data_ptr(), heads * dim, keys.data_ptr(), values.data_ptr(), room, dim, mixed.data_ptr(),
            scratch.data_ptr(), seen, row.straight.ctypes.data, row.branch.ctypes.data, 1, row.counts.ctypes.data,
            1, heads, kv, self._sizes.rounded, self._sizes.scaling,
        )  # fmt: skip
        return mixed

    def parts(self, cached):
        shape, n = self.shape, cached + 1
        cache = self.new_cache()
        rows = self.lay_out(range(-1, n - 1), 0, 0, cache)
        self(torch.ones(n, dtype=torch.long), slice(0, n), cache, rows, slice(0, 1))
        query, x = torch.ones(shape.heads, shape.head_dim), torch.ones(1, shape.hidden)
        products = [product for layer in self._products for product in layer]
        rooms = [(torch.ones(1, product.size), torch.empty(1, product.width)) for product in products]
        bound = [product.bound(x, y) for product, (x, y) in zip(products, rooms, strict=True)]
        return (
            lambda: [multiply() for multiply in bound] and rooms,
            lambda: [self._attention(query, layer.keys[0], layer.values[0], n) for layer in cache.layers],
            lambda: self._head(x),
        )
