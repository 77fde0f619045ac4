"""The layers of trained heads as torch modules: for training, and for drafting where no kernels compute a head.

All attention here has two parts: rows attend to a text that all share ("far"), and to rows of their own group ("near"): the
slots of a block, or the tokens that a head drafted before. A group is at one position of the text. Training has many groups
per text, a race has one. Names are those of transformers' Qwen3, which files use.
"""

from collections.abc import Sequence
from typing import NamedTuple

import torch
from torch import nn
from torch.nn.functional import rms_norm, silu

from .shape import HeadShape


class Pairs(NamedTuple):
    """Keys and values, [texts, tokens, kv heads, dim] of a text or [texts, groups, rows, kv heads, dim] of groups."""

    keys: torch.Tensor
    values: torch.Tensor


class Seen(NamedTuple):
    """What rows see: of the text [groups, rows or 1, tokens], and of their group [rows, rows of the group]."""

    far: torch.Tensor
    near: torch.Tensor


class LayerCache:
    """Keys and values of the text that was read, and of drafted rows after it, by layer."""

    def __init__(self):
        self.far: list[Pairs] = []
        self.near: list[Pairs] = []

    def append(self, pairs: Sequence[Pairs]) -> None:
        """More of the text, [1, tokens, kv heads, dim] a layer."""
        if self.far:
            together = (zip(*each, strict=True) for each in zip(self.far, pairs, strict=True))
            pairs = [Pairs(*(torch.cat(both, 1) for both in each)) for each in together]
        self.far, self.near = list(pairs), []

    def rewind(self, length: int) -> None:
        """Cut the text back, and forget the rows after it."""
        self.far, self.near = [Pairs(*(part[:, :length] for part in pairs)) for pairs in self.far], []


def within(window: int, length: int, places: torch.Tensor) -> torch.Tensor:
    """Which of the first `length` tokens rows at `places` see, [1, rows, length]; without a window all."""
    tokens = torch.arange(length, device=places.device)
    first = places[:, None] - window if window else torch.full_like(places[:, None], -1)
    return (tokens > first)[None]


class Norm(nn.RMSNorm):
    """RMSNorm, computed in float32 whatever the numbers are."""

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """x [..., width]."""
        return rms_norm(x.float(), self.normalized_shape, self.weight.float(), self.eps).to(x.dtype)


class RotaryEmbedding(nn.Module):
    """The rotation of positions."""

    def __init__(self, shape: HeadShape):
        super().__init__()
        inv_freq = shape.theta ** -(torch.arange(0, shape.head_dim, 2).float() / shape.head_dim)
        self.register_buffer("inv_freq", inv_freq, persistent=False)

    def forward(self, places: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        """Cosines and sines [..., 1, dim] of positions [...]."""
        angles = places[..., None].float() * self.inv_freq
        angles = torch.cat([angles, angles], -1)[..., None, :]
        return angles.cos(), angles.sin()


def apply_rope(x: torch.Tensor, rotary: tuple[torch.Tensor, torch.Tensor]) -> torch.Tensor:
    """x [..., heads, dim] rotated by its positions."""
    cos, sin = rotary
    first, second = x.chunk(2, -1)
    return (x * cos + torch.cat([-second, first], -1) * sin).to(x.dtype)


class Attention(nn.Module):
    """Grouped-query attention over both parts; inputs are `fed` wide."""

    def __init__(self, shape: HeadShape, fed: int):
        super().__init__()
        self.kv, self.group, self.dim = shape.kv_heads, shape.heads // shape.kv_heads, shape.head_dim
        query, pair = shape.heads * shape.head_dim, shape.kv_heads * shape.head_dim
        self.q_proj = nn.Linear(fed, query, bias=shape.biased)
        self.k_proj, self.v_proj = (nn.Linear(fed, pair, bias=shape.biased) for _ in range(2))
        self.o_proj = nn.Linear(query, shape.hidden, bias=False)
        if shape.head_norms:
            self.q_norm, self.k_norm = (Norm(shape.head_dim, shape.eps) for _ in range(2))
        else:
            self.q_norm = self.k_norm = nn.Identity()

    def pairs(self, x: torch.Tensor, rotary: tuple[torch.Tensor, torch.Tensor]) -> Pairs:
        """Keys and values of rows x [..., fed]."""
        keys, values = (proj(x).unflatten(-1, (self.kv, self.dim)) for proj in (self.k_proj, self.v_proj))
        return Pairs(apply_rope(self.k_norm(keys), rotary), values)

    def forward(self, x, rotary, far: Pairs, near: Pairs, seen: Seen) -> torch.Tensor:
        """Rows x [texts, groups, rows, fed] mix what they see: [texts, groups, rows, hidden]."""
        q = apply_rope(self.q_norm(self.q_proj(x).unflatten(-1, (-1, self.dim))), rotary)
        q = q.unflatten(-2, (self.kv, self.group)) * self.dim**-0.5
        far_scores = torch.einsum("basgnd,btgd->bgnast", q, far.keys).masked_fill(~seen.far, -torch.inf)
        near_scores = _near("basgnd,balgd->bgnasl", q, near.keys).masked_fill(~seen.near, -torch.inf)
        weights = torch.cat([far_scores, near_scores], -1).float().softmax(-1).to(x.dtype)
        of_far, of_near = weights.split([far.keys.shape[1], near.keys.shape[2]], -1)
        mixed = torch.einsum("bgnast,btgd->basgnd", of_far.to(far.values.dtype), far.values)
        mixed = mixed + _near("bgnasl,balgd->basgnd", of_near.to(near.values.dtype), near.values)
        return self.o_proj(mixed.flatten(-3))


def _near(equation: str, x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
    """The product of rows x with those of their group; groups of one row would be thousands of tiny products of matrices."""
    rows, scores = x.shape[2 if equation.startswith("bas") else 4], equation.endswith("sl")
    if rows > 1:
        return torch.einsum(equation, x, y)
    if scores:
        return (x[:, :, 0, None] * y[:, :, :, :, None]).sum(-1).permute(0, 3, 4, 1, 2)[:, :, :, :, None]
    weights = x[:, :, :, :, 0].permute(0, 3, 4, 1, 2)[
        ..., None
    ]  # texts, groups, rows of the group, kv, heads of a kv, 1
    return (weights * y[:, :, :, :, None]).sum(2)[:, :, None]


class MLP(nn.Module):
    """SwiGLU."""

    def __init__(self, shape: HeadShape):
        super().__init__()
        self.gate_proj, self.up_proj = (nn.Linear(shape.hidden, shape.inner, bias=False) for _ in range(2))
        self.down_proj = nn.Linear(shape.inner, shape.hidden, bias=False)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """x [..., hidden]."""
        return self.down_proj(silu(self.gate_proj(x)) * self.up_proj(x))


class Layer(nn.Module):
    """A decoder layer; of an EAGLE head's first the input is twice as wide, and its norms are the network's."""

    def __init__(self, shape: HeadShape, fed: int = 0):
        super().__init__()
        self.self_attn, self.mlp = Attention(shape, fed or shape.hidden), MLP(shape)
        self.input_layernorm, self.post_attention_layernorm = (Norm(shape.hidden, shape.eps) for _ in range(2))

    def finish(self, x: torch.Tensor, mixed: torch.Tensor) -> torch.Tensor:
        """What follows attention, of the residual x and what was mixed."""
        x = x + mixed
        return x + self.mlp(self.post_attention_layernorm(x))
