"""Passes on a GPU as CUDA graphs: the kernels of a pass are captured once per row count and then launched together.

A pass of few rows over a small model spends most of its time launching kernels one by one from Python. A graph launches them in
one call, but always with the same shapes and addresses. Therefore:

- There are few row counts (`ROWS`). A pass is padded with rows whose results are dropped.
- The inputs of a pass (ids, positions, columns, mask) are copied into static tensors.
- Keys and values have static buffers, which are replaced only by longer ones. A later lane reuses the buffers and their graphs.

The same graph computes the hidden states for trained heads.

Source: "CUDA graphs" in PyTorch's notes on CUDA semantics. Tests trace the passes on a CPU, which fixes tensors in the same way.
"""

from __future__ import annotations

import weakref
from collections.abc import Callable, Sequence
from functools import lru_cache
from typing import Any, NamedTuple

import torch
from transformers import DynamicCache
from transformers.cache_utils import DynamicLayer

from ..core.tree import ancestor_mask, is_chain
from .cache import KeyValueCache
from .forward import ALL_ROWS
from .modules import Modules

ROWS = (1, 2, 4, 8, 16, 32, 64)  # a pass with more rows, such as a prompt's, is launched kernel by kernel
SHORTEST = 1024  # columns of the shortest buffers; each next size is twice as long
WARM = 2  # passes before a capture, in which libraries choose and prepare kernels


class Output(NamedTuple):
    """Logits [rows, vocab] of a pass, and hidden states [1, rows, hidden] before the first layer and after each layer."""

    logits: torch.Tensor
    hidden_states: Sequence[torch.Tensor] = ()


Run = Callable[[], Output]
Capture = Callable[[Run], Run]  # returns a function that repeats a computation over static tensors in one launch


def capture(run: Run) -> Run:
    """Capture the kernels of `run` on the current GPU as a graph. Its output tensors are the same in every replay."""
    side_stream = torch.cuda.Stream()
    side_stream.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(side_stream):
        for _ in range(WARM):
            run()
    torch.cuda.current_stream().wait_stream(side_stream)
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph, pool=_memory_pool(torch.cuda.current_device())):
        out = run()

    def replay() -> Output:
        graph.replay()
        return out

    return replay


@lru_cache
def _memory_pool(device: int) -> Any:
    """Return the memory pool of a GPU's graphs. They share it, as they never overlap and no result outlives a pass."""
    return torch.cuda.graph_pool_handle()


class Visible(NamedTuple):
    """The columns that rows attend to: all `base` cached tokens, and the rows where `rows` [rows, all rows] is True."""

    base: int
    rows: torch.Tensor


class _Inputs(NamedTuple):
    """The inputs of a pass: ids, positions and columns [rows], and the additive mask [1, 1, rows, capacity]."""

    ids: torch.Tensor
    positions: torch.Tensor
    columns: torch.Tensor
    mask: torch.Tensor


class _Buffers:
    """Keys and values [1, kv heads, capacity, head dim] of every layer, and their graphs by row count."""

    def __init__(self, passes: Modules, capacity: int):
        self.capacity, self._dtype, self._device = capacity, passes.dtype, passes.device
        self.layers = [_Layer(self) for _ in range(passes.rollback.keys)]
        self.dynamic = DynamicCache(config=passes.model.config)
        self.dynamic.layers = self.layers
        self.graphs: dict[int, tuple[_Inputs, Run]] = {}
        self.columns = torch.zeros(0)  # of the current pass

    def new_inputs(self, rows: int) -> _Inputs:
        """Return new input tensors for a pass of this many rows."""
        numbers = (torch.zeros(rows, dtype=torch.long, device=self._device) for _ in range(3))
        return _Inputs(*numbers, torch.zeros(1, 1, rows, self.capacity, dtype=self._dtype, device=self._device))


class _Layer(DynamicLayer):
    """A layer of transformers' cache. New keys and values are written to the columns of the pass; all columns are returned."""

    def __init__(self, buffers: _Buffers):
        super().__init__()
        self._buffers = buffers

    def update(self, key_states, value_states, *args, **kwargs):
        if self.keys is None:  # the first pass determines the number and the width of the heads
            (_, heads, _, dim), capacity = key_states.shape, self._buffers.capacity
            self.keys = key_states.new_zeros(1, heads, capacity, dim)
            self.values = value_states.new_zeros(1, heads, capacity, value_states.shape[3])
        self.keys.index_copy_(2, self._buffers.columns, key_states)
        self.values.index_copy_(2, self._buffers.columns, value_states)
        return self.keys, self.values

    def get_seq_length(self) -> int:
        return 0  # not used, because a pass has explicit positions


