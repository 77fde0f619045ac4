"""Recurrent layers of transformers whose states are not in its cache: RWKV, xLSTM, RG-LRU and Lightning attention.

Each function of `COMPUTE` calls such a layer with the states of a layer of the cache, and stores the new states there. It
returns the layer's output without states.
"""

from __future__ import annotations

from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import torch
from transformers import DynamicCache, PreTrainedConfig
from transformers.cache_utils import LinearAttentionLayer

States = dict[int, Any]  # the tensors of one layer by number; None at first


def _rwkv(
    module: Any, call: Callable[..., Any], states: States, hidden: torch.Tensor, state: Any = None, **others: Any
) -> Any:
    """States 0 and 1 are the last hidden states, 2 to 4 those of the attention. A layer reads its column of five tensors."""
    numbers = (0,) if "FeedForward" in type(module).__name__ else (1, 2, 3, 4)
    if hidden.shape[1] == 1 < len(hidden):  # for one row, transformers computes one text only
        texts = [{i: states[i][[text]] for i in numbers if states.get(i) is not None} for text in range(len(hidden))]
        outs = [_rwkv(module, call, part, hidden[[text]], **others)[0] for text, part in enumerate(texts)]
        states.update({i: torch.cat([part[i] for part in texts]) for i in numbers})
        return torch.cat(outs), state
    for i in numbers:
        if states.get(i) is None:
            states[i] = torch.full_like(hidden[:, 0].float() if i > 1 else hidden[:, 0], -1e30 if i == 4 else 0.0)
    columns = module.layer_id + 1
    tensors = {i: states[i][..., None].expand(-1, -1, columns) for i in numbers}  # all columns are the same memory
    out, _ = call(hidden, state=[tensors.get(i, hidden[:, :0, None]) for i in range(5)], **others)
    return out, state


def _xlstm(module: Any, call: Callable[..., Any], states: States, hidden: torch.Tensor, state: Any = None) -> Any:
    """The states are a matrix, a vector and a scalar per head."""
    out, new = call(hidden, None if states.get(0) is None else tuple(states[i] for i in range(3)))
    states.update(enumerate(new))
    return out, state


def _rg_lru(module: Any, call: Callable[..., Any], states: States, *args: Any, **others: Any) -> Any:
    """State 0 is that of the convolution. The module has both as attributes, and creates those that it lacks."""
    module.conv1d_state, module.rg_lru.recurrent_states = states.get(0), states.get(1)
    out = call(*args, **others)
    states[0], states[1] = module.conv1d_state, module.rg_lru.recurrent_states
    module.conv1d_state = module.rg_lru.recurrent_states = None
    return out


def _lightning(
    module: Any, call: Callable[..., Any], states: States, *args: Any, past_key_values: Any, **others: Any
) -> Any:
    """The state is the sum of products of keys and values."""
    cache = SimpleNamespace(
        get_linear_cache=lambda _: states.get(0), set_linear_cache=lambda _, state: states.update({0: state})
    )
    out, _ = call(*args, past_key_values=cache, **others)
    return out, None


# By the class of a recurrent layer.
COMPUTE: dict[str, Callable[..., Any]] = {
    "RwkvSelfAttention": _rwkv, "RwkvFeedForward": _rwkv, "xLSTMLayer": _xlstm, "RecurrentGemmaRecurrentBlock": _rg_lru,
    "MiniMaxLightningAttention": _lightning,
}  # fmt: skip
KEYLESS = ("rwkv", "xlstm")  # architectures that do not accept transformers' cache


def cache_of(config: PreTrainedConfig) -> DynamicCache:
    """Return an empty cache of transformers, with layers for all states."""
    cache: Any = DynamicCache() if config.model_type in KEYLESS else DynamicCache(config=config)
    if config.model_type in KEYLESS:
        cache.layers = [LinearAttentionLayer() for _ in range(config.num_hidden_layers)]
    if config.model_type == "minimax":  # it accepts only its own class
        from transformers.models.minimax.modeling_minimax import MiniMaxCache

        cache.__class__, cache.linear_cache = MiniMaxCache, []
    return cache
