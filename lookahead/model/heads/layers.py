"""The layers of trained heads as torch modules, for training and for heads without compiled passes.

Attention has two parts. Rows attend to a text that all rows share ("far"), and to the rows of their group ("near"), which are the
slots of a block or previously drafted tokens. A group follows one position of the text. Training has many groups per text, a
race has one. Modules have the names of transformers' Qwen3, as in the files.
"""

from collections.abc import Sequence
from typing import NamedTuple

import torch
from torch import Tensor, nn
from torch.nn.functional import rms_norm, silu

from .shape import HeadShape


class KeyValues(NamedTuple):
    """Keys and values, [texts, tokens, kv heads, dim] of a text or [texts, groups, rows, kv heads, dim] of groups."""

    keys: Tensor
    values: Tensor


class Mask(NamedTuple):
    """Attention masks of the text's tokens [groups, rows or 1, tokens] and of a group's rows [rows, group rows]."""

    far: Tensor
    near: Tensor


class LayerCache:
    """Keys and values per layer, of the text ("far") and of drafted rows after it ("near")."""

    def __init__(self):
        self.far: list[KeyValues] = []
        self.near: list[KeyValues] = []

    def append(self, pairs: Sequence[KeyValues]) -> None:
        """Append tokens of the text, [1, tokens, kv heads, dim] per layer."""
        if self.far:
            layers = (zip(old, new, strict=True) for old, new in zip(self.far, pairs, strict=True))
            pairs = [KeyValues(*(torch.cat(parts, 1) for parts in layer)) for layer in layers]
        self.far, self.near = list(pairs), []

    def rewind(self, length: int) -> None:
        """Cut the text back to `length` tokens and drop drafted rows."""
        self.far, self.near = [KeyValues(*(part[:, :length] for part in pairs)) for pairs in self.far], []


def window_mask(window: int, length: int, positions: Tensor) -> Tensor:
    """Return the mask [1, rows, length] of the tokens in the window of rows at `positions`; a window of 0 has all."""
    tokens = torch.arange(length, device=positions.device)
    first = positions[:, None] - window if window else torch.full_like(positions[:, None], -1)
    return (tokens > first)[None]


class Norm(nn.RMSNorm):
    """RMSNorm that computes in float32 for every number format."""

    def forward(self, x: Tensor) -> Tensor:
        """Return the normed x [..., width]."""
        return rms_norm(x.float(), self.normalized_shape, self.weight.float(), self.eps).to(x.dtype)


class RotaryEmbedding(nn.Module):
    """Rotary position embedding."""

    def __init__(self, shape: HeadShape):
        super().__init__()
        inv_freq = shape.theta ** -(torch.arange(0, shape.head_dim, 2).float() / shape.head_dim)
        self.register_buffer("inv_freq", inv_freq, persistent=False)

    def forward(self, positions: Tensor) -> tuple[Tensor, Tensor]:
        """Return cosines and sines [..., 1, dim] for positions [...]."""
        angles = positions[..., None].float() * self.inv_freq
        angles = torch.cat([angles, angles], -1)[..., None, :]
        return angles.cos(), angles.sin()


def apply_rope(x: Tensor, rotary: tuple[Tensor, Tensor]) -> Tensor:
    """Return x [..., heads, dim], rotated by its positions."""
    cos, sin = rotary
    first, second = x.chunk(2, -1)
    return (x * cos + torch.cat([-second, first], -1) * sin).to(x.dtype)


