"""The sizes of a causal language model that a pass depends on, read from its configuration."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

UNLIMITED = 1 << 20  # tokens, for a configuration without a maximum context length
# Fields with the number of positions.
POSITIONS = ("max_position_embeddings", "max_target_positions", "max_seq_len", "max_sequence_length")


@dataclass(frozen=True, slots=True)
class Shape:
    """Sizes of a model. `kind` and `activation` are transformers' names of the architecture and of the MLP's activation."""

    kind: str
    vocab: int
    context_length: int
    hidden: int
    layers: int
    heads: int
    kv_heads: int
    head_dim: int
    activation: str = "silu"

    @classmethod
    def from_fields(cls, field: Callable[[str], Any]) -> Shape:
        """Return the shape for a configuration; `field(name)` returns the value of one of its fields, or None."""
        heads = field("num_attention_heads") or 1
        return cls(
            kind=field("model_type"),
            vocab=field("vocab_size"),
            context_length=min(*(field(name) or UNLIMITED for name in POSITIONS), length_limit(field) or UNLIMITED),
            hidden=field("hidden_size"),
            layers=field("num_hidden_layers"),
            heads=heads,
            kv_heads=field("num_key_value_heads") or heads,
            head_dim=field("head_dim") or field("hidden_size") // heads,
            activation=field("hidden_act") or field("activation_function") or "silu",
        )

    @classmethod
    def from_config(cls, config: Any) -> Shape:
        """Return the shape for a transformers configuration, or for its text part. Sizes that vary are those of layer 0."""
        text = config.get_text_config()
        if getattr(text, "is_heterogeneous", False):
            text = text.per_layer_config[0]
        return cls.from_fields(lambda name: getattr(text, name, None))


def length_limit(field: Callable[[str], Any]) -> int | None:
    """Return the longest text, in tokens, with one set of rotary frequencies; None without such a limit.

    LongRoPE has two sets: one for texts up to this length, one for longer texts. Keys that were cached with the first
    set are wrong for a longer text, so decoding stops at this length.
    """
    rope = field("rope_parameters") or field("rope_scaling")
    if not isinstance(rope, Mapping):
        return None
    limits = []
    for part in (rope, *(value for value in rope.values() if isinstance(value, Mapping))):  # one part per layer type
        if part.get("rope_type", part.get("type")) in ("longrope", "su"):
            limits.append(part.get("original_max_position_embeddings") or field("original_max_position_embeddings"))
    return min((limit for limit in limits if limit), default=None)
