"""A trained block drafter: what it is made of, its file, and its passes on a CPU.

One pass drafts a whole block: slots [anchor, mask, mask, ...] look at the target's hidden states of all that stands before
the anchor (DFlash, Chen et al. 2026; JetSpec, where a slot does not see those behind it). A Markov head adds what depends
on the token drafted before, a confidence head says how likely a slot is accepted (DSpark, DeepSpec 2026). The embedding and
the output head are the target's. Files are those of `speculators`: weights in safetensors beside a `config.json`.

Knows tensors and files. It does not know how a draft is chosen or verified.
"""

from __future__ import annotations

import json
import math
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import torch
from safetensors.torch import load_file

from . import block_pass, whole_pass
from .cache import KeyValueCache
from .llama import SPARE_POSITIONS, Llama
from .multiply import spare_floats
from .product import Product

LAYER = ("self_attn.o_proj", "mlp.down_proj")
TOGETHER = 256  # new tokens a pass


@dataclass(frozen=True, slots=True)
class BlockShape:
    """Sizes of a block drafter. `taps` are the layers behind which it reads hidden states, as transformers numbers them;
    `mask` is the token whose embedding stands in a slot; `slots` are drafted a pass."""

    hidden: int
    heads: int
    kv_heads: int
    head_dim: int
    inner: int
    layers: int
    taps: tuple[int, ...]
    mask: int
    slots: int
    rank: int
    theta: float
    eps: float
    causal: bool

    @classmethod
    def of(cls, config: Mapping) -> BlockShape:
        """What a `speculators` configuration of the kind dspark says."""
        layer = config["transformer_layer_config"]
        rope = layer.get("rope_parameters") or {}
        return cls(
            layer["hidden_size"], layer["num_attention_heads"], layer["num_key_value_heads"], layer["head_dim"],
            layer["intermediate_size"], layer["num_hidden_layers"], tuple(config["aux_hidden_state_layer_ids"]),
            config["mask_token_id"], config["block_size"], config["markov_rank"],
            float(rope.get("rope_theta") or layer["rope_theta"]), layer["rms_norm_eps"],
            set(layer.get("layer_types", ())) == {"sliding_attention"} and not config["sliding_window_non_causal"],
        )  # fmt: skip


class BlockHead:
    """Its weights, shared by all lanes, beside a target's."""

    def __init__(self, shape: BlockShape, weights: Mapping[str, torch.Tensor], target: Llama):
        self.shape, self.target = shape, target
        named = lambda name: weights[f"{name}.weight"].to(target.dtype)  # noqa: E731
        small = True

        def layer(i: int) -> list[Product]:
            place = f"layers.{i}."
            joined = lambda *names: torch.cat([named(place + name) for name in names])  # noqa: E731
            qkv = joined(*(f"self_attn.{x}_proj" for x in "qkv"))
            both = joined("mlp.gate_proj", "mlp.up_proj")
            parts = (qkv, named(place + LAYER[0]), both, named(place + LAYER[1]))
            return [Product(part, small) for part in parts]

        self._products = [layer(i) for i in range(shape.layers)]
        last = [Product(named("fc"), small), target.for_drafting()._head]
        self._last = last
        rows = [*self._products, [*last, *last]]
        self.weights = np.array([[product.blocks.ctypes.data for product in row] for row in rows])
        self.scales = np.array([[product.scales.ctypes.data for product in row] for row in rows])
        around = [
            name
            for i in range(shape.layers)
            for name in (f"layers.{i}.input_layernorm", f"layers.{i}.post_attention_layernorm")
        ]
        self.norms = torch.stack([named(name) for name in ("hidden_norm", *around, "norm")]).float().numpy()
        self.head_norms = np.stack(
            [
                np.stack([named(f"layers.{i}.self_attn.{x}_norm").float().numpy() for x in "qk"])
                for i in range(shape.layers)
            ]
        )
        self.before = weights["markov_head.markov_w1.weight"].float()
        self.bias = Product(named("markov_head.markov_w2"), small)
        self.sure, self.sure_bias = (weights[f"confidence_head.proj.{x}"].float() for x in ("weight", "bias"))
        places = torch.arange(target.shape.context_length + SPARE_POSITIONS + shape.slots, dtype=torch.float32)
        angles = places[:, None] * shape.theta ** (-torch.arange(0, shape.head_dim, 2) / shape.head_dim)
        cos, sin = angles.cos(), angles.sin()
        turns = torch.cat([cos, cos], -1), torch.cat([-sin, sin], -1)
        self.turns = [table.to(target.dtype).float().numpy() for table in turns]
        self.kernels = whole_pass.addresses(last[0].stored)

    @classmethod
    def read(cls, folder: Path, target: Llama) -> BlockHead:
        """The head in a folder."""
        config = json.loads((folder / "config.json").read_text(encoding="utf-8"))
        return cls(BlockShape.of(config), load_file(folder / "model.safetensors"), target)


