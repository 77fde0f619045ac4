"""The network of an EAGLE-3 head: one layer that drafts token by token (Li et al. 2025).

A feature is computed from hidden states after three of the target's layers.
"""

import torch
from torch import Tensor, nn

from .layers import Layer, Norm
from .recursive import RecursiveNetwork
from .shape import ALL_TAPS, PER_TAP, HeadShape


class FirstLayer(Layer):
    """The first layer, whose input is the concatenated embedding and feature."""

    def __init__(self, shape: HeadShape):
        super().__init__(shape, input_width=2 * shape.hidden)
        self.hidden_norm = Norm(shape.hidden, shape.eps)


class EagleNetwork(RecursiveNetwork):
    """An EAGLE-3 network."""

    def __init__(self, shape: HeadShape, embed: Tensor, head: Tensor):
        super().__init__(shape, embed, head)
        self.fc = nn.Linear(shape.input_width, shape.hidden, bias=False)
        self.input_norm = Norm(shape.input_width, shape.eps) if shape.fed_norm == ALL_TAPS else None
        normed = shape.taps if shape.fed_norm == PER_TAP else ()
        self.fc_norm = nn.ModuleList(Norm(shape.hidden, shape.eps) for _ in normed)
        self.layers = nn.ModuleList([FirstLayer(shape), *(Layer(shape) for _ in range(shape.layers - 1))])
        self.norm = Norm(shape.hidden, shape.eps)

    def features(self, states):
        if self.input_norm is not None:
            states = self.input_norm(states)
        if len(self.fc_norm):
            parts = states.chunk(len(self.fc_norm), -1)
            states = torch.cat([norm(part) for norm, part in zip(self.fc_norm, parts, strict=True)], -1)
        return self.fc(states)

    def joined(self, embedded, features):
        layer = self.layers[0]
        normed = layer.hidden_norm(features)
        residual = normed if self.shape.residual_normed else features
        return residual, torch.cat([layer.input_layernorm(embedded), normed], -1)
