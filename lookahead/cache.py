"""A cache with room: transformers' dynamic cache, with buffers that are written in place.

Rolling back is setting a length; appending copies only the new rows. And the keys handed to
attention come in whole blocks, so that the shapes of a pass repeat: the CPU's kernels are
compiled per shape, and with one shape a token the first visit of every length would cost as
much again as the pass itself. The tail of the last block is for the attention to mask
(`attention.by_branch` does; transformers' own attentions are given exact lengths).

Knows tensors and lengths. It does not know tokens.
"""

from __future__ import annotations

import torch
from transformers import DynamicCache, PreTrainedModel
from transformers.cache_utils import DynamicLayer

from .events import ModelError

BLOCK = 128


def room_for(length: int) -> int:
    """Whole blocks that hold `length` tokens."""
    return -(-length // BLOCK) * BLOCK


class RoomyLayer(DynamicLayer):
    """One layer's keys and values, [1, heads, room, dim], of which `length` count."""

    def __init__(self, in_blocks: bool):
        super().__init__()
        self.in_blocks = in_blocks
        self.length = 0
        self.room = 0  # how long the buffers shall be; what they hold is kept

    def update(self, key_states, value_states, *args, **kwargs):
        """Append rows; returns what attention may see."""
        stop = self.length + key_states.shape[2]
        room = max(self.room, room_for(stop))
        if not self.is_initialized or room != self.keys.shape[2]:
            self._resize(key_states, value_states, room)
        self.keys[:, :, self.length : stop] = key_states
        self.values[:, :, self.length : stop] = value_states
        self.length = stop
        if self.in_blocks:  # the whole buffer: a contiguous one, which matmul need not copy
            return self.keys, self.values
        return self.keys[:, :, :stop], self.values[:, :, :stop]

    def _resize(self, key_states, value_states, room: int) -> None:
        held = (self.keys, self.values) if self.is_initialized else (None, None)
        new = []
        for states, old in zip((key_states, value_states), held, strict=True):
            batch, heads, _, dim = states.shape
            # Zeros, not garbage: a masked key has weight 0, and 0 times a NaN would be a NaN.
            buffer = torch.zeros(batch, heads, room, dim, dtype=states.dtype, device=states.device)
            if old is not None:
                buffer[:, :, : self.length] = old[:, :, : self.length]
            new.append(buffer)
        self.keys, self.values = new
        self.dtype, self.device, self.is_initialized = key_states.dtype, key_states.device, True

    def gather(self, base: int, rows: torch.Tensor) -> None:
        """Move rows (absolute indices) to `base`, `base + 1`, ..."""
        stop, rows = base + rows.shape[0], rows.to(self.keys.device)
        self.keys[:, :, base:stop] = self.keys.index_select(2, rows)
        self.values[:, :, base:stop] = self.values.index_select(2, rows)

    def get_seq_length(self) -> int:
        return self.length


def new_cache(model: PreTrainedModel, in_blocks: bool) -> DynamicCache:
    """An empty cache that can be rolled back, or a `ModelError` for models without one."""
    name = model.config.model_type
    if getattr(model, "_is_stateful", False):
        raise ModelError(
            "model", name, "its recurrent state cannot be rolled back; choose a model with plain attention."
        )
    cache = DynamicCache(config=model.config)
    odd = sorted({type(layer).__name__ for layer in cache.layers if type(layer) is not DynamicLayer})
    if odd:
        mend = f"its cache ({', '.join(odd)}) cannot be rolled back; choose a model with full attention in every layer."
        raise ModelError("model", name, mend)
    cache.layers = [RoomyLayer(in_blocks) for _ in cache.layers]
    return cache
