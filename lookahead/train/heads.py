"""New networks of trained heads for a target, and the weights of the losses of their drafted tokens.

Verification accepts a prefix of the draft, so later tokens are reached less often and have less weight.
"""

from __future__ import annotations

from dataclasses import replace

import torch
from torch import nn
from transformers import PreTrainedModel

from ..model.heads.head import NETWORKS
from ..model.heads.shape import BLOCK, EAGLE, MEDUSA, HeadShape, usual_taps

SLOTS = {MEDUSA: 4, BLOCK: 8}  # tokens per draft
LAYERS = {MEDUSA: 1, EAGLE: 1, BLOCK: 2}
RANK = 64  # rank of the Markov head
FADING = 4.0  # tokens after which the weight of a drafted token's loss is 1 / e
CONFIDENCE = 0.2  # weight of the confidence head's loss
# Sizes of a head that drafts only some tokens of a large vocabulary, so that both kinds fit 18 MB.
LARGE = {BLOCK: {"inner": 512, "rank": 24}, EAGLE: {"inner": 192}}
WIDEST = 1024  # largest feed-forward width of a new head


def new_head(
    kind: str, target: PreTrainedModel, mask: int, seed: int, known: torch.Tensor | None = None, **changes: int
) -> nn.Module:
    """Return an untrained head for a Llama-like target.

    `mask` is the token whose embedding fills the slots of a block. `known` are the tokens that the head can draft, None for
    all. `changes` override sizes.
    """
    torch.manual_seed(seed)
    config = target.config
    heads, dim = config.num_attention_heads, getattr(config, "head_dim", None)
    sizes = {
        "hidden": config.hidden_size, "vocab": config.vocab_size, "taps": usual_taps(kind, config.num_hidden_layers),
        "slots": SLOTS.get(kind, 1), "layers": LAYERS[kind], "eps": config.rms_norm_eps,
    }  # fmt: skip
    if kind == MEDUSA:
        shape = HeadShape(kind, **sizes, biased=True)
    else:
        sizes |= {
            "heads": heads, "kv_heads": config.num_key_value_heads or heads, "head_dim": dim or config.hidden_size // heads,
            "inner": min(config.intermediate_size, WIDEST), "draft_vocab": 0 if known is None else len(known),
            "theta": float(config.rope_parameters["rope_theta"]),
        }  # fmt: skip
        block = {
            "head_norms": True, "window": config.max_position_embeddings, "mask": mask, "rank": RANK, "confident": True,
        }  # fmt: skip
        sizes |= block if kind == BLOCK else {}
        shape = HeadShape(kind, **sizes | (LARGE[kind] if known is not None else {}))
    network = NETWORKS[kind](replace(shape, **changes), *tables(target, known))
    if kind != MEDUSA:
        network.norm.weight.data.copy_(target.base_model.norm.weight)
    return network


def tables(target: PreTrainedModel, known: torch.Tensor | None = None) -> tuple[torch.Tensor, torch.Tensor]:
    """Return a target's embedding [vocab, hidden] and output head, of which only the rows of `known` tokens."""
    head = target.get_output_embeddings().weight.detach()
    return target.get_input_embeddings().weight.detach(), head if known is None else head[known]


def weighted(losses: torch.Tensor) -> torch.Tensor:
    """Return the mean of [..., slots], in which later slots have less weight."""
    weights = torch.exp(-torch.arange(losses.shape[-1], device=losses.device) / FADING)
    return (losses * weights).mean() / weights.mean()
