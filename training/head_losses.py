"""Losses that train heads on text that their target wrote.

The target is frozen. Its outputs for a row are the hidden states, which the head reads, and the distributions, which the head
learns.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import Any

import numpy as np
import torch
from torch.nn.functional import binary_cross_entropy_with_logits, linear, log_softmax
from transformers import PreTrainedModel

from lookahead.model.heads.shape import BLOCK, EAGLE, MEDUSA, HeadShape
from lookahead.model.shape import Shape
from lookahead.train.heads import CONFIDENCE, weighted
from lookahead.train.rows import Rows, target_outputs

STEPS = 4  # tokens that an EAGLE head drafts in training
STRIDE = {MEDUSA: 2, BLOCK: 4}  # tokens between the drafts of a text
LARGE_VOCAB = 16_384  # tokens; for a larger vocabulary a head drafts only the most frequent ones
KNOWN = 8192  # tokens that such a head can draft


def frequent(rows: np.ndarray, vocab: int, mask: int) -> torch.Tensor | None:
    """Return the sorted ids of the most frequent tokens in `rows`, including the mask; None for a small vocabulary."""
    if vocab <= LARGE_VOCAB:
        return None
    counts = np.bincount(rows["ids"].ravel(), minlength=vocab)
    counts[mask] = counts.max() + 1
    return torch.from_numpy(np.sort(np.argsort(-counts, kind="stable")[:KNOWN]))


def sizes(target: PreTrainedModel) -> Shape:
    """Return a target's sizes, to compare with the file of a head."""
    return Shape.of(lambda name: getattr(target.config, name, None))


class HeadLoss(ABC):
    """The distance of a head's distributions from the target's in nats, over the tokens that the head can draft."""

    def __init__(self, target: PreTrainedModel, favourite: float):
        self.target, self.favourite = target, favourite

    def __call__(self, network: Any, rows: Rows) -> torch.Tensor:
        """Return the mean loss over the drafted tokens."""
        ids = rows.ids[:, :-1]
        with torch.no_grad():
            outputs = rows.outputs or target_outputs(self.target, ids, network.shape.taps)
            wanted = linear(outputs.last, network.head).float() - outputs.sums[..., None]
        return self._of(network, outputs.states, ids, wanted)

    @abstractmethod
    def _of(self, network: Any, states: torch.Tensor, ids: torch.Tensor, wanted: torch.Tensor) -> torch.Tensor:
        """Compute the loss for ids [texts, tokens], given states and log-probabilities [texts, tokens, known]."""

    def _distance(self, logits: torch.Tensor, wanted: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        """Return the distance [...] of logits [..., known] from log-probabilities, and the chance of acceptance [...].

        The distance is the sum of the KL divergence, the total variation, and `favourite` times the negative
        log-probability of the target's likeliest token. The chance that a sampled token is accepted is one minus the
        total variation.
        """
        logp = log_softmax(logits.float(), -1)
        p = wanted.exp()
        variation = ((p - logp.exp()).abs().sum(-1) + (1 - p.sum(-1)).clamp_min(0)) / 2  # unknown tokens: never drafted
        surprise = -logp.gather(-1, wanted.argmax(-1, keepdim=True))[..., 0]
        return (p * (wanted - logp)).sum(-1) + variation + self.favourite * surprise, 1 - variation.detach()


def _slots(first: int, count: int, shape: HeadShape, ids: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
    """Return positions [drafts] from a random start, and those of the next `count` tokens, [drafts, count]."""
    stride = STRIDE[shape.kind]
    places = torch.arange(first, ids.shape[1] - count - stride, stride, device=ids.device)
    places = places + torch.randint(stride, (1,), device=ids.device)
    return places, places[:, None] + torch.arange(count, device=ids.device)


class BlockLoss(HeadLoss):
    """The loss of every slot's distribution, and of the predicted probability that the token is accepted."""

    def _of(self, network, states, ids, wanted):
        anchors, places = _slots(1, network.shape.slots, network.shape, ids)
        logits, sure = network(states, ids, anchors)
        losses, agreeing = self._distance(logits, wanted[:, places])
        return weighted(
            losses + CONFIDENCE * binary_cross_entropy_with_logits(sure.float(), agreeing, reduction="none")
        )


class EagleLoss(HeadLoss):
    """The loss of tokens that are drafted one after another, each from the features of the previous one."""

    def _of(self, network, states, ids, wanted):
        total, weights = torch.zeros((), device=ids.device), 0.0
        for step, logits in enumerate(network(states, ids, STEPS)):
            losses, _ = self._distance(logits[:, : logits.shape[1] - step], wanted[:, 1 + step :])
            weight = 0.8**step
            total, weights = total + weight * losses.mean(), weights + weight
        return total / weights


class MedusaLoss(HeadLoss):
    """The loss of each head's distribution."""

    def _of(self, network, states, ids, wanted):
        tokens, places = _slots(0, network.shape.slots + 1, network.shape, ids)
        losses, _ = self._distance(network(states[:, tokens]), wanted[:, places[:, 1:]])
        return weighted(losses)


LOSSES = {MEDUSA: MedusaLoss, EAGLE: EagleLoss, BLOCK: BlockLoss}
