"""A GPU's passes as CUDA graphs: the kernels of a pass of so many rows are recorded once and then launched together.

A pass of few rows over a small model is mostly the launching of its kernels, one by one, from Python. A graph launches them at
once, but always with the same shapes at the same addresses. So there are few row counts (`ROWS`; a pass is filled up with rows
whose results are dropped), all that changes between passes (ids, positions, columns, mask) is copied into tensors that stay, and
keys and values lie in buffers that are only left for longer ones. A later lane reuses the buffers and the graphs over them. The
hidden states that a trained drafter reads come from the same graph.

Source: "CUDA graphs" in PyTorch's notes on CUDA semantics. Tests trace the passes on a CPU, which freezes them in the same way.
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
from .forward import EVERY
from .modules import Modules

ROWS = (1, 2, 4, 8, 16, 32, 64)  # a wider pass, of a prompt, is launched kernel by kernel
SHORTEST = 1024  # columns of the shortest buffers; longer ones are twice as long
WARM = 2  # passes before one is recorded, in which libraries choose and prepare kernels


class Answer(NamedTuple):
    """Logits [rows, vocab] of a pass, and hidden states [1, rows, hidden] before the first layer and after every one."""

    logits: torch.Tensor
    hidden_states: Sequence[torch.Tensor] = ()


Run = Callable[[], Answer]
Record = Callable[[Run], Run]  # of what runs over tensors that stay: the same as one launch


def record(run: Run) -> Run:
    """Record what `run` launches on the current GPU as a graph. Its answer lies at the same place every time."""
    beside = torch.cuda.Stream()
    beside.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(beside):
        for _ in range(WARM):
            run()
    torch.cuda.current_stream().wait_stream(beside)
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph, pool=_memory(torch.cuda.current_device())):
        out = run()

    def play() -> Answer:
        graph.replay()
        return out

    return play


@lru_cache
def _memory(device: int) -> Any:
    """What the graphs of a GPU share for their scratch: they never run at once, and no result outlives a pass."""
    return torch.cuda.graph_pool_handle()


class Seen(NamedTuple):
    """What rows see: all of `base` cached tokens, and of the pass's rows those that are True in [rows, all rows of the pass]."""

    base: int
    rows: torch.Tensor


class _Given(NamedTuple):
    """What changes from pass to pass: ids, positions and columns [rows], additive mask [1, 1, rows, room]."""

    ids: torch.Tensor
    positions: torch.Tensor
    columns: torch.Tensor
    mask: torch.Tensor


class _Buffers:
    """Keys and values [1, kv heads, room, head dim] of every layer, and the graphs over them by row count."""

    def __init__(self, passes: Modules, room: int):
        self.room, self._dtype, self._device = room, passes.dtype, passes.device
        self.layers = [_Layer(self) for _ in range(passes.layers)]
        self.dynamic = DynamicCache(config=passes.model.config)
        self.dynamic.layers = self.layers
        self.graphs: dict[int, tuple[_Given, Run]] = {}
        self.columns = torch.zeros(0)  # of the pass at work

    def given(self, rows: int) -> _Given:
        """New tensors for a pass of so many rows."""
        numbers = (torch.zeros(rows, dtype=torch.long, device=self._device) for _ in range(3))
        return _Given(*numbers, torch.zeros(1, 1, rows, self.room, dtype=self._dtype, device=self._device))


class _Layer(DynamicLayer):
    """A layer as transformers' modules know it: what is new goes to the columns of the pass, and all columns are seen."""

    def __init__(self, buffers: _Buffers):
        super().__init__()
        self._buffers = buffers

    def update(self, key_states, value_states, *args, **kwargs):
        if self.keys is None:  # the first pass of all tells how many heads there are, and how wide
            self.keys, self.values = (
                new.new_zeros(1, new.shape[1], self._buffers.room, new.shape[3]) for new in (key_states, value_states)
            )
        self.keys.index_copy_(2, self._buffers.columns, key_states)
        self.values.index_copy_(2, self._buffers.columns, value_states)
        return self.keys, self.values

    def get_seq_length(self) -> int:
        return 0  # positions are given


