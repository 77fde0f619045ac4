"""Forward passes through transformers' modules, for any architecture and device.

Registers our attention with transformers under the name `ATTENTION`. The attention raises for arguments that it does not
implement, so no argument is silently ignored. The rows of a tree have an additive mask of four dimensions.

The import takes seconds, mostly for transformers. Families of plain Llamas load without it (`kernels.llama_weights`).
"""

from __future__ import annotations

import copy
from collections.abc import Iterator
from typing import Any

import torch
from accelerate import init_empty_weights
from transformers import AttentionInterface, AttentionMaskInterface, DynamicCache, PreTrainedModel
from transformers.cache_utils import DynamicLayer
from transformers.masking_utils import eager_mask

from ..core.events import ModelError
from .cache import CacheLayer, KeyValueCache
from .forward import ALL_ROWS, IMPLEMENTATIONS, Forward
from .shape import Shape

ATTENTION = "lookahead"
OTHER = "choose a plain decoder, such as Llama or Qwen."
# Arguments that models pass to attention and that do not change its result.
INERT = {
    "position_ids", "cache_position", "use_cache", "output_attentions", "output_hidden_states", "return_dict",
    "output_router_logits", "deterministic", "cu_seq_lens_q", "cu_seq_lens_k", "max_length_q", "max_length_k",
}  # fmt: skip


