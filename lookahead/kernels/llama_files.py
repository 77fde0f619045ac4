"""A plain Llama read straight from its folder, without the seconds that importing transformers' models takes.

It reads a plain Llama (`model.llama_config`) with weights in safetensors. `model.loading` reads everything else.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import Any

import torch
from safetensors import safe_open

from ..model.llama_config import plain
from ..model.shape import Shape
from ..model.small_files import check, weight_files
from .columns import fits
from .llama import Llama
from .llama_weights import Layer, Weights

IDLE_TENSOR = "rotary_emb.inv_freq"  # in old files; computed from the configuration instead


def compiles(folder: str | Path) -> bool:
    """Whether `read` will have passes for the model in a folder."""
    config = plain(folder)
    return config is not None and fits(Shape.of(config.get))


def read(folder: str, dtype: torch.dtype) -> Llama | None:
    """The passes of the plain Llama in a folder, in that number format; None where there is none that is whole.

    Raises `ModelError` if one of its small files is damaged.
    """
    check(folder)
    config = plain(folder)
    if config is None:
        return None
    shape = Shape.of(config.get)
    if not fits(shape):
        return None
    try:
        tensors = {name: tensor.to(dtype) for name, tensor in _tensors(Path(folder))}
        weights = _weights(tensors, shape, config)
    except (
        OSError,
        ValueError,
        KeyError,
        RuntimeError,
    ):  # something is missing or misshapen: transformers has words for it
        return None

    def model(llama: Llama):
        from .llama_for_transformers import llama_model

        return llama_model(llama, folder)

    return Llama(shape, weights, model)


def _weights(tensors: dict[str, torch.Tensor], shape: Shape, config: dict[str, Any]) -> Weights:
    """Return the weights by their usual names.

    Raises `KeyError` for a missing tensor, and `ValueError` for one of another size or without a place in the model.
    """
    sizes = _sizes(shape, config)
    if unknown := {name for name in tensors if not name.endswith(IDLE_TENSOR)} - sizes.keys():
        raise ValueError(f"no place in the model: {sorted(unknown)}")
    if any(tensors[name].shape != size for name, size in sizes.items()):
        raise ValueError("the weights are not of the sizes that the configuration names")
    layers = []
    for i in range(shape.layers):
        of = partial(_of, tensors, f"model.layers.{i}.")
        layers.append(
            Layer(
                of("input_layernorm"),
                torch.cat([of("self_attn.q_proj"), of("self_attn.k_proj"), of("self_attn.v_proj")]),
                of("self_attn.o_proj"),
                of("post_attention_layernorm"),
                torch.cat([of("mlp.gate_proj"), of("mlp.up_proj")]),
                of("mlp.down_proj"),
            )
        )
    inv_freq = 1.0 / (config["rope_theta"] ** (torch.arange(0, shape.head_dim, 2, dtype=torch.float) / shape.head_dim))
    embed, norm = _of(tensors, "model.", "embed_tokens"), _of(tensors, "model.", "norm")
    head = None if config.get("tie_word_embeddings") else _of(tensors, "", "lm_head")
    return Weights(embed, layers, norm, head, config.get("rms_norm_eps", 1e-6), inv_freq)


def _sizes(shape: Shape, config: dict[str, Any]) -> dict[str, tuple[int, ...]]:
    """Return the names and sizes of all tensors of such a model.

    A file with a head of its own although the configuration ties it is left to transformers, which keeps that head.
    """
    wide, inner = shape.hidden, config["intermediate_size"]
    query, pairs = shape.heads * shape.head_dim, shape.kv_heads * shape.head_dim
    layer = {
        "input_layernorm": (wide,), "post_attention_layernorm": (wide,), "self_attn.q_proj": (query, wide),
        "self_attn.k_proj": (pairs, wide), "self_attn.v_proj": (pairs, wide), "self_attn.o_proj": (wide, query),
        "mlp.gate_proj": (inner, wide), "mlp.up_proj": (inner, wide), "mlp.down_proj": (wide, inner),
    }  # fmt: skip
    sizes = {f"model.layers.{i}.{name}.weight": size for i in range(shape.layers) for name, size in layer.items()}
    sizes |= {"model.embed_tokens.weight": (shape.vocab, wide), "model.norm.weight": (wide,)}
    return sizes if config.get("tie_word_embeddings") else {**sizes, "lm_head.weight": (shape.vocab, wide)}


def _of(tensors: dict[str, torch.Tensor], prefix: str, name: str) -> torch.Tensor:
    return tensors[f"{prefix}{name}.weight"]


def _tensors(folder: Path) -> Iterator[tuple[str, torch.Tensor]]:
    """Every tensor of the folder's safetensors, as copies: the files may be written over later."""
    for part in weight_files(folder):
        with safe_open(folder / part, framework="pt") as file:
            for name in file.keys():  # noqa: SIM118 not a mapping
                yield name, file.get_tensor(name).clone()
