"""What is minimised: the next token's surprise, or the distance to a teacher's distribution.

Knows logits.
"""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch import nn
from torch.nn.functional import cross_entropy, kl_div, log_softmax, nll_loss


def next_token(model: nn.Module, ids: torch.Tensor) -> torch.Tensor:
    """Mean cross-entropy in nats of ids [rows, length + 1]."""
    logits = model(input_ids=ids[:, :-1], use_cache=False).logits
    return cross_entropy(logits.flatten(0, 1).float(), ids[:, 1:].flatten())


def like(teacher: nn.Module, favourite: float = 0.0) -> Callable[[nn.Module, torch.Tensor], torch.Tensor]:
    """The loss of a student of `teacher`: KL(teacher || student) in nats a token (Hinton et al. 2015).

    Acceptance of a sampled draft is one minus the total variation distance, which the root of half of
    this bounds (Pinsker); it is what a draft has to learn, rather than the text itself. A greedy draft
    stands where both have the same favourite: with `favourite` that many times the surprise at the
    teacher's favourite is added.
    """

    def distance(student: nn.Module, ids: torch.Tensor) -> torch.Tensor:
        with torch.no_grad():
            target = log_softmax(teacher(input_ids=ids[:, :-1], use_cache=False).logits.float(), -1).flatten(0, 1)
        own = log_softmax(student(input_ids=ids[:, :-1], use_cache=False).logits.float(), -1).flatten(0, 1)
        loss = kl_div(own, target, reduction="batchmean", log_target=True)
        return loss + favourite * nll_loss(own, target.argmax(-1)) if favourite else loss

    return distance
