"""A short Llama in plain torch with a cache. The kernels are tested against it.

A pass computes the rows of a tree: `parents[i]` is the row that row i continues, -1 the last cached token. A row attends to the
whole cache and to its ancestors, and its position is its depth. So one pass returns the logits of every branch. torch's matrix
products may round a row differently if the number of rows changes.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import torch
from safetensors.torch import load_file
from torch.nn.functional import linear, silu

from ..core.tree import ancestor_mask, depths


class Reference:
    """A model and its cache, with the methods of `core.lm.LanguageModel`. `tokens` are the cached tokens."""

    longest, confidence, kind, translation, activated_experts, seconds = 1 << 20, None, None, None, None, 0.0
    device = torch.device("cpu")

    def __init__(self, config: Mapping[str, Any], weights: Mapping[str, torch.Tensor]):
        self.config, self.weights = config, weights
        self.heads, self.kv_heads = config["num_attention_heads"], config["num_key_value_heads"]
        self.dim = config.get("head_dim") or config["hidden_size"] // self.heads
        self.layers, self.eps = config["num_hidden_layers"], config["rms_norm_eps"]
        self.vocab, self.context_length = config["vocab_size"], config["max_position_embeddings"]
        theta = (config.get("rope_parameters") or config).get("rope_theta", 10_000.0)
        self.frequencies = 1.0 / theta ** (torch.arange(0, self.dim, 2) / self.dim)
        self.reset()

    @classmethod
    def load(cls, folder: str | Path, dtype: torch.dtype = torch.float32) -> Reference:
        """Read config.json and all safetensors files of a Llama without biases and with unscaled rotary positions."""
        weights: dict[str, torch.Tensor] = {}
        for file in sorted(Path(folder).glob("*.safetensors")):
            weights |= {name: tensor.to(dtype) for name, tensor in load_file(file).items()}
        return cls(json.loads(Path(folder, "config.json").read_text(encoding="utf-8")), weights)

    def reset(self) -> None:
        """Empty the cache."""
        empty = torch.empty(self.kv_heads, 0, self.dim)
        self.tokens: list[int] = []
        self._cache = [(empty, empty) for _ in range(self.layers)]  # keys and values [kv_heads, tokens, dim] per layer
        self._pending: tuple[list[int], list[tuple[torch.Tensor, torch.Tensor]]] = [], []  # rows of the last pass

    @torch.inference_mode()
    def forward(self, tokens: Sequence[int], parents: Sequence[int] | None = None, *, first: int = 0) -> torch.Tensor:
        """Run rows after the cache; return float32 logits [rows - first, vocab]. The rows are pending until `keep`."""
        parents = range(-1, len(tokens) - 1) if parents is None else parents
        base, added = len(self.tokens), []
        positions = base - 1 + torch.tensor(depths(parents))
        hidden_rows = ~torch.tensor(ancestor_mask(parents))  # [rows, rows]: True if a row must not attend to another
        x = self.weights["model.embed_tokens.weight"][torch.tensor(tokens)]  # [rows, hidden]
        for layer in range(self.layers):
            h = self._norm(x, f"model.layers.{layer}.input_layernorm.weight")
            query = self._rotate(self._split(h, layer, "q_proj", self.heads), positions)
            keys = self._rotate(self._split(h, layer, "k_proj", self.kv_heads), positions)
            values = self._split(h, layer, "v_proj", self.kv_heads)
            added.append((keys, values))
            x = x + self._project(self._attend(query, keys, values, hidden_rows, layer), layer, "self_attn.o_proj")
            h = self._norm(x, f"model.layers.{layer}.post_attention_layernorm.weight")
            gate, up = (self._project(h, layer, f"mlp.{name}_proj") for name in ("gate", "up"))
            x = x + self._project(silu(gate) * up, layer, "mlp.down_proj")
        self._pending = list(tokens), added
        head = self.weights.get("lm_head.weight", self.weights["model.embed_tokens.weight"])
        return linear(self._norm(x, "model.norm.weight"), head)[first:].float()

    def keep(self, path: Sequence[int]) -> None:
        """Commit the rows in `path` to the cache and drop all other rows of the last pass."""
        tokens, added = self._pending
        rows = torch.tensor(list(path), dtype=torch.long)
        self.tokens += [tokens[row] for row in path]
        self._cache = [
            (torch.cat([keys, new_keys[:, rows]], 1), torch.cat([values, new_values[:, rows]], 1))
            for (keys, values), (new_keys, new_values) in zip(self._cache, added, strict=True)
        ]
        self._pending = [], []

    def extend(self, tokens: Sequence[int]) -> torch.Tensor:
        """Append tokens; return the logits [1, vocab] after the last one."""
        logits = self.forward(tokens)[-1:]
        self.keep(range(len(tokens)))
        return logits

    def sync(self, context: Sequence[int]) -> list[int]:
        """Rewind to the longest prefix shared with `context`; return the tokens that are not cached, at least one."""
        shared = 0
        while shared < min(len(self.tokens), len(context) - 1) and self.tokens[shared] == context[shared]:
            shared += 1
        del self.tokens[shared:]
        self._cache = [(keys[:, :shared], values[:, :shared]) for keys, values in self._cache]
        return list(context[shared:])

    def cached(self) -> int:
        """Return the number of cached tokens."""
        return self._cache[0][0].shape[1]

    def draft_chain(self, *request: Any) -> None:
        """Return None, because there is no compiled draft; see `LanguageModel.draft_chain`."""

    draft_tree = draft_chain

    def _attend(self, query, keys, values, hidden_rows, layer) -> torch.Tensor:
        """Return attention [rows, heads * dim] of `query` [heads, rows, dim] to the cache and to the rows of the pass."""
        cached = self._cache[layer]
        keys, values = (
            torch.cat([old.to(new.dtype), new], 1).repeat_interleave(self.heads // self.kv_heads, 0)
            for old, new in zip(cached, (keys, values), strict=True)
        )
        scores = query @ keys.transpose(1, 2) * self.dim**-0.5
        scores[:, :, cached[0].shape[1] :].masked_fill_(hidden_rows, -torch.inf)
        return (scores.float().softmax(-1).to(values.dtype) @ values).transpose(0, 1).flatten(1)

    def _project(self, x, layer: int, name: str) -> torch.Tensor:
        return linear(x, self.weights[f"model.layers.{layer}.{name}.weight"])

    def _split(self, x, layer: int, name: str, heads: int) -> torch.Tensor:
        """Return a projection of x as [heads, rows, dim]."""
        return self._project(x, layer, f"self_attn.{name}").unflatten(1, (heads, self.dim)).transpose(0, 1)

    def _rotate(self, x, positions) -> torch.Tensor:
        """Apply rotary position embeddings (Su et al. 2021). The halves of `dim` are real and imaginary parts."""
        angles = positions[:, None].float() * self.frequencies  # [rows, dim / 2]
        cos, sin = (part.to(x.dtype) for part in (angles.cos(), angles.sin()))
        left, right = x.chunk(2, -1)
        return torch.cat([left * cos - right * sin, right * cos + left * sin], -1)

    def _norm(self, x, name: str) -> torch.Tensor:
        """Apply a root-mean-square norm (Zhang and Sennrich 2019)."""
        wide = x.float()
        return self.weights[name] * (wide * torch.rsqrt(wide.square().mean(-1, keepdim=True) + self.eps)).to(x.dtype)