class _Cache(KeyValueCache):
    """A cache over buffers of a pool. They return to the pool when the cache is garbage-collected."""

    def __init__(self, passes: CudaGraphs, layers: int):
        super().__init__(layers)
        self._passes = passes
        self._acquire(SHORTEST)

    @torch.inference_mode()
    def _acquire(self, capacity: int) -> None:
        """Use buffers of `capacity` columns from now on; copy the cached tokens."""
        self.buffers = self._passes.acquire(capacity)
        for layer, buffers in zip(self.layers, self.buffers.layers, strict=True):
            layer.move(buffers.keys, buffers.values)
        self._release = weakref.finalize(self, self._passes.free.append, self.buffers)
        self._release.atexit = False
        self.capacity = capacity

    def ensure_capacity(self, columns: int) -> None:
        capacity = self.capacity
        while capacity < columns:
            capacity *= 2
        if capacity > self.capacity:
            release_old = self._release
            self._acquire(capacity)
            release_old()


class CudaGraphs(Modules):
    """The passes of a transformers model on one GPU, captured as graphs. Tests replace `capture`."""

    def __init__(self, passes: Modules, capture: Capture = capture):
        super().__init__(passes.model)
        self._capture = capture
        self.free: list[_Buffers] = []

    @torch.inference_mode()
    def acquire(self, capacity: int) -> _Buffers:
        """Return free buffers of `capacity` columns, or new ones with a captured graph for every row count."""
        for buffers in self.free:
            if buffers.capacity == capacity:
                self.free.remove(buffers)
                return buffers
        buffers = _Buffers(self, capacity)
        self._run(buffers, buffers.new_inputs(1))
        for rows in ROWS:
            inputs = buffers.new_inputs(rows)
            buffers.graphs[rows] = inputs, self._capture(lambda inputs=inputs: self._run(buffers, inputs, True))
        return buffers

    def new_cache(self) -> KeyValueCache:
        return _Cache(self, self.rollback.keys)

    def prepare_rows(self, parents: Sequence[int], base: int, first: int, cache: KeyValueCache) -> Visible:
        cache.ensure_capacity(base + max(len(parents), first + ROWS[-1]))
        if is_chain(parents):
            return Visible(base, torch.ones(len(parents), len(parents), dtype=torch.bool).tril_()[first:])
        return Visible(base, torch.tensor(ancestor_mask(parents)[first:]))

    @torch.inference_mode()
    def __call__(self, ids, positions, cache: _Cache, rows: Visible, only: slice = ALL_ROWS):
        n, buffers = len(ids), cache.buffers
        first = rows.base + rows.rows.shape[1] - n  # column of the first row
        if isinstance(positions, slice):
            positions = torch.arange(positions.start, positions.stop, device=self.device)
        size = next((size for size in ROWS if size >= n), n)
        inputs, run = buffers.graphs.get(size) or (buffers.new_inputs(n), None)
        inputs.ids[:n] = ids
        inputs.positions[:n] = positions.clamp(max=self.shape.context_length - 1)  # padding rows may exceed the context
        inputs.columns.copy_(torch.arange(first, first + size))
        inputs.mask.fill_(torch.finfo(self.dtype).min)
        inputs.mask[..., : rows.base] = 0
        inputs.mask[0, 0, :n, rows.base : first + n].masked_fill_(rows.rows.to(self.device), 0)
        output = run() if run else self._run(buffers, inputs, len(cache.taps) > 0, only)
        self._keep_states(output, cache, first, n)
        logits = output.logits[:n][only].clone() if run else output.logits
        for layer in cache.layers:
            layer.length = first + n
        return logits

    def _run(self, buffers: _Buffers, inputs: _Inputs, states: bool = False, only: slice = ALL_ROWS) -> Output:
        """Run one pass over `inputs`; return logits of the rows in `only`, and hidden states if `states` is set."""
        buffers.columns = inputs.columns
        out = self._output(inputs.ids, inputs.positions, buffers.dynamic, inputs.mask, only, states)
        return Output(out.logits[0], out.hidden_states or ())

    def first(self, layers: int) -> CudaGraphs:
        return CudaGraphs(super().first(layers), self._capture)

    def converted(self, dtype: torch.dtype) -> CudaGraphs:
        return CudaGraphs(super().converted(dtype), self._capture)
