"""Llama's passes, each one compiled call (`llama_pass`), on a CPU.

The arithmetic and the order of roundings are those of `transformers.models.llama`. Similar models have further weights,
factors, or layers with a window or without positions (`llama_weights.Weights`). The order of each sum is independent
of the other rows of a pass (`elementwise`). So a token has the same bits in a prompt, a chain, a tree or a single step.
A drafter's weights may have eight bits, because its drafts are verified. `model.modules` computes all other models.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Sequence
from dataclasses import replace
from functools import cached_property
from typing import TYPE_CHECKING

import numpy as np
import torch
from torch.nn.functional import pad

from ..core import parallel
from ..core.lm import DraftTree
from ..model.cache import NOTHING
from ..model.forward import ALL_ROWS, Forward, Part, Rollback
from ..model.shape import Shape
from . import attend, draft, heads, llama_pass
from .cache import CompiledCache
from .llama_weights import Weights
from .product import Product, addresses, storage_format
from .records import NOT_PIPELINED, Caches, Columns, Kernels, Outputs, PackedWeights, Pipeline, Rows, Sizes
from .rotary import SPARE_POSITIONS, RotaryTables
from .team import TEAM
from .vectors import BLOCK

if TYPE_CHECKING:
    from transformers import PreTrainedModel

PART_ROWS = 16  # the fewest rows per core in pipelined prefill
SHARED_ROWS = 8  # with fewer rows per core, the cores share the weights of a batch's pass instead of its texts


def _padded(bias: torch.Tensor | None) -> np.ndarray | None:
    """Return a bias as float32, with zeros up to a full block of outputs."""
    return None if bias is None else pad(bias.float(), (0, -len(bias) % BLOCK)).numpy()


def prepare(
    dtype: torch.dtype,
    report: Callable[[int, int], None] = lambda done, count: None,
    drafters: Collection[str] | None = None,
) -> None:
    """Compile the functions that passes in a number format and these drafters need. Takes seconds the first time."""
    from .first_start import compile_all

    compile_all(dtype, report, drafters)
    llama_pass.addresses(storage_format(dtype))
    attend.move_columns()


def begin(dtype: torch.dtype, drafters: Collection[str]) -> None:
    """Begin the compilation for `prepare` in other processes."""
    from . import first_start

    first_start.begin(dtype, drafters)


def prepare_deferred(dtype: torch.dtype) -> Iterator[None]:
    """Compile the functions of the drafters that `prepare` left out; see `compile_deferred`."""
    from .first_start import compile_deferred

    return compile_deferred(dtype)


class Llama(Forward):
    """The compiled passes of a Llama. `source` builds transformers' model if needed. If `int8`, weights are 8-bit."""

    batch_invariant = batches = True

    @torch.inference_mode()
    def __init__(
        self, shape: Shape, weights: Weights, source: Callable[[Llama], PreTrainedModel], int8: bool = False,
        shared: dict[tuple[int, bool], Product] | None = None,
    ):  # fmt: skip
        self.shape, self.weights, self.int8, self._source = shape, weights, int8, source
        self._shared = {} if shared is None else shared  # keys: the weight's id, and whether in eight bits
        positions = shape.context_length + SPARE_POSITIONS
        self._rotary = RotaryTables(weights.inv_freq, self.dtype, positions, weights.attention_factor)

    # Packed at the first pass, which never happens if the model only serves to build an 8-bit draft model.
    @cached_property
    def _products(self) -> list[list[Product]]:
        return [[self._product(weight, self.int8) for weight in layer.products] for layer in self.weights.layers]

    @cached_property
    def _head(self) -> Product:
        return self._product(self.tables[1], self.int8)

    @property
    def drafting_head(self) -> Product:
        """The output head in eight bits, for trained heads of this model."""
        return self._product(self.tables[1], int8=True)

    def _product(self, weight: torch.Tensor, int8: bool) -> Product:
        key = id(weight), int8  # ids stay valid because the model keeps its weights
        if key not in self._shared:
            self._shared[key] = Product(weight, int8)
        return self._shared[key]

    @property
    def tables(self) -> tuple[torch.Tensor, torch.Tensor]:
        return self.weights.embed, self.weights.head

    @cached_property
    def _sizes(self) -> Sizes:
        shape, first = self.shape, self.weights.layers[0]
        max_inputs = max(weight.shape[1] for weight in (*first.products, self.tables[1]))
        inner = first.gate_up.shape[0] // 2
        return Sizes.from_shape(
            shape, inner, shape.vocab, max_inputs, self.dtype, self.kv_storage, self.weights.eps, self.weights.factors
        )

    @cached_property
    def _biases(self) -> list[list[np.ndarray | None]]:
        """The biases of each layer's products in the layout of their results."""
        return [[_padded(bias) for bias in layer.biases] for layer in self.weights.layers]

    @cached_property
    def _packed(self) -> tuple[Kernels, PackedWeights]:
        weights, layers, dim = self.weights, self.shape.layers, self.shape.head_dim
        head_norms = [norm.float().numpy() for layer in weights.layers for norm in layer.head_norms]
        biases = [[0 if bias is None else bias.ctypes.data for bias in layer] for layer in self._biases]
        return llama_pass.addresses(self._head.storage), PackedWeights(
            weights.embed.data_ptr(),
            torch.stack(weights.norms).float().numpy(),
            np.array(head_norms, np.float32).reshape(layers, -1, dim),
            *addresses([*self._products, [self._head] * 4]),
            np.array([*biases, [0] * 4]),
            np.array([[layer.window, not layer.rotated] for layer in weights.layers], np.int64),
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
    def rollback(self) -> Rollback:
        return Rollback(self.shape.layers, windows=sum(layer.window > 0 for layer in self.weights.layers))

    @property
    def read_bytes(self) -> int:
        tensors = [self.weights.norm, *(tensor for layer in self.weights.layers for tensor in layer.tensors.values())]
        return self.copies + sum(tensor.nbytes for tensor in tensors if tensor.dim() == 1)

    @property
    def kv_storage(self) -> int:
        """The storage format of keys and values."""
        return attend.kv_storage(self.shape, self.dtype)

    def new_cache(self) -> CompiledCache:
        return CompiledCache(self.shape.layers, self.kv_storage)

    def parameters(self) -> list[torch.Tensor]:
        return self.weights.parameters()

    def first(self, layers: int) -> Llama:
        shape, weights = replace(self.shape, layers=layers), replace(self.weights, layers=self.weights.layers[:layers])
        return Llama(shape, weights, self._source, self.int8, self._shared)

    def converted(self, dtype: torch.dtype) -> Llama:
        return self if dtype == self.dtype else Llama(self.shape, self.weights.to(dtype), self._source)

    def for_drafting(self) -> Llama:
        return Llama(self.shape, self.weights, self._source, int8=True, shared=self._shared)

    def prepare_rows(self, parents, base, first, cache):
        cache.ensure_capacity(base + len(parents))
        return Columns.from_parents(parents, base, first)

    def __call__(self, ids, positions, cache: CompiledCache, rows: Columns, only: slice = ALL_ROWS) -> torch.Tensor:
        if isinstance(positions, slice) and positions.start + len(ids) > self._rotary.max_positions:
            # numpy truncates slices but raises for indices out of range.
            raise IndexError("a row is after the model's last position")
        if isinstance(positions, slice) and only != ALL_ROWS and (parts := parallel.workers(len(ids) // PART_ROWS)) > 1:
            return self._pipelined_prefill(ids.numpy(), positions.start, cache, rows, only, parts)
        row_positions = positions if isinstance(positions, slice) else rows.positions
        return self._prepare_pass(ids.numpy(), row_positions, [(cache, len(ids))], rows, only)()

    def _pipelined_prefill(
        self, ids: np.ndarray, start: int, cache: CompiledCache, rows: Columns, only: slice, parts: int
    ) -> torch.Tensor:
        """Read a chain in parts, a core each. A part computes a layer when the previous part has stored its keys."""
        n, layers = len(ids), self.shape.layers
        cache.states(start, start + n)  # allocates all rows, so that the parts' memory does not move later
        first, stop, _ = only.indices(n)
        counters, passes = np.zeros(parts, np.int64), []
        for part in range(parts):
            begin, end = n * part // parts, n * (part + 1) // parts
            part_only = slice(min(max(first, begin), end) - begin, max(min(stop, end), begin) - begin)
            part_columns = Columns(*(array[begin:end] for array in rows))
            counter = counters.ctypes.data + counters.itemsize * part
            pipeline = Pipeline(counter, counter - counters.itemsize if part else 0)
            positions, caches = slice(start + begin, start + end), [(cache, end - begin)]
            passes.append(self._prepare_pass(ids[begin:end], positions, caches, part_columns, part_only, pipeline, 1))

        def run(part: int) -> torch.Tensor:
            try:
                return passes[part]()
            finally:
                counters[part] = layers  # also after an error, so that no other part waits

        return torch.cat(parallel.map_parallel(run, range(parts)))

    def forward_batch(self, parts: Sequence[Part]) -> list[torch.Tensor]:
        rows = [len(part.tokens) for part in parts]
        groups, threads = parallel.balanced(rows), 1
        if sum(rows) < SHARED_ROWS * len(groups):
            groups, threads = [[*range(len(parts))]], TEAM.hire(len(groups))
        # All passes are prepared before the first starts, because threads then compete for the GIL.
        passes = [self._batched_pass([parts[text] for text in group], threads) for group in groups]
        results = parallel.map_parallel(lambda run: run().float(), passes)
        by_text = {}
        for group, logits in zip(groups, results, strict=True):
            by_text.update(zip(group, logits.split([rows[text] for text in group]), strict=True))
        return [by_text[text] for text in range(len(parts))]

    def _batched_pass(self, parts: Sequence[Part], threads: int) -> Callable[[], torch.Tensor]:
        """Prepare one compiled call for the rows of several texts."""
        ids = np.array([token for part in parts for token in part.tokens])
        rows = Columns.from_texts([part.rows for part in parts])
        caches = [(part.cache, len(part.tokens)) for part in parts]
        return self._prepare_pass(ids, rows.positions, caches, rows, threads=threads)

    def _prepare_pass(
        self, ids: np.ndarray, positions: slice | np.ndarray, caches: Sequence[tuple[CompiledCache, int]], rows: Columns,
        only: slice = ALL_ROWS, pipeline: Pipeline = NOT_PIPELINED, threads: int = 0,
    ) -> Callable[[], torch.Tensor]:  # fmt: skip
        """Return a function that computes a pass over rows of one or several texts.

        It returns the logits of the rows in `only`. Each text has a cache and a number of rows (`caches`). `positions`
        are the positions of the rows, and `threads` is that of `Kernels`.
        """
        shape, n, taps = self.shape, len(ids), caches[0][0].taps
        addresses = np.empty((len(caches), shape.layers, 2), np.int64)
        for text_addresses, (cache, length) in zip(addresses, caches, strict=True):
            text_addresses[:] = cache.reserve(length, shape.kv_heads, shape.head_dim, self.dtype)
        capacities = np.array([cache.capacity for cache, _ in caches])
        ends = np.cumsum([length for _, length in caches])
        states = np.zeros(len(caches), np.int64)
        for text, (cache, length) in enumerate(caches if len(taps) else ()):
            start = rows.new[ends[text] - length]
            states[text] = cache.states(start, start + length).data_ptr()
        first, stop, _ = only.indices(n)
        logits = torch.empty(stop - first, shape.vocab, dtype=self.dtype)
        end = positions.stop if isinstance(positions, slice) else int(positions.max()) + 1
        pass_rows = Rows(ids, *(table[positions] for table in self._rotary.up_to(end)))
        outputs = Outputs(first, stop - first, logits.data_ptr(), taps, states)
        (kernels, weights), pass_caches = self._packed, Caches(addresses, capacities, ends)
        kernels = kernels._replace(threads=threads)

        def run() -> torch.Tensor:
            llama_pass.forward(kernels, self._sizes, weights, pass_caches, pass_rows, rows, outputs, pipeline)
            return logits

        return run

    def tree(self, ids, base, cache, request, branches, rows):
        shape, stop, (kernels, weights) = self.shape, base + len(ids) + rows, self._packed
        cache.ensure_capacity(stop)
        addresses = cache.reserve(stop - base, shape.kv_heads, shape.head_dim, self.dtype)[None]
        caches, text = Caches(addresses, np.array([cache.capacity]), NOTHING), (np.array(ids), base)
        compiled = draft.CompiledRequest.from_request(request)
        *arrays, read, _, _ = draft.tree(
            kernels, self._sizes, weights, caches, *text, self._rotary.up_to(stop), NOTHING, branches, rows, compiled
        )
        return DraftTree(*(array.tolist() for array in arrays), read)

    def head_passes(self, network):
        return heads.passes(network, self)

    def _attention(
        self, query: torch.Tensor, keys: torch.Tensor, values: torch.Tensor, columns: int, window: int
    ) -> torch.Tensor:
        """Compute attention of one row's query [heads, dim] to the first `columns` columns."""
        (heads, dim), (kv, capacity, _) = query.shape, keys.shape
        row, output = Columns.from_parents([-1], columns - 1), torch.empty(heads, dim)
        scratch = torch.empty(attend.scratch_floats(1, heads, kv, columns, dim))
        attend.attend().ctypes(
            query.data_ptr(), heads * dim, keys.data_ptr(), values.data_ptr(), capacity, dim, output.data_ptr(),
            scratch.data_ptr(), columns, row.prefix.ctypes.data, row.branch.ctypes.data, 1, row.counts.ctypes.data,
            1, heads, kv, 0, kv, window, self._sizes.kv_storage, self._sizes.scaling,
        )  # fmt: skip
        return output

    def parts(self, cached):
        shape, n = self.shape, cached + 1
        cache = self.new_cache()
        rows = self.prepare_rows(range(-1, n - 1), 0, 0, cache)
        self(torch.ones(n, dtype=torch.long), slice(0, n), cache, rows, slice(0, 1))
        query, x = torch.ones(shape.heads, shape.head_dim), torch.ones(1, shape.hidden)
        products = [product for layer in self._products for product in layer]
        buffers = [(torch.ones(1, product.in_features), torch.empty(1, product.width)) for product in products]
        calls = [product.bind(x, y) for product, (x, y) in zip(products, buffers, strict=True)]
        return (
            lambda: [multiply() for multiply in calls] and buffers,
            lambda: [
                self._attention(query, layer.keys[0], layer.values[0], n, weights.window)
                for layer, weights in zip(cache.layers, self.weights.layers, strict=True)
            ],
            lambda: self._head(x),
        )
