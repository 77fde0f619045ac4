"""Optimizers and their usual rates: Muon for the matrices inside layers, AdamW for all other weights."""

from collections.abc import Sequence

import torch
from torch import nn

MATRIX_RATE, OTHER_RATE, WEIGHT_DECAY = 0.02, 0.004, 0.02  # rates of Muon and AdamW; Muon's weight decay
TABLES = ("embed", "markov", "confidence")  # matrices that are not inside a layer


def optimizers(
    model: nn.Module,
    matrix_rate: float = MATRIX_RATE,
    other_rate: float = OTHER_RATE,
    weight_decay: float = WEIGHT_DECAY,
) -> list[torch.optim.Optimizer]:
    """Return Muon for two-dimensional weights inside layers, then AdamW for the rest."""
    matrices, others = [], []
    for name, weight in model.named_parameters():
        inside = weight.ndim == 2 and not any(table in name for table in TABLES)
        (matrices if inside else others).append(weight)
    return [
        torch.optim.Muon(matrices, lr=matrix_rate, weight_decay=weight_decay),
        torch.optim.AdamW(others, lr=other_rate, betas=(0.9, 0.95), weight_decay=0.0),
    ]


def scale_rates(steppers: Sequence[torch.optim.Optimizer], factor: float) -> None:
    """Set each optimizer's first learning rate to `factor` times its initial value."""
    for optimizer in steppers:
        optimizer.param_groups[0]["lr"] = factor * optimizer.defaults["lr"]
