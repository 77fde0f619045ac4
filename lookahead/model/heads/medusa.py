"""The network of Medusa heads: for each of the next tokens a residual block on the target's last hidden state (Cai et al. 2024).

The output head is the target's. A block does not read what another has drafted. Names are those of vLLM's Medusa.
"""

from __future__ import annotations

import torch
from torch import nn
from torch.nn.functional import linear, silu

from .layers import SlotsMixin
from .shape import HeadShape


class Residual(nn.Module):
    """x + silu(W x + b), of which the first x stays what it was in the beginning: the target's own next token."""

    def __init__(self, shape: HeadShape):
        super().__init__()
        self.layers = nn.ModuleList(nn.Linear(shape.hidden, shape.hidden, shape.biased) for _ in range(shape.layers))
        for weight in self.parameters():
            nn.init.zeros_(weight)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """x [..., hidden]."""
        for layer in self.layers:
            x = x + silu(layer(x))
        return x


class MedusaNetwork(SlotsMixin, nn.Module):
    """`head` [vocab, hidden] is the target's; its embedding is not read."""

    markov_head = confidence_head = None

    def __init__(self, shape: HeadShape, embed: torch.Tensor, head: torch.Tensor):
        super().__init__()
        self.shape = shape
        self.blocks = nn.ModuleList(Residual(shape) for _ in range(shape.slots))
        self.register_buffer("head", head, persistent=False)

    def forward(self, states: torch.Tensor) -> torch.Tensor:
        """The logits [..., slots, vocab] of the tokens after the one that the target itself reads from its last hidden
        states [..., hidden]."""
        return linear(torch.stack([block(states) for block in self.blocks], -2), self.head)

    @torch.inference_mode()
    def draft(self, states: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        """A pass after the last hidden state [1, hidden] of the token before: slots' hidden states, which are not used, and
        logits [slots, vocab]."""
        return states.expand(self.shape.slots, -1), self(states)[0]
