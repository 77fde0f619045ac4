"""A Llama for transformers: `generate` and other callers of the model compute with our passes.

A lane of transformers' speculative decoding then differs from ours only in how it speculates: passes, bits and text are
the same. transformers' modules compute everything else (several texts at once, hidden states, another attention) with
the same weights.
"""

from dataclasses import replace
from typing import Any

import torch
from accelerate import init_empty_weights
from transformers import DynamicCache, LlamaForCausalLM, PreTrainedModel
from transformers.modeling_outputs import CausalLMOutputWithPast

from ..model import loading
from ..model.llama_config import SIMILAR, STATIC_ROPE
from ..model.lm import CachedLM
from ..model.modules import ATTENTION, ROUNDING, attach, attached, first_layers
from ..model.shape import Shape
from .cache import CompiledCache
from .llama import Llama
from .llama_weights import Weights
from .records import Factors
from .vectors import supports

DTYPES = (torch.bfloat16, torch.float32)
COMPARED_TOKENS, COMPARED_VOCAB = 8, 256
IGNORED = {"use_cache", "position_ids", "cache_position", "return_dict"}  # arguments without effect here


class CompiledLlamaForCausalLM(LlamaForCausalLM):
    """transformers' class with compiled passes. It uses transformers' modules for unsupported arguments."""

    passes: Llama | None = None

    def forward(self, input_ids=None, attention_mask=None, past_key_values=None, logits_to_keep=0, **other) -> Any:
        """Return logits and the cache, as transformers' `LlamaForCausalLM.forward` does."""
        cache = self._cache(input_ids, attention_mask, past_key_values, logits_to_keep, other)
        if cache is None:
            return super().forward(
                input_ids=input_ids, attention_mask=attention_mask, past_key_values=past_key_values,
                logits_to_keep=logits_to_keep, **other,
            )  # fmt: skip
        lm, ids = CachedLM(self.passes), input_ids[0].tolist()
        lm.cache, lm.tokens = cache, [0] * cache.length()
        prefix_length = len(ids) - (logits_to_keep or len(ids))
        lm.extend(ids[:prefix_length])  # most of a prompt, read as in other lanes
        logits = lm.forward(ids[prefix_length:])
        lm.keep(range(len(ids) - prefix_length))
        return CausalLMOutputWithPast(logits=logits[None].clone(), past_key_values=past_key_values)

    def _cache(self, ids, mask, dynamic, logits_to_keep, other: dict[str, Any]) -> CompiledCache | None:
        """Return the cache for a compiled pass; None if compiled passes do not support the arguments."""
        others = {name for name, value in other.items() if value is not None and value is not False} - IGNORED
        available = self.passes is not None and self.passes.dtype == self.dtype and self.device.type == "cpu"
        single_text = ids is not None and len(ids) == 1 and (mask is None or (mask.dim() == 2 and bool(mask.all())))
        standard = isinstance(logits_to_keep, int) and not others and self.config._attn_implementation == ATTENTION
        if not (available and single_text and standard):
            return None
        cache = self.passes.new_cache() if dynamic is None else attached(dynamic)
        empty = type(dynamic) is DynamicCache and dynamic.get_seq_length() == 0
        start = 0 if cache is None else cache.length()
        consecutive = torch.arange(start, start + ids.shape[1])
        position_arguments = (other.get(name) for name in ("position_ids", "cache_position"))
        if not all(position is None or torch.equal(position.view(-1), consecutive) for position in position_arguments):
            return None
        if cache is None and empty:
            cache = self.passes.new_cache()
            attach(cache, dynamic)
        return cache


def llama_model(llama: Llama, folder: str) -> PreTrainedModel:
    """Build transformers' model of a Llama from a folder. Raises `ModelError` if its small files cannot be read."""
    config = loading.configuration(folder)
    config.num_hidden_layers = llama.shape.layers
    config._attn_implementation = ATTENTION
    with init_empty_weights(include_buffers=False):
        model = CompiledLlamaForCausalLM._from_config(config, dtype=llama.dtype)
    model.passes = llama
    model.requires_grad_(False).load_state_dict(llama.weights.named(llama.shape), assign=True)
    model.tie_weights()
    if settings := loading.generation(folder):
        model.generation_config = settings
    return model.eval()


def of_model(model: PreTrainedModel) -> Llama | None:
    """See `kernels.of_model`. The model's projections become views of joined weights; `generate` works as before."""
    shape, config = Shape.from_config(model.config), model.config
    similar = any(base.__name__ in SIMILAR for base in type(model).__mro__) and config.hidden_act == "silu"
    packed = getattr(model, "is_quantized", False)  # modules of other classes compute its products
    fits = model.device.type == "cpu" and config._attn_implementation == ATTENTION and supports(shape)
    if packed or not (similar and fits):
        return None
    weights = _weights(model, shape)
    if weights is None or not _agree(model, shape, weights):
        return None
    for name, view in weights.named(shape).items():
        model.get_parameter(name).data = view
    return Llama(shape, weights, lambda llama: first_layers(model, llama.shape.layers))


def _weights(model: PreTrainedModel, shape: Shape) -> Weights | None:
    """Return the weights of a model similar to a Llama; None if it has others, or its positions are not supported."""
    tensors = {name: tensor.data for name, tensor in model.named_parameters()}
    rope, decoder, config = model.model.rotary_emb, model.model, model.config
    static = config.rope_parameters.get("rope_type", "default") in STATIC_ROPE
    formats = {tensor.dtype for tensor in tensors.values()}
    if not static or 2 * len(rope.inv_freq) != shape.head_dim or not any(formats == {dtype} for dtype in DTYPES):
        return None
    attention = [layer.self_attn for layer in decoder.layers]
    factors = Factors(
        attention[0].scaling, getattr(decoder, "embedding_multiplier", 1.0),
        getattr(decoder.layers[0], "residual_multiplier", 1.0), 1 / getattr(config, "logits_scaling", 1.0),
    )  # fmt: skip
    try:
        weights = Weights.from_tensors(
            tensors, shape.layers, config.rms_norm_eps, rope.inv_freq, rope.attention_scaling, factors
        )
    except KeyError:  # for example quantized weights
        return None
    windows = [getattr(layer, "sliding_window", 0) for layer in DynamicCache(config=config).layers]
    layers = [
        layer._replace(window=window, rotated=bool(getattr(module, "use_rope", True)))
        for layer, module, window in zip(weights.layers, attention, windows, strict=True)
    ]
    return replace(weights, layers=layers) if tensors.keys() <= weights.named(shape).keys() else None


@torch.inference_mode()
def _agree(model: PreTrainedModel, shape: Shape, weights: Weights) -> bool:
    """Return whether compiled passes and modules compute the same logits, except for rounding.

    Compares a few tokens after the first layers, which include one of each kind. Other versions of transformers may compute
    values that `_weights` does not read.
    """
    kinds = [(layer.window, layer.rotated) for layer in weights.layers]
    depth, vocab = 1 + max(map(kinds.index, kinds)), min(COMPARED_VOCAB, shape.vocab)
    first = replace(weights, layers=weights.layers[:depth], head=weights.head[:vocab])
    ids = torch.arange(COMPARED_TOKENS) % vocab
    compiled = CachedLM(Llama(replace(shape, layers=depth, vocab=vocab), first, lambda _: model)).forward(ids.tolist())
    expected = first_layers(model, depth)(input_ids=ids[None], use_cache=False).logits[0, :, :vocab].float()
    return bool((compiled.float() - expected).abs().max() <= ROUNDING * expected.abs().max())
