"""What compiled passes take.

Compiled code reads a named tuple as a structure. None is inside another at a call from Python: numba would take ten times as long
to find the types. An address is an integer; the caller keeps the memory alive.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import torch

from ..model.heads.shape import HeadShape
from ..model.shape import Shape


class Kernels(NamedTuple):
    """The addresses of the kernels of a pass."""

    multiply: int
    norm: int
    add: int
    gate: int
    apply_rope: int
    read: int
    store: int
    attend: int


class Sizes(NamedTuple):
    """The sizes of a model: `known` are the tokens with logits, `widest` the most inputs of a product. Numbers are stored as
    bfloat16 if they are `rounded`, else as float32; `scaling` is that of attention's scores."""

    hidden: int
    heads: int
    kv_heads: int
    head_dim: int
    inner: int
    vocab: int
    known: int
    widest: int
    rounded: int
    eps: np.float32
    scaling: np.float32

    @classmethod
    def of(cls, shape: Shape | HeadShape, inner: int, known: int, widest: int, dtype: torch.dtype, eps: float) -> Sizes:
        """Those of a model's or a head's shape."""
        return cls(
            shape.hidden, shape.heads, shape.kv_heads, shape.head_dim, inner, shape.vocab, known, widest,
            int(dtype == torch.bfloat16), np.float32(eps), np.float32(shape.head_dim**-0.5),
        )  # fmt: skip


class PackedWeights(NamedTuple):
    """The weights of a model: the address of the embedding [vocab, hidden], `norms` [norms, hidden], `head_norms`
    [layers, 2, head_dim] of queries and keys (or [layers, 0, head_dim]), and the addresses of `blocks` and `scales`
    [layers + 1, 4] of products. Those of a layer are qkv, out, gate and up, down. In the last row are those beside the layers."""

    embed: int
    norms: np.ndarray
    head_norms: np.ndarray
    blocks: np.ndarray
    scales: np.ndarray


class Caches(NamedTuple):
    """The caches of the texts of a pass: `addresses` [texts, layers, 2] of keys and values [kv_heads, room, head_dim], and the
    `rooms` [texts]. The rows of a text end before `ends` [texts]."""

    addresses: np.ndarray
    rooms: np.ndarray
    ends: np.ndarray


class Rows(NamedTuple):
    """The rows of a pass: `ids` [n], and the rotations of their positions, `cos` and `sin` [n, head_dim]. A pass that also fills
    a cache from hidden states has rotations of those tokens first."""

    ids: np.ndarray
    cos: np.ndarray
    sin: np.ndarray


class Rotations(NamedTuple):
    """The rotations of all positions [positions, head_dim]."""

    cos: np.ndarray
    sin: np.ndarray


class Outputs(NamedTuple):
    """What a pass computes: at the address `logits` [rows, vocab] those of so many `rows` from `first` on, and the hidden states
    after the layers `taps`, after the last of them normed, at the addresses `states` [texts] of [rows, len(taps), hidden]."""

    first: int
    rows: int
    logits: int
    taps: np.ndarray
    states: np.ndarray


class Step(NamedTuple):
    """The addresses of two counters of layers whose keys are stored, of this call and of the one before it (`in_step`); 0 for
    none."""

    done: int
    before: int


ALONE = Step(0, 0)