def attend(
    module, query, key, value, attention_mask, scaling=None, dropout=0.0, softcap=None, s_aux=None, is_causal=None,
    sliding_window=None, **others,
):  # fmt: skip
    """Return attention [batch, rows, heads, dim] and None, computed in plain torch with transformers' interface.

    `query` is [batch, heads, rows, dim], `key` and `value` are [batch, kv heads, keys, dim]; `attention_mask`
    [batch, 1, rows, keys] is additive. Query heads that share a key head are one matrix product. `s_aux` are attention sinks: a
    further score per head that takes weight and has no value. Raises `ModelError` for arguments that would change the result and
    are not implemented.
    """
    ignored = sorted(name for name, value in others.items() if value is not None and name not in INERT)
    if ignored:
        raise _unsupported(module, f"its attention takes {', '.join(ignored)}, which is not implemented here")
    if is_causal is False or getattr(module, "is_causal", True) is False:
        raise _unsupported(module, "its attention is not causal")
    if sliding_window is not None and sliding_window < Shape.from_config(module.config).context_length:
        raise _unsupported(module, f"its attention sees only the last {sliding_window} tokens")
    scaling = query.shape[-1] ** -0.5 if scaling is None else scaling
    batch, heads, rows, dim = query.shape
    kv_heads, keys = key.shape[1:3]
    grouped = query.reshape(batch, kv_heads, heads // kv_heads * rows, dim)
    scores = torch.matmul(grouped, key.transpose(2, 3)) * scaling
    if softcap is not None:
        scores = torch.tanh(scores / softcap) * softcap
    scores = scores.view(batch, heads, rows, keys)
    if attention_mask is not None:
        scores = scores.masked_fill(attention_mask < 0, torch.finfo(scores.dtype).min)
    if s_aux is not None:
        scores = torch.cat([scores, s_aux.to(scores.dtype).view(1, -1, 1, 1).expand(batch, heads, rows, 1)], -1)
    weights = torch.softmax(scores, dim=-1, dtype=torch.float32).to(value.dtype)[..., :keys]
    mixed = torch.matmul(weights.reshape(batch, kv_heads, heads // kv_heads * rows, keys), value)
    return mixed.reshape(batch, heads, rows, value.shape[3]).transpose(1, 2).contiguous(), None


def _unsupported(module: torch.nn.Module, reason: str) -> ModelError:
    kind = getattr(getattr(module, "config", None), "model_type", type(module).__name__)
    return ModelError("model", kind, f"{reason}; {OTHER}")


AttentionInterface.register(ATTENTION, attend)
AttentionMaskInterface.register(ATTENTION, eager_mask)


class _ModulesLayer(DynamicLayer):
    """A layer of transformers' cache that stores its rows in a `CacheLayer`."""

    def __init__(self, layer: CacheLayer):
        super().__init__()
        self.layer = layer

    def update(self, key_states, value_states, *args, **kwargs):
        return self.layer.update(key_states, value_states)

    def get_seq_length(self) -> int:
        return self.layer.length

    def crop(self, tokens_to_remove: int) -> None:
        self.layer.length -= abs(int(tokens_to_remove))


class _ModulesCache(KeyValueCache):
    """A `KeyValueCache` with a transformers cache over the same layers."""

    def __init__(self, model: PreTrainedModel, layers: int):
        super().__init__(layers)
        self.dynamic = DynamicCache(config=model.config)
        attach(self, self.dynamic)


def attach(cache: KeyValueCache, dynamic: DynamicCache) -> None:
    """Make an empty transformers cache read and write the layers of `cache`."""
    dynamic.layers = [_ModulesLayer(layer) for layer in cache.layers]


def attached(dynamic: DynamicCache) -> KeyValueCache | None:
    """Return the cache that `attach` connected with a transformers cache, or None."""
    layer = next(iter(dynamic.layers), None)
    return layer.layer.cache if isinstance(layer, _ModulesLayer) else None


class Modules(Forward):
    """The passes of a transformers model. Raises `ModelError` if its cache cannot be rolled back."""

    def __init__(self, model: PreTrainedModel):
        self._model, self.layers = model, rollback_layers(model)
        self.shape = Shape.from_config(model.config)

    @property
    def model(self) -> PreTrainedModel:
        return self._model

    @property
    def dtype(self) -> torch.dtype:
        return self.model.dtype

    @property
    def tables(self) -> tuple[torch.Tensor, torch.Tensor]:
        return self.model.get_input_embeddings().weight, self.model.get_output_embeddings().weight

    @property
    def device(self) -> torch.device:
        return self.model.device

    @property
    def devices(self) -> set[str]:
        spread = getattr(self.model, "hf_device_map", None) or {"": self.device}
        return {str(layer_device) for layer_device in spread.values()}

    def new_cache(self) -> KeyValueCache:
        return _ModulesCache(self.model, self.layers)

    @torch.inference_mode()
    def __call__(self, ids, positions, cache: _ModulesCache, rows: torch.Tensor | None, only: slice = ALL_ROWS):
        if isinstance(positions, slice):
            positions = torch.arange(positions.start, positions.stop, device=self.device)
        start = cache.length()
        out = self._output(ids, positions, cache.dynamic, rows, only, len(cache.taps) > 0)
        self._keep_states(out, cache, start, len(ids))
        return out.logits[0]

    def _output(
        self, ids, positions, dynamic: DynamicCache, mask: torch.Tensor | None, only: slice, states: bool
    ) -> Any:
        """Return transformers' output of a pass over ids [rows] at positions [rows], with hidden states if `states` is set."""
        # `only` is a slice, because the last layers may be on another GPU than the first.
        return self.model(
            input_ids=ids[None], position_ids=positions[None], past_key_values=dynamic, use_cache=True, logits_to_keep=only,
            output_hidden_states=states, attention_mask=mask,
        )  # fmt: skip

    def _keep_states(self, out: Any, cache: KeyValueCache, start: int, count: int) -> None:
        """Store the hidden states of a pass's first `count` rows from column `start` on, if the cache has taps."""
        if len(cache.taps):
            tapped = [out.hidden_states[layer][0, :count].to(self.device) for layer in cache.taps]
            cache.states(start, start + count).copy_(torch.cat(tapped, -1))

    def first(self, layers: int) -> Modules:
        return Modules(first_layers(self.model, layers))

    def converted(self, dtype: torch.dtype) -> Modules:
        model = copy.deepcopy(self.model)
        for parameter in model.parameters():  # not buffers: rotary tables stay float32
            parameter.data = parameter.data.to(dtype)
        return Modules(model)

    def parameters(self) -> Iterator[torch.Tensor]:
        return self.model.parameters()

    @property
    def read_bytes(self) -> int:
        embedding, head = self.model.get_input_embeddings(), self.model.get_output_embeddings()
        if embedding is None or head is None or embedding.weight is head.weight:
            return self.nbytes
        return self.nbytes - embedding.weight.nbytes


def forward_for(model: PreTrainedModel) -> Forward:
    """Return the passes of a model by the first implementation that supports it, else by its modules."""
    return next((passes for make in IMPLEMENTATIONS if (passes := make(model))), None) or Modules(model)


def first_layers(model: PreTrainedModel, layers: int) -> PreTrainedModel:
    """Return a model of the first `layers` layers that shares the tensors of `model`; `model` itself if it has no more.

    Raises `AttributeError`, `RuntimeError`, `TypeError` or `KeyError` if the architecture cannot be cut.
    """
    if layers == model.config.num_hidden_layers:
        return model
    config = copy.deepcopy(model.config)
    config.num_hidden_layers = layers
    if getattr(config, "layer_types", None):
        config.layer_types = config.layer_types[:layers]
    config._attn_implementation = model.config._attn_implementation
    # The weights may have a separate output head although the configuration ties it to the embedding.
    config.tie_word_embeddings = model.get_output_embeddings().weight is model.get_input_embeddings().weight
    with init_empty_weights(include_buffers=False):
        short = type(model)(config).requires_grad_(False)
    wanted = short.state_dict().keys()
    short.load_state_dict({name: value for name, value in model.state_dict().items() if name in wanted}, assign=True)
    short.tie_weights()
    return short.to(model.device).eval()


def rollback_layers(model: PreTrainedModel) -> int:
    """Return the number of layers of a model's cache. Raises `ModelError` if the cache cannot be rolled back."""
    name = model.config.model_type
    if getattr(model, "_is_stateful", False):
        hint = "its recurrent state cannot be rolled back; choose a model with plain attention."
        raise ModelError("model", name, hint)
    layers = DynamicCache(config=model.config).layers
    if others := ", ".join(sorted({type(layer).__name__ for layer in layers if type(layer) is not DynamicLayer})):
        hint = f"its cache ({others}) cannot be rolled back; choose a model with full attention in every layer."
        raise ModelError("model", name, hint)
    return len(layers)