class _Cache(KeyValueCache):
    """A cache over buffers that are lent, and given back when it is forgotten."""

    def __init__(self, passes: CudaGraphs, layers: int):
        super().__init__(layers)
        self._passes = passes
        self._lend(SHORTEST)

    @torch.inference_mode()
    def _lend(self, room: int) -> None:
        """Take buffers of so many columns, and bring what is cached along."""
        self.buffers = self._passes.lend(room)
        for layer, lent in zip(self.layers, self.buffers.layers, strict=True):
            layer.move(lent.keys, lent.values)
        self._back = weakref.finalize(self, self._passes.free.append, self.buffers)
        self._back.atexit = False
        self.room = room

    def lay_out(self, columns: int) -> None:
        room = self.room
        while room < columns:
            room *= 2
        if room > self.room:
            before = self._back
            self._lend(room)
            before()


class CudaGraphs(Modules):
    """The passes of a transformers model on one GPU, recorded. `record` is replaced by tests."""

    def __init__(self, passes: Modules, record: Record = record):
        super().__init__(passes.model)
        self._record = record
        self.free: list[_Buffers] = []

    @torch.inference_mode()
    def lend(self, room: int) -> _Buffers:
        """Buffers of so many columns, with a graph for every row count."""
        for buffers in self.free:
            if buffers.room == room:
                self.free.remove(buffers)
                return buffers
        buffers = _Buffers(self, room)
        self._run(buffers, buffers.given(1))
        for rows in ROWS:
            given = buffers.given(rows)
            buffers.graphs[rows] = given, self._record(lambda given=given: self._run(buffers, given, True))
        return buffers

    def new_cache(self) -> KeyValueCache:
        return _Cache(self, self.layers)

    def lay_out(self, parents: Sequence[int], base: int, first: int, cache: KeyValueCache) -> Seen:
        cache.lay_out(base + max(len(parents), first + ROWS[-1]))
        if is_chain(parents):
            return Seen(base, torch.ones(len(parents), len(parents), dtype=torch.bool).tril_()[first:])
        return Seen(base, torch.tensor(ancestor_mask(parents)[first:]))

    @torch.inference_mode()
    def __call__(self, ids, positions, cache: _Cache, rows: Seen, only: slice = EVERY):
        n, buffers = len(ids), cache.buffers
        first = rows.base + rows.rows.shape[1] - n  # column of the first row
        if isinstance(positions, slice):
            positions = torch.arange(positions.start, positions.stop, device=self.device)
        size = next((size for size in ROWS if size >= n), n)
        given, run = buffers.graphs.get(size) or (buffers.given(n), None)
        given.ids[:n] = ids
        given.positions[:n] = positions.clamp(max=self.shape.context_length - 1)  # of rows that only fill a pass up
        given.columns.copy_(torch.arange(first, first + size))
        given.mask.fill_(torch.finfo(self.dtype).min)
        given.mask[..., : rows.base] = 0
        given.mask[0, 0, :n, rows.base : first + n].masked_fill_(rows.rows.to(self.device), 0)
        answer = run() if run else self._run(buffers, given, len(cache.taps) > 0, only)
        self._keep_states(answer, cache, first, n)
        logits = answer.logits[:n][only].clone() if run else answer.logits
        for layer in cache.layers:
            layer.length = first + n
        return logits

    def _run(self, buffers: _Buffers, given: _Given, states: bool = False, only: slice = EVERY) -> Answer:
        """One pass over those tensors, with hidden `states` or without; logits of the rows in `only`."""
        buffers.columns = given.columns
        out = self._output(given.ids, given.positions, buffers.dynamic, given.mask, only, states)
        return Answer(out.logits[0], out.hidden_states or ())

    def first(self, layers: int) -> CudaGraphs:
        return CudaGraphs(super().first(layers), self._record)

    def converted(self, dtype: torch.dtype) -> CudaGraphs:
        return CudaGraphs(super().converted(dtype), self._record)
