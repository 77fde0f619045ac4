"""Trained heads: new networks for a target, and the losses that train them on text that the target wrote.

The target is frozen. A head reads its hidden states and learns its distributions. Verification accepts a prefix of the draft,
so later tokens are reached less often and have less weight.
"""

from abc import ABC, abstractmethod
from dataclasses import replace
from typing import Any

import numpy as np
import torch
from torch import nn
from torch.nn.functional import binary_cross_entropy_with_logits, linear, log_softmax
from transformers import PreTrainedModel

from ..model.heads.head import NETWORKS
from ..model.heads.shape import BLOCK, EAGLE, MEDUSA, MTP, HeadShape, default_taps
from ..model.shape import Shape
from .rows import Rows, target_outputs

SLOTS = {MEDUSA: 4, BLOCK: 8}  # tokens per draft
STEPS = 4  # tokens that an EAGLE or MTP head drafts in training
LAYERS = {MEDUSA: 1, MTP: 1, EAGLE: 1, BLOCK: 2}
RANK = 64  # rank of the Markov head
STRIDE = {MEDUSA: 2, BLOCK: 4}  # tokens between the drafts of a text
FADING = 4.0  # tokens after which the weight of a drafted token's loss is 1 / e
CONFIDENCE = 0.2  # weight of the confidence head's loss
LARGE_VOCAB = 16_384  # tokens; for a larger vocabulary a head drafts only the most frequent ones
KNOWN = 8192  # tokens that such a head can draft
LARGE = {BLOCK: {"inner": 512, "rank": 24}, EAGLE: {"inner": 192}}  # sizes for such a target: both heads fit 18 MB
WIDEST = {MTP: 432, EAGLE: 1024, BLOCK: 1024}  # largest feed-forward width of a new head


def new_head(
    kind: str, target: PreTrainedModel, mask: int, seed: int, known: torch.Tensor | None = None, **changes: int
) -> nn.Module:
    """Return an untrained head for a Llama-like target, in which `changes` override sizes.

    `mask` is the token whose embedding fills the slots of a block. Only `known` tokens can be drafted; None allows all.
    """
    torch.manual_seed(seed)
    config = target.config
    heads, dim = config.num_attention_heads, getattr(config, "head_dim", None)
    sizes = {
        "hidden": config.hidden_size, "vocab": config.vocab_size, "taps": default_taps(kind, config.num_hidden_layers),
        "slots": SLOTS.get(kind, 1), "layers": LAYERS[kind], "eps": config.rms_norm_eps,
    }  # fmt: skip
    if kind == MEDUSA:
        shape = HeadShape(kind, **sizes, biased=True)
    else:
        sizes |= {
            "heads": heads, "kv_heads": config.num_key_value_heads or heads, "head_dim": dim or config.hidden_size // heads,
            "inner": min(config.intermediate_size, WIDEST[kind]), "draft_vocab": 0 if known is None else len(known),
            "theta": float(config.rope_parameters["rope_theta"]),
        }  # fmt: skip
        if kind == MTP:
            sizes |= {"head_norms": True, "output_normed": True}
        if kind == BLOCK:
            sizes |= {"head_norms": True, "window": config.max_position_embeddings, "mask": mask, "rank": RANK}
            sizes["confident"] = True
        shape = HeadShape(kind, **sizes | (LARGE[kind] if known is not None else {}))
    network = NETWORKS[kind](replace(shape, **changes), *tables(target, known))
    if kind != MEDUSA:
        network.norm.weight.data.copy_(target.base_model.norm.weight)
    return network


def tables(target: PreTrainedModel, known: torch.Tensor | None = None) -> tuple[torch.Tensor, torch.Tensor]:
    """Return a target's embedding [vocab, hidden] and its output head, restricted to the rows of `known` tokens."""
    head = target.get_output_embeddings().weight.detach()
    return target.get_input_embeddings().weight.detach(), head if known is None else head[known]


def frequent(rows: np.ndarray, vocab: int, mask: int) -> torch.Tensor | None:
    """Return the sorted ids of the most frequent tokens in `rows`, including the mask; None for a small vocabulary."""
    if vocab <= LARGE_VOCAB:
        return None
    counts = np.bincount(rows["ids"].ravel(), minlength=vocab)
    counts[mask] = counts.max() + 1
    return torch.from_numpy(np.sort(np.argsort(-counts, kind="stable")[:KNOWN]))


