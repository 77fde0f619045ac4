"""A plain Llama's weights in the layout of passes, and reading them from a folder without importing transformers.

That import takes seconds. q, k and v form one weight, gate and up another. `read` supports plain Llamas
(`model.llama_config`) with weights in safetensors; `model.loading` reads all other models.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import NamedTuple

import torch
from safetensors.torch import load_file

from ..model.llama_config import plain, tensor_sizes
from ..model.shape import Shape
from ..model.small_files import check, weight_files
from .vectors import supports

IGNORED_TENSOR = "rotary_emb.inv_freq"  # in old files; computed from the configuration


class Layer(NamedTuple):
    """The weights of one layer in the order of a pass: norms [hidden], products [out, in]."""

    norm1: torch.Tensor
    qkv: torch.Tensor
    out: torch.Tensor
    norm2: torch.Tensor
    gate_up: torch.Tensor
    down: torch.Tensor

    @property
    def products(self) -> tuple[torch.Tensor, ...]:
        """The products in the order of a pass."""
        return self.qkv, self.out, self.gate_up, self.down


# The usual names of the tensors that each weight of a layer joins.
NAMES = Layer(
    ("input_layernorm",), ("self_attn.q_proj", "self_attn.k_proj", "self_attn.v_proj"), ("self_attn.o_proj",),
    ("post_attention_layernorm",), ("mlp.gate_proj", "mlp.up_proj"), ("mlp.down_proj",),
)  # fmt: skip


@dataclass(frozen=True, slots=True)
class Weights:
    """The weights of a model; `head` may be `embed`. `inv_freq` [head_dim / 2] and `attention_factor` are rotary."""

    embed: torch.Tensor
    layers: Sequence[Layer]
    norm: torch.Tensor
    head: torch.Tensor
    eps: float
    inv_freq: torch.Tensor
    attention_factor: float = 1.0

    @classmethod
    def from_tensors(cls, tensors: Mapping[str, torch.Tensor], layers: int, *fields) -> Weights:
        """Build the weights of `layers` layers from tensors by their usual names, with the other `fields`."""
        layers_joined = [
            Layer(*(_join([tensors[f"model.layers.{i}.{name}.weight"] for name in names]) for names in NAMES))
            for i in range(layers)
        ]
        embed = tensors["model.embed_tokens.weight"]
        return cls(embed, layers_joined, tensors["model.norm.weight"], tensors.get("lm_head.weight", embed), *fields)

    def named(self, shape: Shape) -> dict[str, torch.Tensor]:
        """Return views of all tensors by their usual names."""
        tensors = {"model.embed_tokens.weight": self.embed, "lm_head.weight": self.head, "model.norm.weight": self.norm}
        heads = [n * shape.head_dim for n in (shape.heads, shape.kv_heads, shape.kv_heads)]
        for i, layer in enumerate(self.layers):
            for weight, names in zip(layer, NAMES, strict=True):
                parts = weight.split(heads if weight is layer.qkv else len(weight) // len(names))
                tensors |= {f"model.layers.{i}.{name}.weight": part for name, part in zip(names, parts, strict=True)}
        return tensors

    @property
    def norms(self) -> list[torch.Tensor]:
        """The norms in the order of a pass."""
        return [*(norm for layer in self.layers for norm in (layer.norm1, layer.norm2)), self.norm]

    def parameters(self) -> list[torch.Tensor]:
        """Return every tensor once."""
        tensors = [self.embed, *(tensor for layer in self.layers for tensor in layer), self.norm]
        return tensors if self.head is self.embed else [*tensors, self.head]

    def to(self, dtype: torch.dtype) -> Weights:
        """Return the weights in another number format. The rotary frequencies stay float32."""
        layers = [Layer(*(tensor.to(dtype) for tensor in layer)) for layer in self.layers]
        embed = self.embed.to(dtype)
        head = embed if self.head is self.embed else self.head.to(dtype)
        return replace(self, embed=embed, layers=layers, norm=self.norm.to(dtype), head=head)


def _join(parts: Sequence[torch.Tensor]) -> torch.Tensor:
    """Concatenate weights. The result is a view if they are already contiguous, in a model that shares them."""
    if len(parts) == 1:
        return parts[0]
    ends = [part.data_ptr() + part.nbytes for part in parts]
    same_storage = len({part.untyped_storage().data_ptr() for part in parts}) == 1
    if same_storage and ends[:-1] == [part.data_ptr() for part in parts[1:]]:
        return parts[0].as_strided((sum(map(len, parts)), parts[0].shape[1]), (parts[0].shape[1], 1))
    return torch.cat(parts)


def compiles(folder: str | Path) -> bool:
    """Return whether `read` supports the model in a folder."""
    config = plain(folder)
    return config is not None and supports(Shape.from_fields(config.get))


def read(folder: str, dtype: torch.dtype) -> tuple[Shape, Weights] | None:
    """Return the shape and the weights of the plain Llama in a folder, in a number format.

    Returns None for other or incomplete models. Raises `ModelError` if one of its small files is damaged.
    """
    check(folder)
    if not compiles(folder):
        return None
    config = plain(folder)
    shape, sizes, tensors = Shape.from_fields(config.get), tensor_sizes(config), {}
    try:
        for part in weight_files(folder):  # copies, because the files may be overwritten later
            tensors |= {name: tensor.to(dtype, copy=True) for name, tensor in load_file(Path(folder, part)).items()}
        # If tensors are missing, misshapen or unexpected, transformers loads the model and reports them. It also loads a
        # separate output head if the configuration ties it to the embedding.
        named = {name: tensor.shape for name, tensor in tensors.items() if not name.endswith(IGNORED_TENSOR)}
        if named != sizes:
            return None
    except (OSError, ValueError, KeyError, RuntimeError):
        return None
    inv_freq = 1.0 / (config["rope_theta"] ** (torch.arange(0, shape.head_dim, 2, dtype=torch.float) / shape.head_dim))
    return shape, Weights.from_tensors(tensors, shape.layers, config.get("rms_norm_eps", 1e-6), inv_freq)