class Block:
    """A block before its tokens are chosen: the slots' hidden states [slots, hidden] and logits [slots, vocab]."""

    def __init__(self, head: BlockHead, hidden: torch.Tensor, logits: torch.Tensor):
        self._head, self._hidden, self._logits = head, hidden, logits

    def slot(self, slot: int, before: int) -> tuple[torch.Tensor, float]:
        """A slot's logits [vocab] where `before` stands before it, and how likely its token is accepted."""
        head = self._head
        known = head.before[before]
        sure = float(head.sure[0] @ torch.cat([self._hidden[slot], known]) + head.sure_bias)
        return self._logits[slot] + head.bias(known[None])[0], 1 / (1 + math.exp(-sure))


class CachedBlocks:
    """A head with a cache of its own."""

    def __init__(self, head: BlockHead):
        self.head, self.seconds = head, 0.0
        self.reset()

    def reset(self) -> None:
        """Forget everything."""
        self.cache, self.read = KeyValueCache(self.head.shape.layers), 0

    @property
    def slots(self) -> int:
        """Tokens of a block."""
        return self.head.shape.slots

    def block(self, states: torch.Tensor, anchor: int) -> Block:
        """The block behind `anchor`, whose text's further hidden states [tokens, taps times hidden] are read first."""
        while len(states) > TOGETHER:
            self._pass(states[:TOGETHER], [anchor])
            states = states[TOGETHER:]
        return self._pass(states, [anchor] + [self.head.shape.mask] * (self.slots - 1))

    def _pass(self, states: torch.Tensor, slots: list[int]) -> Block:
        head, shape, target = self.head, self.head.shape, self.head.target
        n, ids, start = len(states), np.array(slots), self.read
        both, vocab = n + len(ids), target.shape.vocab
        self.cache.lay_out(start + both)
        caches = self.cache.make_room(both, shape.kv_heads, shape.head_dim, target.dtype)
        cos, sin = (table[start : start + both] for table in head.turns)
        hidden, logits = torch.empty(len(ids), shape.hidden), torch.empty(len(ids), head._last[1].width)
        states = states.contiguous()
        fed = states.shape[1]
        block_pass.forward(
            head.kernels, states.data_ptr(), n, fed, ids, target.weights.embed.data_ptr(), cos, sin, head.norms,
            head.head_norms, head.weights, head.scales, caches, start, int(shape.causal), self.cache.layers[0].keys.shape[2],
            shape.heads, shape.kv_heads, shape.inner, vocab, int(target.dtype == torch.bfloat16),
            spare_floats(both, max(fed, shape.inner, shape.hidden)), hidden.data_ptr(), logits.data_ptr(),
            np.float32(shape.eps), np.float32(shape.head_dim**-0.5),
        )  # fmt: skip
        self.read += n
        self.cache.rewind(self.read)
        return Block(head, hidden, logits[:, :vocab])
