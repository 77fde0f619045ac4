"""A plain Llama's weights, as few tensors as can be: q, k and v come from one product, gate and up from another."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

import torch


@dataclass(frozen=True, slots=True)
class Layer:
    """The weights of one layer: norms [hidden], products [out, in]."""

    norm1: torch.Tensor
    qkv: torch.Tensor
    out: torch.Tensor
    norm2: torch.Tensor
    gate_up: torch.Tensor
    down: torch.Tensor

    @property
    def products(self) -> tuple[torch.Tensor, ...]:
        """In the order of a pass."""
        return self.qkv, self.out, self.gate_up, self.down

    @property
    def tensors(self) -> tuple[torch.Tensor, ...]:
        """All of them, in the order of a pass."""
        return self.norm1, self.qkv, self.out, self.norm2, self.gate_up, self.down


@dataclass(frozen=True, slots=True)
class Weights:
    """A whole model's. `head` is None where the embedding is the head too; `eps` is the norms', `inv_freq` [head_dim / 2]
    and `attention_factor` are the rotation's."""

    embed: torch.Tensor
    layers: Sequence[Layer]
    norm: torch.Tensor
    head: torch.Tensor | None
    eps: float
    inv_freq: torch.Tensor
    attention_factor: float = 1.0

    @property
    def norms(self) -> list[torch.Tensor]:
        """In the order of a pass."""
        return [*(norm for layer in self.layers for norm in (layer.norm1, layer.norm2)), self.norm]

    def parameters(self) -> Iterator[torch.Tensor]:
        """Every tensor once."""
        yield self.embed
        for layer in self.layers:
            yield from layer.tensors
        yield self.norm
        if self.head is not None:
            yield self.head

    def to(self, dtype: torch.dtype) -> Weights:
        """In another number format; the rotation's table stays float32."""
        layers = [Layer(*(tensor.to(dtype) for tensor in layer.tensors)) for layer in self.layers]
        head = None if self.head is None else self.head.to(dtype)
        return replace(self, embed=self.embed.to(dtype), layers=layers, norm=self.norm.to(dtype), head=head)
