"""Forward passes through transformers' modules, for any architecture and device.

Registers our attention with transformers under the name `ATTENTION`. The attention raises for arguments that it does not
implement, so no argument is silently ignored. The rows of a tree have an additive mask of four dimensions.

The import takes seconds, mostly for transformers. Families of plain Llamas load without it (`kernels.llama_weights`).
"""

from __future__ import annotations

import copy
import inspect
from collections.abc import Iterator, Sequence
from typing import Any

import torch
from accelerate import init_empty_weights
from transformers import AttentionInterface, AttentionMaskInterface, DynamicCache, PreTrainedConfig, PreTrainedModel
from transformers.cache_utils import (
    DummyLayer,
    DynamicIndexedLayer,
    DynamicLayer,
    DynamicSlidingWindowLayer,
    LinearAttentionAndFullAttentionLayer,
    LinearAttentionAndSlidingWindowAttentionLayer,
    LinearAttentionLayer,
)  # fmt: skip
from transformers.masking_utils import eager_mask

from ..core.events import ModelError
from ..core.tree import ancestor_mask, depths, is_chain
from . import outside, recurrent
from .cache import CacheLayer, KeyValueCache
from .experts import Routing
from .forward import ALL_ROWS, IMPLEMENTATIONS, Forward, Mixture, Rollback
from .paths import Paths
from .shape import Shape

ATTENTION, TRIAL = "lookahead", "lookahead-trial"
ROUNDING = 0.05  # relative to the largest logit: a larger difference is not rounding
OTHER = "choose a plain decoder, such as Llama or Qwen."
CACHES = {"past_key_values", "cache_params"}  # names of a pass's argument for the cache
# Layers of transformers' cache that can be rolled back here. Recurrent layers are `LinearAttention...`.
ROLLED_BACK = {
    DynamicLayer, DynamicSlidingWindowLayer, DynamicIndexedLayer, LinearAttentionLayer, LinearAttentionAndFullAttentionLayer,
    LinearAttentionAndSlidingWindowAttentionLayer, DummyLayer,
}  # fmt: skip
# Arguments that models pass to attention and that do not change its result.
INERT = {
    "position_ids", "cache_position", "use_cache", "output_attentions", "output_hidden_states", "return_dict",
    "output_router_logits", "logits_to_keep", "deterministic", "cu_seq_lens_q", "cu_seq_lens_k", "max_length_q", "max_length_k",
}  # fmt: skip


