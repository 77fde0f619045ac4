"""Mixtures of experts: which experts each row of a pass activates.

A router selects a few experts for each row. A pass reads the weights of all experts that any of its rows activates, so a further row
costs more than in a dense model. transformers passes the router's choice to the module of a layer's experts, and a hook stores it.
"""

from collections.abc import Sequence
from functools import partial
from typing import Any

import torch

from .forward import Mixture

MARK = "_is_expert_parallel"  # set by transformers' decorator of modules of experts (`use_experts_implementation`)


class Routing:
    """Stores the experts that the last pass of a model activated. A model without experts has no `layers`."""

    def __init__(self, model: torch.nn.Module):
        self.layers: list[Any] = [module for module in model.modules() if hasattr(module, MARK)]
        self._chosen: dict[int, torch.Tensor] = {}  # by layer
        for layer, module in enumerate(self.layers):
            module.register_forward_pre_hook(partial(_store, self._chosen, layer))

    @property
    def mixture(self) -> Mixture | None:
        """The sizes of the mixture; None without one, and before the first pass."""
        if not self._chosen:
            return None
        return Mixture(len(self.layers), self.layers[0].num_experts, self._chosen[0].shape[-1])

    def chosen(self) -> list[torch.Tensor]:
        """Return the experts of the last pass per layer, each [rows, experts per row]."""
        return [*self._chosen.values()]


def _store(
    chosen: dict[int, torch.Tensor], layer: int, module: torch.nn.Module, arguments: tuple[torch.Tensor, ...]
) -> None:
    chosen[layer] = arguments[1]  # after the hidden states


def activated(chosen: Sequence[torch.Tensor]) -> float | None:
    """Return the number of distinct experts per layer, on average; None without experts."""
    return sum(len(experts.unique()) for experts in chosen) / len(chosen) if chosen else None
