"""What is minimised: the next token's surprise, or the distance to a teacher's distribution.

Knows logits.
"""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch import nn
from torch.nn.functional import cross_entropy, kl_div, log_softmax

from .rows import Rows


def next_token(model: nn.Module, ids: torch.Tensor) -> torch.Tensor:
    """Mean cross-entropy in nats of ids [rows, length + 1]."""
    logits = model(input_ids=ids[:, :-1], use_cache=False).logits
    return cross_entropy(logits.flatten(0, 1).float(), ids[:, 1:].flatten())


def like(teacher: nn.Module) -> Callable[[nn.Module, torch.Tensor], torch.Tensor]:
    """The loss of a student of `teacher`: KL(teacher || student) in nats a token (Hinton et al. 2015).

    Acceptance of a sampled draft is one minus the total variation distance, which the root of half of
    this bounds (Pinsker); it is what a draft has to learn, rather than the text itself.
    """

    def distance(student: nn.Module, ids: torch.Tensor) -> torch.Tensor:
        with torch.no_grad():
            target = log_softmax(teacher(input_ids=ids[:, :-1], use_cache=False).logits.float(), -1).flatten(0, 1)
        logp = log_softmax(student(input_ids=ids[:, :-1], use_cache=False).logits.float(), -1).flatten(0, 1)
        return kl_div(logp, target, reduction="batchmean", log_target=True)

    return distance


def like_writing(favourite: float) -> Callable[[nn.Module, Rows], torch.Tensor]:
    """The same distance to the target's stored distributions over its own writing: its favourites, and the rest as one.

    A greedy draft stands where both have the same favourite: `favourite` times the surprise at the target's is added.
    """

    def distance(student: nn.Module, rows: Rows) -> torch.Tensor:
        logits = student(input_ids=rows.ids[:, :-1], use_cache=False).logits[:, -rows.logp.shape[1] :]
        logp = log_softmax(logits.float(), -1).gather(-1, rows.likely)
        known = (rows.logp.exp() * (rows.logp - logp)).sum(-1)
        rest, student_rest = (torch.log1p(-part.exp().sum(-1).clamp_max(1 - 1e-5)) for part in (rows.logp, logp))
        return (known + rest.exp() * (rest - student_rest) - favourite * logp[..., 0]).mean()

    return distance
