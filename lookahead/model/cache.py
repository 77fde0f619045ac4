"""A key-value cache in buffers that are written in place.

Rolling back sets a length; appending copies only the new rows. The buffers grow by whole blocks of columns. `kernels.cache` has
the cache of compiled passes. For a trained head, the cache also stores hidden states of the same tokens (`tap`).
"""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import AbstractContextManager, nullcontext

import numpy as np
import torch

from .paths import Paths

BLOCK = 128  # columns
NOTHING = np.empty(0, np.int64)


def capacity_for(length: int) -> int:
    """Return `length`, rounded up to whole blocks of columns."""
    return -(-length // BLOCK) * BLOCK


class CacheLayer:
    """The keys and values of one layer, [1, heads, capacity, dim]. The first `length` columns are in use."""

    def __init__(self, cache: KeyValueCache, number: int):
        self.cache, self.number = cache, number
        self.keys = self.values = torch.empty(0)

    @property
    def length(self) -> int:
        """The number of columns in use."""
        return self.cache.lengths[self.number]

    @length.setter
    def length(self, columns: int) -> None:
        self.cache.lengths[self.number] = columns

    def move(self, keys: torch.Tensor, values: torch.Tensor) -> None:
        """Use these buffers from now on; copy the columns in use."""
        before = self.keys, self.values
        self.keys, self.values = keys, values
        if self.length:
            self.fill(*before)

    def fill(self, keys: torch.Tensor, values: torch.Tensor) -> None:
        """Copy the columns in use from other buffers, in whole blocks, because kernels reorder the columns of a block."""
        stop = capacity_for(self.length)
        self.keys[:, :, :stop], self.values[:, :, :stop] = keys[:, :, :stop], values[:, :, :stop]

    def grow(
        self, capacity: int, heads: int, dims: tuple[int, int], dtype: torch.dtype, device: torch.device | None = None
    ) -> None:
        """Allocate buffers of `capacity` columns and copy the columns in use. `dims` are the widths of a key and of a value.

        The buffers are filled with zeros, because a masked key has weight 0, and 0 times NaN would be NaN.
        """
        self.move(*(torch.zeros(1, heads, capacity, dim, dtype=dtype, device=device) for dim in dims))

    def update(self, keys: torch.Tensor, values: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        """Append rows [1, heads, rows, dim]; return all keys and values in use."""
        start, (_, heads, rows, dim) = self.length, keys.shape
        stop = start + rows
        if self.keys.dim() < 4 or stop > self.keys.shape[2]:
            capacity = max(self.cache.capacity, capacity_for(stop))
            self.grow(capacity, heads, (dim, values.shape[3]), keys.dtype, keys.device)
        self.length = stop
        self.keys[:, :, start:stop] = keys
        self.values[:, :, start:stop] = values
        return self.keys[:, :, :stop], self.values[:, :, :stop]


class KeyValueCache:
    """The keys and values of all layers and, if `tap` was called, hidden states of the same tokens.

    Layers that no pass has written are not `used`: they attend to images, or share the keys of another layer.
    """

    paths: Paths | None = None  # during a pass that computes a tree as a batch

    def __init__(self, layers: int):
        self.lengths = [0] * layers  # columns in use per layer; they are equal except during a pass
        self.layers = [CacheLayer(self, number) for number in range(layers)]
        self.capacity = 0  # columns of the buffers from the next pass on
        self.taps = NOTHING  # numbers of the layers whose output is stored
        self.chosen_experts: Sequence[torch.Tensor] = ()  # of the rows of the last pass; see `experts.Routing`
        self._states, self._state_width = torch.empty(0), 0

    @property
    def used(self) -> list[CacheLayer]:
        """The layers that have keys."""
        return [layer for layer in self.layers if layer.keys.dim() == 4]

    def ensure_capacity(self, columns: int) -> None:
        """Prepare a pass after which the cache has at most this many columns."""
        self.capacity = max(self.capacity, capacity_for(columns))

    def columns(self, start: int, stop: int) -> list[torch.Tensor]:
        """Return copies of the keys and values of these columns, [heads, columns, dim], in order of layers."""
        return [tensor[0, :, start:stop].clone() for layer in self.used for tensor in (layer.keys, layer.values)]

    def tap(self, layers: Sequence[int], hidden: int, dtype: torch.dtype, device: torch.device) -> None:
        """Store the hidden states after these layers, `hidden` numbers each, from now on. The cache must be empty."""
        self.taps, self._state_width = np.array(layers, np.int64), len(layers) * hidden
        self._states = torch.empty(0, self._state_width, dtype=dtype, device=device)

    def states(self, start: int, stop: int) -> torch.Tensor:
        """Return a view of the hidden states of columns, [columns, taps * hidden]. A pass writes its rows into it."""
        if stop > len(self._states) and len(self.taps):
            longer = self._states.new_zeros(capacity_for(2 * stop), self._state_width)
            longer[: len(self._states)] = self._states
            self._states = longer
        return self._states[start:stop]

    def gather(self, start: int, columns: Sequence[int]) -> None:
        """Move ascending columns of every layer to `start`, `start + 1`, ..."""
        indices = torch.tensor(columns, device=self.used[0].keys.device)
        self._move(start, indices)
        if len(self.taps):
            self._states[start : start + len(columns)] = self._states[indices.to(self._states.device)]

    def _move(self, start: int, columns: torch.Tensor) -> None:
        stop = start + len(columns)
        for layer in self.used:
            layer.keys[:, :, start:stop] = layer.keys.index_select(2, columns)
            layer.values[:, :, start:stop] = layer.values.index_select(2, columns)

    def copy_from(self, other: KeyValueCache) -> None:
        """Copy another cache of the same model. If this cache stores hidden states, the other must store the same."""
        length = other.length()
        self.ensure_capacity(length)
        for source in other.used:
            layer = self.layers[source.number]
            (_, heads, _, dim), keys, values = source.keys.shape, source.keys, source.values
            if layer.keys.dim() < 4 or layer.keys.shape[2] < length:
                layer.grow(self.capacity, heads, (dim, values.shape[3]), keys.dtype, keys.device)
            layer.length = length
            layer.fill(keys, values)
        if len(self.taps):
            self.states(0, length)[:] = other.states(0, length)

    def rewind(self, length: int) -> int:
        """Roll every layer back to at most `length` tokens, also after an interrupted pass; return the number of tokens left.

        Only a cache with recurrent states may return less than `length`: the next pass has to read the tokens in between again.
        """
        if max(self.lengths, default=0) > length:
            self.lengths = [min(columns, length) for columns in self.lengths]
        return length

    def snapshot(self, parents: Sequence[int], base: int, length: int) -> None:
        """Prepare a pass over these rows after `base` tokens: `rewind` must be able to return to `length` tokens after it.

        Keys and values can return to any length.
        """

    def computing(self, rows: int) -> AbstractContextManager[None]:
        """Return the context of a pass over this many rows."""
        return nullcontext()

    def length(self) -> int:
        """Return the number of cached tokens, which is the same in every used layer."""
        lengths = {layer.length for layer in self.used} or {0}
        assert len(lengths) == 1, "the layers have different numbers of tokens"
        return lengths.pop()
