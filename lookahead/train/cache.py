"""A KV cache for writing many texts at once, one token per pass."""

from torch.nn.functional import pad
from transformers import PreTrainedModel, StaticCache
from transformers.cache_utils import StaticLayer

BLOCK = 32  # positions by which the cache grows


class _GrowingLayer(StaticLayer):
    """Keys and values that grow by a block of positions: faster than a full-size cache or growth by one token."""

    is_compileable = False
    filled = 0

    def update(self, key_states, value_states, *args, **kwargs):
        new = key_states.shape[-2]
        more = self.get_mask_sizes(new)[0] - self.max_cache_len
        if more and self.is_initialized:
            self.keys, self.values = (pad(states, (0, 0, 0, more)) for states in (self.keys, self.values))
        self.max_cache_len += more
        self.filled += new
        return super().update(key_states, value_states, *args, **kwargs)

    def get_mask_sizes(self, query_length: int) -> tuple[int, int]:
        return -(-(self.filled + query_length) // BLOCK) * BLOCK, 0


def growing_cache(model: PreTrainedModel) -> StaticCache:
    """Return an empty cache for texts of equal length."""
    cache = StaticCache(config=model.config, max_cache_len=BLOCK)
    cache.layers = [_GrowingLayer(BLOCK) for _ in cache.layers]
    return cache
