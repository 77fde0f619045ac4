"""The configuration of a plain Llama, read without transformers.

A plain Llama has default rotary positions, the usual tensor names, and no field that changes its arithmetic.
"""

import math
from pathlib import Path
from typing import Any

from .shape import Shape
from .small_files import CONFIG, GENERATION
from .small_files import read as read_small

# transformers' classes that compute as a Llama does, except for biases, norms of queries and keys, factors, windows, and layers
# without positions.
SIMILAR = {
    "LlamaForCausalLM", "MistralForCausalLM", "Qwen2ForCausalLM", "Qwen3ForCausalLM", "GraniteForCausalLM", "SmolLM3ForCausalLM",
    "MinistralForCausalLM", "CwmForCausalLM", "SeedOssForCausalLM",
}  # fmt: skip
# Fields that are read here or do not change the result. transformers loads a folder with any other field.
KNOWN = {
    "vocab_size", "max_position_embeddings", "hidden_size", "num_hidden_layers", "num_attention_heads", "num_key_value_heads",
    "head_dim", "intermediate_size", "rms_norm_eps", "tie_word_embeddings", "attention_dropout", "bos_token_id", "dtype",
    "eos_token_id", "initializer_range", "pad_token_id", "torch_dtype", "unk_token_id", "_model_name_or_path",
    "transformers_version", "use_cache", "_name_or_path", "is_llama_config", "transformers.js_config",
}  # fmt: skip
NEEDED = ("vocab_size", "hidden_size", "num_hidden_layers", "num_attention_heads", "intermediate_size")
STATIC_ROPE = (
    "default",
    "linear",
    "llama3",
    "yarn",
)  # kinds of rotary positions whose frequencies do not depend on the text
MUST_BE = {
    "model_type": "llama", "architectures": ["LlamaForCausalLM"], "hidden_act": "silu", "attention_bias": False,
    "mlp_bias": False, "rope_interleaved": False, "rope_scaling": None, "pretraining_tp": 1,
}  # fmt: skip


def plain(folder: str | Path) -> dict[str, Any] | None:
    """Return a folder's configuration with `rope_theta`, None for other models. Raises `ModelError` if damaged."""
    config = read_small(folder, CONFIG)
    if config is None:
        return None
    rope = config.pop("rope_parameters", None) or {"rope_theta": config.pop("rope_theta", None)}
    if set(rope) - {"rope_theta", "rope_type"} or rope.get("rope_type", "default") != "default":
        return None
    known = config.keys() <= KNOWN | MUST_BE.keys()
    if not known or any(config.get(name, value) != value for name, value in MUST_BE.items()):
        return None
    if not _complete(config) or config.get("model_type") != "llama" or not rope.get("rope_theta"):
        return None
    return {**config, "rope_theta": float(rope["rope_theta"])}


def similar(folder: str | Path) -> dict[str, Any] | None:
    """Return a folder's configuration if it is of a class in `SIMILAR`, else None. Raises `ModelError` if damaged."""
    config = read_small(folder, CONFIG) or {}
    rope = config.get("rope_parameters") or config.get("rope_scaling") or {}
    static = rope.get("rope_type", rope.get("type", "default")) in STATIC_ROPE
    usual = static and config.get("hidden_act", "silu") == "silu" and "quantization_config" not in config
    return config if usual and SIMILAR.intersection(config.get("architectures") or ()) and _complete(config) else None


def _complete(config: dict[str, Any]) -> bool:
    return all(isinstance(config.get(name), int) for name in NEEDED) and bool(config.get("rms_norm_eps", 1e-6))


def tensor_sizes(config: dict[str, Any]) -> dict[str, tuple[int, ...]]:
    """Return the names and sizes of all tensors of such a model."""
    shape, inner = Shape.from_fields(config.get), config["intermediate_size"]
    wide, query, pairs = shape.hidden, shape.heads * shape.head_dim, shape.kv_heads * shape.head_dim
    layer = {
        "input_layernorm": (wide,), "post_attention_layernorm": (wide,), "self_attn.q_proj": (query, wide),
        "self_attn.k_proj": (pairs, wide), "self_attn.v_proj": (pairs, wide), "self_attn.o_proj": (wide, query),
        "mlp.gate_proj": (inner, wide), "mlp.up_proj": (inner, wide), "mlp.down_proj": (wide, inner),
    }  # fmt: skip
    sizes = {f"model.layers.{i}.{name}.weight": size for i in range(shape.layers) for name, size in layer.items()}
    sizes |= {"model.embed_tokens.weight": (shape.vocab, wide), "model.norm.weight": (wide,)}
    return sizes if config.get("tie_word_embeddings") else {**sizes, "lm_head.weight": (shape.vocab, wide)}


def parameters(config: dict[str, Any]) -> int:
    """Return the number of weights of such a model."""
    return sum(map(math.prod, tensor_sizes(config).values()))


def eos_token_ids(folder: str | Path) -> int | list[int] | None:
    """Return `eos_token_id` of a folder's generation settings or configuration. Raises `ModelError` if damaged."""
    generation = read_small(folder, GENERATION)
    settings = read_small(folder, CONFIG) if generation is None else generation
    return settings.get("eos_token_id") if settings else None