class Attention(nn.Module):
    """Grouped-query attention over both parts, for inputs [..., input_width]."""

    def __init__(self, shape: HeadShape, input_width: int):
        super().__init__()
        self.kv, self.group, self.dim = shape.kv_heads, shape.heads // shape.kv_heads, shape.head_dim
        query, pair = shape.heads * shape.head_dim, shape.kv_heads * shape.head_dim
        self.q_proj = nn.Linear(input_width, query, bias=shape.biased)
        self.k_proj, self.v_proj = (nn.Linear(input_width, pair, bias=shape.biased) for _ in range(2))
        self.o_proj = nn.Linear(query, shape.hidden, bias=False)
        if shape.head_norms:
            self.q_norm, self.k_norm = (Norm(shape.head_dim, shape.eps) for _ in range(2))
        else:
            self.q_norm = self.k_norm = nn.Identity()

    def keys_values(self, x: Tensor, rotary: tuple[Tensor, Tensor]) -> KeyValues:
        """Return keys and values of rows x [..., input_width]."""
        keys, values = (proj(x).unflatten(-1, (self.kv, self.dim)) for proj in (self.k_proj, self.v_proj))
        return KeyValues(apply_rope(self.k_norm(keys), rotary), values)

    def forward(self, x, rotary, far: KeyValues, near: KeyValues, mask: Mask) -> Tensor:
        """Return attention [texts, groups, rows, hidden] of rows x [texts, groups, rows, input_width] to the text and to their group."""
        q = apply_rope(self.q_norm(self.q_proj(x).unflatten(-1, (-1, self.dim))), rotary)
        q = q.unflatten(-2, (self.kv, self.group)) * self.dim**-0.5
        far_scores = torch.einsum("basgnd,btgd->bgnast", q, far.keys).masked_fill(~mask.far, -torch.inf)
        near_scores = _near("basgnd,balgd->bgnasl", q, near.keys).masked_fill(~mask.near, -torch.inf)
        weights = torch.cat([far_scores, near_scores], -1).float().softmax(-1).to(x.dtype)
        far_weights, near_weights = weights.split([far.keys.shape[1], near.keys.shape[2]], -1)
        mixed = torch.einsum("bgnast,btgd->basgnd", far_weights.to(far.values.dtype), far.values)
        mixed = mixed + _near("bgnasl,balgd->basgnd", near_weights.to(near.values.dtype), near.values)
        return self.o_proj(mixed.flatten(-3))


def _near(equation: str, x: Tensor, y: Tensor) -> Tensor:
    """Return `torch.einsum` of rows and their groups. For groups of one row, it avoids thousands of tiny matrix products."""
    rows, scores = x.shape[2 if equation.startswith("bas") else 4], equation.endswith("sl")
    if rows > 1:
        return torch.einsum(equation, x, y)
    if scores:
        return (x[:, :, 0, None] * y[:, :, :, :, None]).sum(-1).permute(0, 3, 4, 1, 2)[:, :, :, :, None]
    weights = x[:, :, :, :, 0].permute(0, 3, 4, 1, 2)[..., None]  # [texts, groups, rows of the group, kv, group, 1]
    return (weights * y[:, :, :, :, None]).sum(2)[:, :, None]


class MLP(nn.Module):
    """A SwiGLU feed-forward network."""

    def __init__(self, shape: HeadShape):
        super().__init__()
        self.gate_proj, self.up_proj = (nn.Linear(shape.hidden, shape.inner, bias=False) for _ in range(2))
        self.down_proj = nn.Linear(shape.inner, shape.hidden, bias=False)

    def forward(self, x: Tensor) -> Tensor:
        """Return the network's output [..., hidden] for x [..., hidden]."""
        return self.down_proj(silu(self.gate_proj(x)) * self.up_proj(x))


class Layer(nn.Module):
    """A decoder layer. The first layer of an EAGLE head has a wider input and is normed by the network."""

    def __init__(self, shape: HeadShape, input_width: int = 0):
        super().__init__()
        self.self_attn, self.mlp = Attention(shape, input_width or shape.hidden), MLP(shape)
        self.input_layernorm, self.post_attention_layernorm = (Norm(shape.hidden, shape.eps) for _ in range(2))

    def finish(self, x: Tensor, mixed: Tensor) -> Tensor:
        """Return the layer's output: x is the residual before attention, `mixed` the output of attention."""
        x = x + mixed
        return x + self.mlp(self.post_attention_layernorm(x))