def attend(
    module, query, key, value, attention_mask, scaling=None, dropout=0.0, softcap=None, s_aux=None, is_causal=None,
    sliding_window=None, indices=None, **others,
):  # fmt: skip
    """Return attention [batch, rows, heads, dim] and None, computed in plain torch with transformers' interface.

    `query` is [batch, heads, rows, dim], `key` and `value` are [batch, kv heads, keys, dim]; `attention_mask`
    [batch, 1, rows, keys] is additive, or has the distance of each key in tokens (`distances`). With a `sliding_window`, a row
    attends to that many tokens, itself included. Query heads that share a key head are one matrix product. `s_aux` are attention
    sinks: a further score per head that takes weight and has no value. `indices` [batch, rows, n] are the keys that an indexer
    selected for a row; it attends to no others. Raises `ModelError` for arguments that would change the
    result and are not implemented.
    """
    ignored = sorted(name for name, value in others.items() if value is not None and name not in INERT)
    if ignored:
        raise _unsupported(module, f"its attention takes {', '.join(ignored)}, which is not implemented here")
    if is_causal is False or getattr(module, "is_causal", True) is False:
        raise _unsupported(module, "its attention is not causal")
    scaling = query.shape[-1] ** -0.5 if scaling is None else scaling
    batch, heads, rows, dim = query.shape
    kv_heads, keys = key.shape[1:3]
    grouped = query.reshape(batch, kv_heads, heads // kv_heads * rows, dim)
    scores = torch.matmul(grouped, key.transpose(2, 3)) * scaling
    if softcap is not None:
        scores = torch.tanh(scores / softcap) * softcap
    scores = scores.view(batch, heads, rows, keys)
    if attention_mask is not None and attention_mask.is_floating_point():
        scores = scores + attention_mask  # some models add more than 0 or the lowest number
    elif attention_mask is not None:
        hidden = attention_mask < 0
        if sliding_window is not None:
            hidden = hidden | (attention_mask >= sliding_window)
        if chunk := _chunk(module):  # the first key has the position of the row as its distance
            hidden = hidden | (attention_mask > attention_mask[..., :1] % chunk)
        scores = scores.masked_fill(hidden, torch.finfo(scores.dtype).min)
    if indices is not None:
        unselected = torch.ones(batch, rows, keys, dtype=torch.bool, device=scores.device).scatter(
            -1, indices.long(), False
        )
        scores = scores.masked_fill(unselected[:, None], torch.finfo(scores.dtype).min)
    if s_aux is not None:
        scores = torch.cat([scores, s_aux.to(scores.dtype).view(1, -1, 1, 1).expand(batch, heads, rows, 1)], -1)
    weights = torch.softmax(scores, dim=-1, dtype=torch.float32).to(value.dtype)[..., :keys]
    mixed = torch.matmul(weights.reshape(batch, kv_heads, heads // kv_heads * rows, keys), value)
    return mixed.reshape(batch, heads, rows, value.shape[3]).transpose(1, 2).contiguous(), None


def _chunk(module: Any) -> int | None:
    """Return the length of the chunks to which a layer's attention is limited; None without chunks."""
    kinds = getattr(getattr(module, "config", None), "layer_types", None)
    is_chunked = kinds and kinds[getattr(module, "layer_idx", None) or 0] == "chunked_attention"
    return module.config.attention_chunk_size if is_chunked else None


def _unsupported(module: torch.nn.Module, reason: str) -> ModelError:
    kind = getattr(getattr(module, "config", None), "model_type", type(module).__name__)
    return ModelError("model", kind, f"{reason}; {OTHER}")


def _try(module, query, key, value, attention_mask, sliding_window=None, **others):
    """`attend` in a trial pass over a tree. It adds to `module.trials` whether the mask is unchanged, and the window."""
    is_unchanged = attention_mask is not None and attention_mask.dtype == torch.long
    module.trials = [*getattr(module, "trials", ()), (is_unchanged, sliding_window or _chunk(module))]
    return attend(module, query, key, value, attention_mask, sliding_window=sliding_window, **others)


AttentionInterface.register(ATTENTION, attend)
AttentionInterface.register(TRIAL, _try)
AttentionMaskInterface.register(ATTENTION, eager_mask)
AttentionMaskInterface.register(TRIAL, eager_mask)


class _ModulesLayer(DynamicLayer):
    """A layer of transformers' cache that stores its rows in a `CacheLayer`."""

    def __init__(self, layer: CacheLayer):
        super().__init__()
        self.layer = layer

    def update(self, key_states, value_states, *args, **kwargs):
        return _updated(self.layer, key_states, value_states)

    def get_seq_length(self) -> int:
        return self.layer.length

    def crop(self, tokens_to_remove: int) -> None:
        self.layer.length -= abs(int(tokens_to_remove))


def _updated(layer: CacheLayer, *added: torch.Tensor) -> Any:
    """Append keys and values [texts, heads, rows, dim]; return those that each text attends to."""
    paths, base = layer.cache.paths, layer.length
    if paths is None:
        return layer.update(*added)
    stored = layer.update(*(paths.by_row(tensor.transpose(1, 2)).transpose(1, 2) for tensor in added))
    return tuple(paths.after(base, tensor) for tensor in stored)


class _IndexedLayer(_ModulesLayer, DynamicIndexedLayer):
    """A layer with keys of an indexer, which selects the keys that a row attends to. They are in another `CacheLayer`."""

    def __init__(self, layer: CacheLayer, index: CacheLayer):
        super().__init__(layer)
        self._index = index

    @property
    def indexer_position_ids(self) -> torch.Tensor | None:
        """The positions of the stored keys [time, height and width; texts; tokens]. In a text, tokens are numbered."""
        paths, positions = self._index.cache.paths, torch.arange(self._index.length, device=self._index.keys.device)
        return positions.expand(3, len(paths) if paths else 1, -1) if len(positions) else None

    @indexer_position_ids.setter
    def indexer_position_ids(self, positions: torch.Tensor | None) -> None:
        pass

    def update_indexer(self, indexer_key_states):
        keys = indexer_key_states[:, None]  # one head; values of width 0
        return _updated(self._index, keys, keys[..., :0])[0][:, 0]


class _HybridLayer(LinearAttentionLayer, _ModulesLayer):
    """A layer of transformers' cache with recurrent states, and with rows in a `CacheLayer`."""

    def __init__(self, layer: CacheLayer, states: int):
        _ModulesLayer.__init__(self, layer)
        LinearAttentionLayer.__init__(self, number_of_states=states)


class ModulesCache(KeyValueCache):
    """A `KeyValueCache` with a transformers cache over the same layers."""

    def __init__(self, config: PreTrainedConfig):
        self.dynamic = outside.cache_of(config)
        stored = [layer for layer in self.dynamic.layers if isinstance(layer, DynamicLayer)]
        super().__init__(len(stored) + sum(isinstance(layer, DynamicIndexedLayer) for layer in stored))
        rest = iter(self.layers)
        self._windows = [isinstance(layer, DynamicSlidingWindowLayer) for layer in self.dynamic.layers]
        self.dynamic.layers = [_layer(layer, rest) for layer in self.dynamic.layers]

    def written(self) -> tuple[int, int]:
        """Return the number of layers with keys, and of those with a window."""
        layers = zip(self.dynamic.layers, self._windows, strict=True)
        written = [window for layer, window in layers if isinstance(layer, _ModulesLayer) and layer.layer in self.used]
        return len(written), sum(written)


def _layer(layer: Any, rest: Iterator[CacheLayer]) -> Any:
    """Return the layer of transformers' cache to use instead of `layer`; its keys and values are in the next of `rest`."""
    if not isinstance(layer, DynamicLayer):
        return layer
    if isinstance(layer, LinearAttentionLayer):
        return _HybridLayer(next(rest), layer.number_of_states)
    if isinstance(layer, DynamicIndexedLayer):
        return _IndexedLayer(next(rest), next(rest))
    return _ModulesLayer(next(rest))


class _RecurrentCache(recurrent.StateCache, ModulesCache):
    """A `ModulesCache` with recurrent states."""


def attach(cache: KeyValueCache, dynamic: DynamicCache) -> None:
    """Make an empty transformers cache read and write the layers of `cache`."""
    dynamic.layers = [_ModulesLayer(layer) for layer in cache.layers]


def attached(dynamic: DynamicCache) -> KeyValueCache | None:
    """Return the cache that `attach` connected with a transformers cache, or None."""
    layer = next(iter(dynamic.layers), None)
    return layer.layer.cache if isinstance(layer, _ModulesLayer) else None


def distances(parents: Sequence[int], base: int, first: int, device: torch.device) -> torch.Tensor:
    """Return the mask of a tree after `base` tokens, from the row `first` on, [1, 1, rows, base + rows].

    It has the distance in tokens from a row to each key that it may attend to, and -1 for other keys.
    """
    places = torch.cat([torch.arange(base), base - 1 + torch.tensor(depths(parents))])
    visible = torch.cat([torch.ones(len(parents), base, dtype=torch.bool), torch.tensor(ancestor_mask(parents))], 1)
    apart = torch.where(visible, places[base:, None] - places, -1)
    return apart[None, None, first:].to(device)


class Modules(Forward):
    """The passes of a transformers model. Raises `ModelError` if its cache cannot be rolled back."""

    def __init__(self, model: PreTrainedModel):
        self._model, self._rollback, self._routing = model, rollback_of(model), Routing(model)
        self.shape = Shape.from_config(model.config)
        self._arguments = inspect.signature(model.forward).parameters.keys()
        self._caches = () if model.config.model_type in outside.KEYLESS else CACHES & self._arguments
        layers = outside.cache_of(model.config).layers
        self.is_plain = not self._rollback.by_paths and all(type(layer) is DynamicLayer for layer in layers)
        if self._rollback.recurrent:
            if len(self.devices) > 1:
                raise ModelError(
                    "model",
                    model.config.model_type,
                    "its recurrent layers cannot be spread over several GPUs; choose a smaller one.",
                )
            recurrent.split(model)
            if self.device.type != "meta":
                self._rollback = self._rollback._replace(row_by_row=self._steps())

    @property
    def model(self) -> PreTrainedModel:
        return self._model

    @property
    def rollback(self) -> Rollback:
        return self._rollback

    @property
    def mixture(self) -> Mixture | None:
        return self._routing.mixture

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
        return (_RecurrentCache if self.rollback.recurrent else ModulesCache)(self.model.config)

    def prepare_rows(
        self, parents: Sequence[int], base: int, first: int, cache: KeyValueCache
    ) -> torch.Tensor | Paths | None:
        if is_chain(parents):
            return None
        if self.rollback.by_paths:
            return Paths(parents)
        if self.rollback.windows or self.model.config._attn_implementation == TRIAL:
            return distances(parents, base, first, self.device)
        return super().prepare_rows(parents, base, first, cache)

    @torch.inference_mode()
    def __call__(self, ids, positions, cache: ModulesCache, rows: torch.Tensor | Paths | None, only: slice = ALL_ROWS):
        if isinstance(positions, slice):
            positions = torch.arange(positions.start, positions.stop, device=self.device)
        start = cache.length()
        cache.paths = rows if isinstance(rows, Paths) else None
        with cache.computing(len(ids)):
            out = self._output(ids, positions, cache.dynamic, rows, only, len(cache.taps) > 0)
        self._keep_states(out, cache, start, len(ids))
        cache.chosen_experts = self._routing.chosen()
        return out.logits[0]

    def _output(
        self, ids, positions, dynamic: DynamicCache, rows: torch.Tensor | Paths | None, only: slice, states: bool
    ) -> Any:
        """Return transformers' output of a pass over ids [rows] at positions [rows], with hidden states if `states` is set."""
        paths = rows if isinstance(rows, Paths) else None
        ids, positions = (paths.batch(part) if paths else part[None] for part in (ids, positions))
        # `only` is a slice, because the last layers may be on another GPU than the first.
        options = {
            "position_ids": positions, "attention_mask": None if paths else rows, "logits_to_keep": ALL_ROWS if paths else only,
            "use_cache": bool(self._caches), **dict.fromkeys(self._caches, dynamic)
        }  # fmt: skip
        accepted = {name: value for name, value in options.items() if name in self._arguments}
        out = self.model(input_ids=ids, output_hidden_states=states, **accepted)
        if paths:
            out.logits, out.hidden_states = paths.by_row(out.logits), paths.by_row(out.hidden_states or ())
        if paths or "logits_to_keep" not in accepted:
            out.logits = out.logits[:, only]
        return out

    def _keep_states(self, out: Any, cache: KeyValueCache, start: int, count: int) -> None:
        """Store the hidden states of a pass's first `count` rows from column `start` on, if the cache has taps."""
        if len(cache.taps):
            tapped = [out.hidden_states[layer][0, :count].to(self.device) for layer in cache.taps]
            cache.states(start, start + count).copy_(torch.cat(tapped, -1))

    def _steps(self) -> bool:
        """Return whether recurrent layers compute row by row, because they cannot continue a state with several rows."""
        layers = recurrent.mixers(self.model)
        if any(layer.stepwise is None for layer in layers):
            recurrent.set_stepwise(layers, False)
            recurrent.set_stepwise(layers, not self._continues())
        return any(layer.stepwise for layer in layers)

    def _continues(self) -> bool:
        """Return whether a pass of several rows continues the state of the pass before."""
        ids, logits = torch.arange(6, device=self.device) + 1, []
        for cuts in ((2, 6), (2, 3, 4, 5, 6)):
            cache: Any = self.new_cache()
            start, out = 0, ids
            for stop in cuts:
                cache.snapshot(range(-1, stop - start - 1), start, start)
                out = self(ids[start:stop], slice(start, stop), cache, None)
                start = stop
            logits.append(out[-1].float())
        together, alone = logits
        return bool((together - alone).abs().max() <= ROUNDING * alone.abs().max())

    def first(self, layers: int) -> Modules:
        return Modules(first_layers(self.model, layers))

    def converted(self, dtype: torch.dtype) -> Modules:
        model = copy.deepcopy(self.model)
        for parameter in model.parameters():  # not buffers: rotary tables stay float32
            if parameter.is_floating_point():  # packed weights stay
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

    Raises an error of `layer_skip.CUT_ERRORS` if the architecture cannot be cut.
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
    if short.config.num_hidden_layers != layers:
        raise ValueError(f"the architecture cannot have {layers} layers")
    wanted = short.state_dict().keys()
    short.load_state_dict({name: value for name, value in model.state_dict().items() if name in wanted}, assign=True)
    short.tie_weights()
    return short.to(model.device).eval()


def rollback_of(model: PreTrainedModel, attention: str | None = None) -> Rollback:
    """Return how a model's cache is rolled back with `attention`, by default the model's. Raises `ModelError` if it cannot be."""
    layers, config = outside.cache_of(model.config).layers, model.config.get_text_config()
    kinds = set(getattr(config, "layer_types", None) or ())
    others = {type(layer).__name__ for layer in layers if type(layer) not in ROLLED_BACK}
    states = sum(isinstance(layer, LinearAttentionLayer) for layer in layers)
    is_plain = bool(kinds) and kinds <= {"full_attention", "sliding_attention"}
    if getattr(model, "_is_stateful", False) and not states and not is_plain:
        others.add("a state outside the cache")
    if others:
        hint = f"its cache ({', '.join(sorted(others))}) cannot be rolled back; {OTHER}"
        raise ModelError("model", model.config.model_type, hint)
    keys, windows, indexers = (
        sum(isinstance(layer, kind) for layer in layers)
        for kind in (DynamicLayer, DynamicSlidingWindowLayer, DynamicIndexedLayer)
    )
    attention = attention or model.config._attn_implementation
    # A mask of distances is for our attention only: sdpa and indexers add it to their scores. Other attention may ignore masks.
    takes_distances = attention in (ATTENTION, TRIAL)
    follows_mask = not (windows and indexers) if takes_distances else attention == "sdpa" and not windows
    has_positions = "position_ids" in inspect.signature(model.forward).parameters
    return Rollback(keys, windows, states, by_paths=keys > 0 and not (follows_mask and has_positions))
