"""Llama's forward pass written out: the same numbers as transformers' modules, in fewer steps.

A small model's pass on a CPU is mostly the cost of starting kernels. Here q, k and v come from one
product, gate and up from another, queries and keys are rotated together, and no module, hook or
mask machinery stands between two kernels. The arithmetic, and the order of every rounding, is
that of `transformers.models.llama`, so the logits have the same bits where the machine's kernels
allow it; a test compares them. The weights are the model's own: its projections become views of
the joined ones, and `model.generate` works as before.

For plain Llama models on a CPU; everything else goes through transformers. Knows tensors; it does
not know tokens' meaning, drafts or caches beyond `RoomyLayer.update`.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch.nn.functional import linear, silu
from transformers import LlamaForCausalLM, PreTrainedModel

from .attention import Layout, attend

STATIC_ROPE = ("default", "linear", "llama3")


@dataclass(frozen=True, slots=True)
class Layer:
    """The weights of one layer, as many in one as can be."""

    norm1: torch.Tensor
    qkv: torch.Tensor
    out: torch.Tensor
    norm2: torch.Tensor
    gate_up: torch.Tensor
    down: torch.Tensor


def fused(model: PreTrainedModel) -> FusedLlama | None:
    """The written-out pass of a model, made once; None where it does not apply."""
    if type(model) is not LlamaForCausalLM or model.device.type != "cpu":
        return None
    config = model.config
    if config.attention_bias or config.mlp_bias or config.hidden_act != "silu":
        return None
    if config.rope_parameters.get("rope_type", "default") not in STATIC_ROPE:
        return None
    held = getattr(model, "_lookahead_fused", None)
    if held is None:
        held = model._lookahead_fused = FusedLlama(model)
    return held


def _joined(*projections: torch.nn.Linear) -> torch.Tensor:
    """One weight for several projections, which become views of it (or are already, in a model that shares them)."""
    held = [p.weight.data for p in projections]
    ends = [w.data_ptr() + w.nbytes for w in held]
    if len({w.untyped_storage().data_ptr() for w in held}) == 1 and ends[:-1] == [w.data_ptr() for w in held[1:]]:
        return held[0].as_strided((sum(len(w) for w in held), held[0].shape[1]), (held[0].shape[1], 1))
    weight = torch.cat([p.weight.data for p in projections])
    start = 0
    for p in projections:
        stop = start + p.weight.shape[0]
        p.weight.data = weight[start:stop]
        start = stop
    return weight


class FusedLlama:
    """Callable on the rows of one pass; holds references to the model's weights."""

    @torch.inference_mode()
    def __init__(self, model: LlamaForCausalLM):
        config, inner = model.config, model.model
        self.heads, self.kv_heads = config.num_attention_heads, config.num_key_value_heads
        self.dim = getattr(config, "head_dim", None) or config.hidden_size // self.heads
        self.eps, self.scaling = config.rms_norm_eps, self.dim**-0.5
        self.embed, self.norm, self.head = inner.embed_tokens.weight, inner.norm.weight, model.lm_head.weight
        self.layers = [
            Layer(
                layer.input_layernorm.weight,
                _joined(layer.self_attn.q_proj, layer.self_attn.k_proj, layer.self_attn.v_proj),
                layer.self_attn.o_proj.weight,
                layer.post_attention_layernorm.weight,
                _joined(layer.mlp.gate_proj, layer.mlp.up_proj),
                layer.mlp.down_proj.weight,
            )
            for layer in inner.layers
        ]
        every = torch.arange(config.max_position_embeddings)[None]
        cos, sin = inner.rotary_emb(self.embed[:1], position_ids=every)
        half = self.dim // 2
        # rotate_half(x) is [-x2, x1]: the sign goes into the table, so that turning is one roll.
        self.cos, self.sin = cos[0], torch.cat([-sin[0, :, :half], sin[0, :, half:]], dim=-1)

    def _normed(self, x: torch.Tensor, weight: torch.Tensor) -> torch.Tensor:
        wide = x.float()
        return weight * (wide * torch.rsqrt(wide.pow(2).mean(-1, keepdim=True) + self.eps)).to(x.dtype)

    def _product(self, x: torch.Tensor, weight: torch.Tensor) -> torch.Tensor:
        return linear(x, weight)

    def _attended(self, query: torch.Tensor, keys: torch.Tensor, values: torch.Tensor, rows: Layout) -> torch.Tensor:
        return attend(query, keys, values, self.scaling, None, rows)

    def __call__(
        self, ids: torch.Tensor, positions: torch.Tensor | slice, cache, rows: Layout, only: slice
    ) -> torch.Tensor:
        """Logits [rows, vocab], or of the rows in `only`, for ids [rows] at positions [rows], a slice for a chain."""
        n = ids.shape[0]
        turned = self.heads + self.kv_heads
        x = self.embed[ids]
        cos, sin = self.cos[positions][:, None], self.sin[positions][:, None]
        for layer, held in zip(self.layers, cache.layers, strict=True):
            qkv = self._product(self._normed(x, layer.norm1), layer.qkv).view(n, turned + self.kv_heads, self.dim)
            qk = qkv[:, :turned]
            qk = qk * cos + qk.roll(self.dim // 2, -1) * sin
            keys, values = held.update(qk[:, self.heads :].transpose(0, 1)[None], qkv[:, turned:].transpose(0, 1)[None])
            mixed = self._attended(qk[:, : self.heads].transpose(0, 1)[None], keys, values, rows)
            x = x + self._product(mixed.view(n, -1), layer.out)
            gate, up = self._product(self._normed(x, layer.norm2), layer.gate_up).chunk(2, dim=-1)
            x = x + self._product(silu(gate) * up, layer.down)
        return self._product(self._normed(x[only], self.norm), self.head)