def sizes(target: PreTrainedModel) -> Shape:
    """Return a target's sizes, to compare with the file of a head."""
    return Shape.from_fields(lambda name: getattr(target.config, name, None))


class HeadLoss(ABC):
    """The distance of a head's distributions from the target's in nats, over the tokens that the head can draft."""

    def __init__(self, target: PreTrainedModel, likeliest_weight: float):
        self.target, self.likeliest_weight = target, likeliest_weight

    def __call__(self, network: Any, rows: Rows) -> torch.Tensor:
        """Return the mean loss over the drafted tokens."""
        ids = rows.ids[:, :-1]
        with torch.no_grad():
            outputs = rows.outputs or target_outputs(self.target, ids, network.shape.taps)
            target_logp = linear(outputs.last, network.head).float() - outputs.sums[..., None]
        return self._loss(network, outputs.states, ids, target_logp)

    @abstractmethod
    def _loss(self, network: Any, states: torch.Tensor, ids: torch.Tensor, target_logp: torch.Tensor) -> torch.Tensor:
        """Compute the loss for ids [texts, tokens], given states and log-probabilities [texts, tokens, known]."""

    def _distance(self, logits: torch.Tensor, target_logp: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        """Return the distance [...] of logits [..., known] from log-probabilities, and the chance of acceptance [...].

        The distance is the KL divergence, plus the total variation, plus `likeliest_weight` times the negative log-probability of
        the target's likeliest token. A sampled token is accepted with the chance 1 - total variation.
        """
        logp = log_softmax(logits.float(), -1)
        p = target_logp.exp()
        variation = ((p - logp.exp()).abs().sum(-1) + (1 - p.sum(-1)).clamp_min(0)) / 2  # other tokens are not drafted
        token_loss = -logp.gather(-1, target_logp.argmax(-1, keepdim=True))[..., 0]
        distance = (p * (target_logp - logp)).sum(-1) + variation + self.likeliest_weight * token_loss
        return distance, 1 - variation.detach()


def weighted(losses: torch.Tensor) -> torch.Tensor:
    """Return the mean of [..., slots], in which later slots have less weight."""
    weights = torch.exp(-torch.arange(losses.shape[-1], device=losses.device) / FADING)
    return (losses * weights).mean() / weights.mean()


def _slots(first: int, count: int, shape: HeadShape, ids: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
    """Return positions [drafts] from a random start, and those of the next `count` tokens, [drafts, count]."""
    stride = STRIDE[shape.kind]
    positions = torch.arange(first, ids.shape[1] - count - stride, stride, device=ids.device)
    positions = positions + torch.randint(stride, (1,), device=ids.device)
    return positions, positions[:, None] + torch.arange(count, device=ids.device)


class BlockLoss(HeadLoss):
    """The loss of every slot's distribution, and of the predicted probability that the token is accepted."""

    def _loss(self, network, states, ids, target_logp):
        anchors, positions = _slots(1, network.shape.slots, network.shape, ids)
        logits, acceptance = network(states, ids, anchors)
        losses, chances = self._distance(logits, target_logp[:, positions])
        confidence_loss = binary_cross_entropy_with_logits(acceptance.float(), chances, reduction="none")
        return weighted(losses + CONFIDENCE * confidence_loss)


class RecursiveLoss(HeadLoss):
    """The loss of tokens that are drafted one after another, each from the features of the previous one."""

    def _loss(self, network, states, ids, target_logp):
        total, weights = torch.zeros((), device=ids.device), 0.0
        for step, logits in enumerate(network(states, ids, STEPS)):
            losses, _ = self._distance(logits[:, : logits.shape[1] - step], target_logp[:, 1 + step :])
            weight = 0.8**step
            total, weights = total + weight * losses.mean(), weights + weight
        return total / weights


class MedusaLoss(HeadLoss):
    """The loss of each head's distribution."""

    def _loss(self, network, states, ids, target_logp):
        tokens, positions = _slots(0, network.shape.slots + 1, network.shape, ids)
        losses, _ = self._distance(network(states[:, tokens]), target_logp[:, positions[:, 1:]])
        return weighted(losses)


LOSSES = {MEDUSA: MedusaLoss, MTP: RecursiveLoss, EAGLE: RecursiveLoss, BLOCK: BlockLoss}
