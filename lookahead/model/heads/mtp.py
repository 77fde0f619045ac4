"""The network of multi-token prediction (MTP): one decoder layer that drafts token by token (DeepSeek-V3, 2024).

A feature is the target's last hidden state, after its norm. The network's own output replaces it for drafted tokens. Embedding and
feature are normed, and one projection joins them. Modules have the names of `speculators`. `target_mtp` computes the modules that
targets such as DeepSeek-V3 and Qwen3.5 have in their own checkpoints.
"""

import torch
from torch import Tensor, nn

from .layers import Layer, Norm
from .recursive import RecursiveNetwork
from .shape import HeadShape


class MtpLayer(Layer):
    """A decoder layer with the norms and the projection of its input, and a norm of its output."""

    def __init__(self, shape: HeadShape):
        super().__init__(shape)
        self.token_layernorm, self.hidden_layernorm = (Norm(shape.hidden, shape.eps) for _ in range(2))
        self.input_proj = nn.Linear(2 * shape.hidden, shape.hidden, bias=False)
        self.final_layernorm = Norm(shape.hidden, shape.eps)


class MtpNetwork(RecursiveNetwork):
    """An MTP network."""

    def __init__(self, shape: HeadShape, embed: Tensor, head: Tensor):
        super().__init__(shape, embed, head)
        self.mtp_layers = nn.ModuleList([MtpLayer(shape)])

    @property
    def layers(self):
        return self.mtp_layers

    @property
    def norm(self):
        return self.mtp_layers[0].final_layernorm

    def features(self, states):
        return states

    def joined(self, embedded, features):
        layer = self.mtp_layers[0]
        x = layer.input_proj(torch.cat([layer.token_layernorm(embedded), layer.hidden_layernorm(features)], -1))
        return x, layer.input_layernorm(x)
