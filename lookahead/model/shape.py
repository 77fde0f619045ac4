"""The sizes of a causal language model: what its configuration says, as far as a pass depends on it.

Knows configurations. It does not know weights.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

ENDLESS = 1 << 20  # tokens, where a configuration names no longest context


@dataclass(frozen=True, slots=True)
class Shape:
    """Sizes of a model. `kind` is transformers' name of the architecture, `activation` that of its MLP."""

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
    def of(cls, field: Callable[[str], Any]) -> Shape:
        """The shape that a configuration describes: `field(name)` is what it says under a name, None for nothing."""
        heads = field("num_attention_heads") or 1
        return cls(
            kind=field("model_type"),
            vocab=field("vocab_size"),
            context_length=field("max_position_embeddings") or ENDLESS,
            hidden=field("hidden_size"),
            layers=field("num_hidden_layers"),
            heads=heads,
            kv_heads=field("num_key_value_heads") or heads,
            head_dim=field("head_dim") or field("hidden_size") // heads,
            activation=field("hidden_act") or field("activation_function") or "silu",
        )
