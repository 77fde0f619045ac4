"""A plain Llama's weights in the layout of passes, and reading them from a folder without importing transformers.

That import takes seconds. q, k and v form one weight, gate and up another. `read` supports plain Llamas
(`model.llama_config`) with weights in safetensors; `model.loading` reads all other models.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, NamedTuple

import torch
from safetensors.torch import load_file

from ..model.llama_config import plain, similar, tensor_sizes
from ..model.shape import Shape
from ..model.small_files import check, weight_files
from .records import PLAIN, Factors
from .vectors import supports

IGNORED_TENSOR = "rotary_emb.inv_freq"  # in old files; computed from the configuration


class Layer(NamedTuple):
    """The weights of one layer in the order of a pass: norms [hidden], products [out, in].

    A plain Llama has none of the optional ones: biases [out] of products, and norms [head_dim] of queries and keys. A row
    attends to the last `window` tokens, or to all (0). Queries and keys are `rotated` by their positions.
    """

    norm1: torch.Tensor
    qkv: torch.Tensor
    out: torch.Tensor
    norm2: torch.Tensor
    gate_up: torch.Tensor
    down: torch.Tensor
    qkv_bias: torch.Tensor | None = None
    out_bias: torch.Tensor | None = None
    gate_up_bias: torch.Tensor | None = None
    down_bias: torch.Tensor | None = None
    query_norm: torch.Tensor | None = None
    key_norm: torch.Tensor | None = None
    window: int = 0
    rotated: bool = True

    @property
    def tensors(self) -> dict[str, torch.Tensor]:
        """The tensors that this layer has, by field."""
        return {field: tensor for field in NAMES if (tensor := getattr(self, field)) is not None}

    @property
    def products(self) -> tuple[torch.Tensor, ...]:
        """The products in the order of a pass."""
        return self.qkv, self.out, self.gate_up, self.down

    @property
    def biases(self) -> tuple[torch.Tensor | None, ...]:
        """The biases of the products."""
        return self.qkv_bias, self.out_bias, self.gate_up_bias, self.down_bias

    @property
    def head_norms(self) -> list[torch.Tensor]:
        """The norms of queries and keys, if the layer has them."""
        return [norm for norm in (self.query_norm, self.key_norm) if norm is not None]


# The usual names of the tensors that each weight of a layer joins.
_PRODUCTS = {
    "qkv": ("self_attn.q_proj", "self_attn.k_proj", "self_attn.v_proj"), "out": ("self_attn.o_proj",),
    "gate_up": ("mlp.gate_proj", "mlp.up_proj"), "down": ("mlp.down_proj",),
}  # fmt: skip
_NORMS = {
    "norm1": "input_layernorm", "norm2": "post_attention_layernorm", "query_norm": "self_attn.q_norm", "key_norm": "self_attn.k_norm",
}  # fmt: skip
NAMES = {
    **{field: (f"{name}.weight",) for field, name in _NORMS.items()},
    **{field: tuple(f"{name}.weight" for name in names) for field, names in _PRODUCTS.items()},
    **{f"{field}_bias": tuple(f"{name}.bias" for name in names) for field, names in _PRODUCTS.items()},
}


@dataclass(frozen=True, slots=True)
class Weights:
    """The weights of a model; `head` may be `embed`. `inv_freq` [head_dim / 2] and `attention_factor` are rotary.

    `factors` are the additional multipliers of a similar model.
    """

    embed: torch.Tensor
    layers: Sequence[Layer]
    norm: torch.Tensor
    head: torch.Tensor
    eps: float
    inv_freq: torch.Tensor
    attention_factor: float = 1.0
    factors: Factors = PLAIN

    @classmethod
    def from_tensors(cls, tensors: Mapping[str, torch.Tensor], layers: int, *fields) -> Weights:
        """Build the weights of `layers` layers from tensors by their usual names, with the other `fields`."""
        joined = [_layer(tensors, f"model.layers.{i}.") for i in range(layers)]
        embed = tensors["model.embed_tokens.weight"]
        return cls(embed, joined, tensors["model.norm.weight"], tensors.get("lm_head.weight", embed), *fields)

    def named(self, shape: Shape) -> dict[str, torch.Tensor]:
        """Return views of all tensors by their usual names."""
        tensors = {"model.embed_tokens.weight": self.embed, "lm_head.weight": self.head, "model.norm.weight": self.norm}
        heads = [n * shape.head_dim for n in (shape.heads, shape.kv_heads, shape.kv_heads)]
        for i, layer in enumerate(self.layers):
            for field, weight in layer.tensors.items():
                names = NAMES[field]
                parts = weight.split(heads if len(names) == len(heads) else len(weight) // len(names))
                tensors |= {f"model.layers.{i}.{name}": part for name, part in zip(names, parts, strict=True)}
        return tensors

    @property
    def norms(self) -> list[torch.Tensor]:
        """The norms in the order of a pass."""
        return [*(norm for layer in self.layers for norm in (layer.norm1, layer.norm2)), self.norm]

    def parameters(self) -> list[torch.Tensor]:
        """Return every tensor once."""
        tensors = [self.embed, *(tensor for layer in self.layers for tensor in layer.tensors.values()), self.norm]
        return tensors if self.head is self.embed else [*tensors, self.head]

    def to(self, dtype: torch.dtype) -> Weights:
        """Return the weights in another number format. The rotary frequencies stay float32."""
        layers = [
            layer._replace(**{field: tensor.to(dtype) for field, tensor in layer.tensors.items()})
            for layer in self.layers
        ]
        embed = self.embed.to(dtype)
        head = embed if self.head is self.embed else self.head.to(dtype)
        return replace(self, embed=embed, layers=layers, norm=self.norm.to(dtype), head=head)


def _layer(tensors: Mapping[str, torch.Tensor], prefix: str) -> Layer:
    """Return the layer whose tensors have this prefix. Raises `KeyError` if a tensor that is not optional is missing."""
    names = {field: [prefix + name for name in names] for field, names in NAMES.items()}
    present = {field for field in names if field not in Layer._field_defaults or names[field][0] in tensors}
    joined: dict[str, Any] = {field: _join([tensors[name] for name in names[field]]) for field in present}
    return Layer(**joined)


def _join(parts: list[torch.Tensor]) -> torch.Tensor:
    """Concatenate weights. The result is a view if they are already contiguous, in a model that shares them."""
    if len(parts) == 1:
        return parts[0]
    ends = [part.data_ptr() + part.nbytes for part in parts]
    same_storage = len({part.untyped_storage().data_ptr() for part in parts}) == 1
    if same_storage and ends[:-1] == [part.data_ptr() for part in parts[1:]]:
        return parts[0].as_strided((sum(map(len, parts)), *parts[0].shape[1:]), parts[0].stride())
    return torch.cat(parts)


def compiles(folder: str | Path) -> bool:
    """Return whether the passes of the model in a folder are compiled, according to its configuration."""
    config = plain(folder) or similar(folder)
    return config is not None and supports(Shape.from_fields(config.get))


def read(folder: str, dtype: torch.dtype) -> tuple[Shape, Weights] | None:
    """Return the shape and the weights of the plain Llama in a folder, in a number format.

    Returns None for other or incomplete models. Raises `ModelError` if one of its small files is damaged.
    """
    check(folder)
    config = plain(folder)
    if config is None or not supports(Shape.from_fields(config.get)):
        return None
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
