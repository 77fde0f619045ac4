"""A Llama for transformers: its `generate` and other callers of the model compute with our passes.

So a lane of transformers' own speculation differs from ours only in how it speculates: the same passes, bits and text.
transformers' modules compute what our passes do not (several texts at once, hidden states, another attention), with the same
weights.
"""

from typing import Any

import torch
from accelerate import init_empty_weights
from transformers import DynamicCache, LlamaForCausalLM, PreTrainedModel
from transformers.modeling_outputs import CausalLMOutputWithPast

from ..model import loading
from ..model.lm import CachedLM
from ..model.modules import ATTENTION, attach, attached, first_layers
from ..model.shape import Shape
from .cache import CompiledCache
from .llama import Llama
from .llama_weights import Weights
from .vectors import fits

STATIC_ROPE = ("default", "linear", "llama3")
IDLE = {"use_cache", "position_ids", "cache_position", "return_dict"}  # arguments that change nothing here


class OurLlamaForCausalLM(LlamaForCausalLM):
    """transformers' class, whose passes are ours where they can be."""

    passes: Llama | None = None

    def forward(self, input_ids=None, attention_mask=None, past_key_values=None, logits_to_keep=0, **other) -> Any:
        """See transformers."""
        cache = self._cache(input_ids, attention_mask, past_key_values, logits_to_keep, other)
        if cache is None:
            return super().forward(
                input_ids=input_ids, attention_mask=attention_mask, past_key_values=past_key_values,
                logits_to_keep=logits_to_keep, **other,
            )  # fmt: skip
        lm, ids = CachedLM(self.passes), input_ids[0].tolist()
        lm.cache, lm.tokens = cache, [0] * cache.length()
        ahead = len(ids) - (logits_to_keep or len(ids))
        lm.extend(ids[:ahead])  # the most of a prompt, which is read as in every lane
        logits = lm.forward(ids[ahead:])
        lm.keep(range(len(ids) - ahead))
        return CausalLMOutputWithPast(logits=logits[None].clone(), past_key_values=past_key_values)

    def _cache(self, ids, mask, dynamic, last, other: dict[str, Any]) -> CompiledCache | None:
        """Where a pass that is ours to compute keeps its keys and values; None for others."""
        more = {name for name, value in other.items() if value is not None and value is not False} - IDLE
        available = self.passes is not None and self.passes.dtype == self.dtype and self.device.type == "cpu"
        one = ids is not None and len(ids) == 1 and (mask is None or (mask.dim() == 2 and bool(mask.all())))
        plain = isinstance(last, int) and not more and self.config._attn_implementation == ATTENTION
        if not (available and one and plain):
            return None
        cache = self.passes.new_cache() if dynamic is None else attached(dynamic)
        empty = type(dynamic) is DynamicCache and dynamic.get_seq_length() == 0
        start = 0 if cache is None else cache.length()
        in_order = torch.arange(start, start + ids.shape[1])
        places = (other.get(name) for name in ("position_ids", "cache_position"))
        if not all(given is None or torch.equal(given.view(-1), in_order) for given in places):
            return None
        if cache is None and empty:
            cache = CompiledCache(self.passes.shape.layers)
            attach(cache, dynamic)
        return cache


def llama_model(llama: Llama, folder: str) -> PreTrainedModel:
    """transformers' model over the tensors of a Llama that was read from a folder without it.

    Raises `ModelError` if transformers cannot read its small files.
    """
    config = loading.configuration(folder)
    config.num_hidden_layers = llama.shape.layers
    config._attn_implementation = ATTENTION
    with init_empty_weights(include_buffers=False):
        model = OurLlamaForCausalLM._from_config(config, dtype=llama.dtype)
    model.passes = llama
    model.requires_grad_(False).load_state_dict(llama.weights.named(llama.shape), assign=True)
    model.tie_weights()
    if settings := loading.generation(folder):
        model.generation_config = settings
    return model.eval()


def of_model(model: PreTrainedModel) -> Llama | None:
    """The compiled passes of a plain Llama on a CPU; None for other models.

    Its projections become views of joined ones; `model.generate` works as before.
    """
    shape, config = Shape.from_config(model.config), model.config
    plain = isinstance(model, LlamaForCausalLM) and not (config.attention_bias or config.mlp_bias)
    if not (plain and model.device.type == "cpu" and config._attn_implementation == ATTENTION and fits(shape)):
        return None
    if config.hidden_act != "silu" or config.rope_parameters.get("rope_type", "default") not in STATIC_ROPE:
        return None
    tensors = {name: tensor.data for name, tensor in model.named_parameters()}
    rotary = model.model.rotary_emb
    weights = Weights.of(tensors, shape.layers, config.rms_norm_eps, rotary.inv_freq, rotary.attention_scaling)
    for name, view in weights.named(shape).items():
        model.get_parameter(name).data = view
    return Llama(shape, weights, lambda llama: first_layers(model, llama.shape.layers))
