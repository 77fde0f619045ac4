"""The keys and values of the tokens read so far, in buffers that are written in place.

Rolling back sets a length; appending copies only the new rows. The buffers grow by whole blocks of columns. `kernels.cache` has
the cache of compiled passes. For a trained drafter the cache also keeps hidden states of the same tokens (`tap`).
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import torch

BLOCK = 128  # columns
NOTHING = np.empty(0, np.int64)


def room_for(length: int) -> int:
    """Whole blocks that hold `length` columns."""
    return -(-length // BLOCK) * BLOCK


class CacheLayer:
    """One layer's keys and values, [1, heads, room, dim], of which `length` columns count."""

    def __init__(self, cache: KeyValueCache, number: int):
        self.cache, self.number = cache, number
        self.keys = self.values = torch.empty(0)

    @property
    def length(self) -> int:
        """How many columns count."""
        return self.cache.lengths[self.number]

    @length.setter
    def length(self, columns: int) -> None:
        self.cache.lengths[self.number] = columns

    def move(self, keys: torch.Tensor, values: torch.Tensor) -> None:
        """Go on in these buffers."""
        before = self.keys, self.values
        self.keys, self.values = keys, values
        if self.length:
            self.fill(*before)

    def fill(self, keys: torch.Tensor, values: torch.Tensor) -> None:
        """Copy what counts from other buffers: whole blocks, in which kernels have an order of their own."""
        stop = room_for(self.length)
        self.keys[:, :, :stop], self.values[:, :, :stop] = keys[:, :, :stop], values[:, :, :stop]

    def grow(
        self, room: int, heads: int, dims: tuple[int, int], dtype: torch.dtype, device: torch.device | None = None
    ) -> None:
        """Go on in buffers of so much room, for keys and values of these widths (they differ in some models).

        The buffers are zeros: a masked key has weight 0, and 0 times a NaN would be a NaN.
        """
        self.move(*(torch.zeros(1, heads, room, dim, dtype=dtype, device=device) for dim in dims))

    def update(self, keys: torch.Tensor, values: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        """Append rows [1, heads, rows, dim]; returns what attention may see."""
        start, (_, heads, rows, dim) = self.length, keys.shape
        stop = start + rows
        if self.keys.dim() < 4 or stop > self.keys.shape[2]:
            self.grow(max(self.cache.room, room_for(stop)), heads, (dim, values.shape[3]), keys.dtype, keys.device)
        self.length = stop
        self.keys[:, :, start:stop] = keys
        self.values[:, :, start:stop] = values
        return self.keys[:, :, :stop], self.values[:, :, :stop]

    def gather(self, start: int, columns: torch.Tensor) -> None:
        """Move columns to `start`, `start + 1`, ..."""
        stop = start + len(columns)
        self.keys[:, :, start:stop] = self.keys.index_select(2, columns)
        self.values[:, :, start:stop] = self.values.index_select(2, columns)


class KeyValueCache:
    """The layers of one cache."""

    def __init__(self, layers: int):
        self.lengths = [0] * layers  # columns of each that count; all the same but in the middle of a pass
        self.layers = [CacheLayer(self, number) for number in range(layers)]
        self.room = 0  # columns of the buffers from the next pass on
        self.taps = NOTHING  # the numbers of layers after which hidden states are kept
        self._states, self._state_width = torch.empty(0), 0

    def lay_out(self, columns: int) -> None:
        """Prepare a pass: room for so many columns."""
        self.room = max(self.room, room_for(columns))

    def columns(self, start: int, stop: int) -> list[torch.Tensor]:
        """Copies of the keys and the values of these columns, layer after layer, [heads, columns, dim]."""
        return [tensor[0, :, start:stop].clone() for layer in self.layers for tensor in (layer.keys, layer.values)]

    def tap(self, layers: Sequence[int], hidden: int, dtype: torch.dtype, device: torch.device) -> None:
        """Keep the hidden states of so many numbers after these layers from now on; the cache is empty still."""
        self.taps, self._state_width = np.array(layers, np.int64), len(layers) * hidden
        self._states = torch.empty(0, self._state_width, dtype=dtype, device=device)

    def states(self, start: int, stop: int) -> torch.Tensor:
        """The hidden states of tokens in the cache, or of a pass's rows to be filled, [tokens, taps times hidden]."""
        if stop > len(self._states) and len(self.taps):
            longer = self._states.new_zeros(room_for(2 * stop), self._state_width)
            longer[: len(self._states)] = self._states
            self._states = longer
        return self._states[start:stop]

    def gather(self, start: int, columns: Sequence[int]) -> None:
        """Move ascending columns of every layer to `start`, `start + 1`, ..."""
        there = torch.tensor(columns, device=self.layers[0].keys.device)
        self._move(start, there)
        if len(self.taps):
            self._states[start : start + len(columns)] = self._states[there.to(self._states.device)]

    def _move(self, start: int, columns: torch.Tensor) -> None:
        """`gather` of keys and values."""
        for layer in self.layers:
            layer.gather(start, columns)

    def take(self, other: KeyValueCache) -> None:
        """Hold what another cache of the same model holds; where hidden states are kept here, the other keeps the same."""
        length = other.length()
        self.lay_out(length)
        for layer, given in zip(self.layers, other.layers, strict=True):
            (_, heads, _, dim), keys, values = given.keys.shape, given.keys, given.values
            if layer.keys.dim() < 4 or layer.keys.shape[2] < length:
                layer.grow(self.room, heads, (dim, values.shape[3]), keys.dtype, keys.device)
            layer.length = length
            layer.fill(keys, values)
        if len(self.taps):
            self.states(0, length)[:] = other.states(0, length)

    def rewind(self, length: int) -> None:
        """Cut every layer back to `length` tokens, also after a pass that broke off half way."""
        if max(self.lengths) > length:
            self.lengths = [min(one, length) for one in self.lengths]

    def length(self) -> int:
        """How many tokens it holds, every layer alike."""
        assert len(set(self.lengths)) == 1, "all layers hold the same tokens"
        return self.lengths[0]
