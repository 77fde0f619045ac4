"""A plain Llama read straight from its folder, without the seconds that importing transformers' models takes.

Takes what it knows every field of: an untouched Llama with rotation of the default kind, weights in safetensors under
the usual names. Everything else is None here and for `modules` to load.

Knows configuration files and safetensors. It does not know places, pairs or devices.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import Any

import torch
from safetensors import safe_open

from .llama import Llama, fits
from .llama_weights import Layer, Weights
from .shape import Shape
from .small_files import CONFIG, GENERATION, check, weight_files
from .small_files import read as read_small

# Fields that change nothing, or that are read here; with any other the folder is left to transformers.
READ = {
    "vocab_size", "max_position_embeddings", "hidden_size", "num_hidden_layers", "num_attention_heads",
    "num_key_value_heads", "head_dim", "hidden_act", "intermediate_size", "rms_norm_eps", "rope_parameters",
    "tie_word_embeddings",
}  # fmt: skip
IDLE = {
    "architectures", "attention_dropout", "bos_token_id", "dtype", "eos_token_id", "initializer_range", "model_type",
    "pad_token_id", "torch_dtype", "unk_token_id", "_model_name_or_path", "transformers_version", "use_cache", "_name_or_path", "is_llama_config",
    "rope_interleaved", "transformers.js_config",
}  # fmt: skip
IDLE_TENSOR = "rotary_emb.inv_freq"  # in old files; computed from the configuration instead
MUST_BE = {
    "model_type": "llama", "architectures": ["LlamaForCausalLM"], "hidden_act": "silu", "attention_bias": False,
    "mlp_bias": False, "rope_interleaved": False, "rope_scaling": None, "pretraining_tp": 1,
}  # fmt: skip


def plain(folder: str | Path) -> dict[str, Any] | None:
    """The configuration in a folder where it is a plain Llama's, with `rope_theta` among its fields; else None.

    Raises `ModelError` if the file is damaged.
    """
    config = read_small(folder, CONFIG)
    if config is None:
        return None
    rope = config.pop("rope_parameters", None) or {"rope_theta": config.pop("rope_theta", None)}
    if set(rope) - {"rope_theta", "rope_type"} or rope.get("rope_type", "default") != "default":
        return None
    known = config.keys() <= READ | IDLE | MUST_BE.keys()
    if not known or any(config.get(name, value) != value for name, value in MUST_BE.items()):
        return None
    needed = ("vocab_size", "hidden_size", "num_hidden_layers", "num_attention_heads", "intermediate_size")
    whole = all(isinstance(config.get(name), int) for name in needed) and config.get("rms_norm_eps", 1e-6)
    if not whole or config.get("model_type") != "llama" or not rope.get("rope_theta"):
        return None
    return {**config, "rope_theta": float(rope["rope_theta"])}


def compiles(folder: str | Path) -> bool:
    """Whether `read` will have passes for the model in a folder."""
    config = plain(folder)
    return config is not None and fits(Shape.of(config.get))


def parameters(config: dict[str, Any]) -> int:
    """How many numbers the weights of such a model hold."""
    shape = Shape.of(config.get)
    wide, query, pairs = shape.hidden, shape.heads * shape.head_dim, 2 * shape.kv_heads * shape.head_dim
    layer = 2 * wide + wide * (query + pairs) + query * wide + 3 * wide * config["intermediate_size"]
    tables = 1 if config.get("tie_word_embeddings") else 2
    return tables * shape.vocab * wide + shape.layers * layer + wide


def ends(folder: str | Path) -> int | list[int] | None:
    """The ids that end a text, as the folder's generation settings say, or its configuration where there are none.

    Raises `ModelError` if the file is damaged.
    """
    generation = read_small(folder, GENERATION)
    settings = read_small(folder, CONFIG) if generation is None else generation
    return settings.get("eos_token_id") if settings else None


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
