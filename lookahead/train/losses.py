"""Losses of targets and draft models: cross-entropy, and the distance to a teacher's distribution."""

from collections.abc import Callable

import torch
from torch import nn
from torch.nn.functional import cross_entropy, kl_div, log_softmax

from .rows import Rows


def cross_entropy_loss(model: nn.Module, ids: torch.Tensor) -> torch.Tensor:
    """Return the mean cross-entropy in nats of ids [rows, length + 1]."""
    logits = model(input_ids=ids[:, :-1], use_cache=False).logits
    return cross_entropy(logits.flatten(0, 1).float(), ids[:, 1:].flatten())


def distillation_loss(teacher: nn.Module) -> Callable[[nn.Module, torch.Tensor], torch.Tensor]:
    """Return the loss of a student of `teacher`: KL(teacher || student) in nats per token (Hinton et al. 2015).

    The chance that a sampled token is rejected, the total variation, is at most the square root of half of it (Pinsker).
    """

    def distance(student: nn.Module, ids: torch.Tensor) -> torch.Tensor:
        with torch.no_grad():
            target = log_softmax(teacher(input_ids=ids[:, :-1], use_cache=False).logits.float(), -1).flatten(0, 1)
        logp = log_softmax(student(input_ids=ids[:, :-1], use_cache=False).logits.float(), -1).flatten(0, 1)
        return kl_div(logp, target, reduction="batchmean", log_target=True)

    return distance


def stored_distillation_loss(likeliest_weight: float) -> Callable[[nn.Module, Rows], torch.Tensor]:
    """Return the loss of `like` for the target's stored distributions. All tokens that are not stored count as one.

    It adds `likeliest_weight` times the negative log-probability of the target's likeliest token, because a greedy draft is accepted
    if both models have the same likeliest token.
    """

    def distance(student: nn.Module, rows: Rows) -> torch.Tensor:
        logits = student(input_ids=rows.ids[:, :-1], use_cache=False).logits[:, -rows.logp.shape[1] :]
        logp = log_softmax(logits.float(), -1).gather(-1, rows.likely)
        known = (rows.logp.exp() * (rows.logp - logp)).sum(-1)
        other, student_other = (torch.log1p(-part.exp().sum(-1).clamp_max(1 - 1e-5)) for part in (rows.logp, logp))
        return (known + other.exp() * (other - student_other) - likeliest_weight * logp[..., 0]).mean()

    return distance
