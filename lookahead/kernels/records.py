"""Arguments of compiled passes.

Compiled code reads a named tuple as a structure. At a call from Python no tuple contains another one, because numba
would take ten times as long to determine their types. An address is an integer; the caller keeps the memory alive.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
import torch
from numba import types

from ..core.tree import ancestors, is_chain
from ..model.heads.shape import HeadShape
from ..model.shape import Shape

INTEGER, FLOAT, NUMBER = types.int64, types.float32, types.float64
INTEGERS, INTEGERS_2D, INTEGERS_3D = INTEGER[::1], INTEGER[:, ::1], INTEGER[:, :, ::1]
FLOATS, FLOATS_2D, FLOATS_3D = FLOAT[::1], FLOAT[:, ::1], FLOAT[:, :, ::1]


def tuple_type(cls: type, *kinds: types.Type) -> types.Type:
    """Return the type of a named tuple in compiled code."""
    return types.BaseTuple.from_types(kinds, cls)


class Kernels(NamedTuple):
    """The addresses of the team's memory and of the kernels of a pass.

    `threads` is the number of threads that compute the pass; 0: the number that is set for the process.
    """

    team: int
    threads: int
    layer: int
    product: int
    multiply: int
    multiply_share: int
    add_bias: int
    scale: int
    norm: int
    add: int
    gate: int
    apply_rope: int
    read: int
    store: int
    attend: int
    attend_share: int


def _record(integers: str, floats: str = "") -> np.dtype:
    return np.dtype([(name, np.int64) for name in integers.split()] + [(name, np.float32) for name in floats.split()])


# The record of a pass for its layers: a `Kernels`, the memory of the threads, and the numbers and addresses of the other tuples below. Compiled code
# passes its address, because a function that takes the tuples is compiled again in each of its callers.
PASS = _record(
    """
    team threads product_job attention_job temp temp_bytes
    product multiply multiply_share add_bias scale norm add gate apply_rope attend attend_share
    hidden heads kv_heads head_dim inner rounded kv_storage
    norms head_norms head_norm_count blocks scales biases special
    texts layers buffers capacities ends
    n context_rows cos sin
    new prefix branch branch_stride counts max_columns
    counter previous
    """,
    "eps scaling residual",
)
# The arguments of kernels that several threads compute: `product.multiply` and `attend.attend_shared`.
PRODUCT = _record("multiply x weight scales y temp temp_bytes n k width rounded")
ATTENTION = _record(
    """
    attend qkv stride keys values capacity dim output scratch scratch_bytes max_columns
    prefix branch branch_stride counts n heads kv window storage
    """,
    "scaling",
)


class Factors(NamedTuple):
    """The factors of `Sizes`. The default `scaling` is that of a head's size."""

    scaling: float | None = None
    embedding: float = 1.0
    residual: float = 1.0
    logits: float = 1.0


PLAIN = Factors()


class Sizes(NamedTuple):
    """The sizes of a model.

    `output_vocab` is the number of tokens with logits, `max_inputs` the largest input width of a product. Numbers are
    stored as bfloat16 if `rounded`, else as float32. `kv_storage` is the format of keys and values. `scaling` is the factor of attention scores. Embeddings, the results of
    attention and MLP, and logits are multiplied by `embedding`, `residual` and `logits`, which are 1 in a plain Llama.
    """

    hidden: int
    heads: int
    kv_heads: int
    head_dim: int
    inner: int
    vocab: int
    output_vocab: int
    max_inputs: int
    rounded: int
    kv_storage: int
    eps: np.float32
    scaling: np.float32
    embedding: np.float32
    residual: np.float32
    logits: np.float32

    @classmethod
    def from_shape(
        cls, shape: Shape | HeadShape, inner: int, output_vocab: int, max_inputs: int, dtype: torch.dtype, kv_storage: int,
        eps: float, factors: Factors = PLAIN,
    ) -> Sizes:  # fmt: skip
        """Return the sizes of a model or a head of this shape."""
        return cls(
            shape.hidden, shape.heads, shape.kv_heads, shape.head_dim, inner, shape.vocab, output_vocab, max_inputs,
            int(dtype == torch.bfloat16), kv_storage, np.float32(eps), np.float32(factors.scaling or shape.head_dim**-0.5),
            *map(np.float32, factors[1:]),
        )  # fmt: skip


class PackedWeights(NamedTuple):
    """The weights of a model.

    `embed` is the address of the embedding [vocab, hidden]. `norms` [norms, hidden]; `head_norms` [layers, 2, head_dim]
    of queries and keys, or [layers, 0, head_dim]. `blocks`, `scales` and `biases` (0: none) [layers + 1, 4] are addresses of
    products: per layer qkv, out, gate and up, down. The last row has the products outside the layers. `special` [layers, 2]
    has a layer's sliding window (0: none), and 1 if the layer has no positions.
    """

    embed: int
    norms: np.ndarray
    head_norms: np.ndarray
    blocks: np.ndarray
    scales: np.ndarray
    biases: np.ndarray
    special: np.ndarray


class Caches(NamedTuple):
    """The caches of the texts of a pass.

    `addresses` [texts, layers, 2] are those of keys and values [kv_heads, capacity, head_dim], and `capacities` [texts]
    their capacities. The rows of a text end before `ends` [texts].
    """

    addresses: np.ndarray
    capacities: np.ndarray
    ends: np.ndarray


class Rows(NamedTuple):
    """The rows of a pass: `ids` [n] and the rotations of their positions, `cos` and `sin` [n, head_dim].

    If a pass also fills a cache from hidden states, the rotations of those tokens come first.
    """

    ids: np.ndarray
    cos: np.ndarray
    sin: np.ndarray


class Columns(NamedTuple):
    """The columns of the cache that each row of a pass attends to.

    These are the first `prefix` [rows] columns, then the first `counts` [rows] of the row's `branch` [rows, longest].
    `new` [rows] are the columns of the rows' own keys and values, the last that they attend to.
    """

    new: np.ndarray
    prefix: np.ndarray
    branch: np.ndarray
    counts: np.ndarray

    @classmethod
    def from_parents(cls, parents: Sequence[int], base: int, first: int = 0) -> Columns:
        """Return the columns for the rows of a tree from `first` on, after `base` cached tokens."""
        n, columns = len(parents) - first, np.arange(base + first, base + len(parents) + 1)
        new = columns[:-1]
        if is_chain(parents):
            return cls(new, columns[1:], np.zeros((n, 1), np.int64), np.zeros(n, np.int64))
        paths = [ancestors(parents, row) for row in range(first, len(parents))]
        starts = [next((i for i, row in enumerate(path) if row != i), len(path)) for path in paths]
        counts = [len(path) - start for path, start in zip(paths, starts, strict=True)]
        branch = np.zeros((n, max(1, *counts)), np.int64)
        for row, path, start, count in zip(branch, paths, starts, counts, strict=True):
            row[:count] = path[start:]
        return cls(new, np.array(starts) + base, branch + base, np.array(counts))

    @classmethod
    def from_texts(cls, texts: Sequence[Columns]) -> Columns:
        """Concatenate the columns of several texts. Each row attends to the cache of its text."""
        news, prefixes, branches, lengths = zip(*texts, strict=True)
        new, prefix, counts = np.concatenate(news), np.concatenate(prefixes), np.concatenate(lengths)
        joined = np.zeros((len(new), max(branch.shape[1] for branch in branches)), np.int64)
        start = 0
        for branch in branches:
            rows, longest = branch.shape
            joined[start : start + rows, :longest] = branch
            start += rows
        return cls(new, prefix, joined, counts)

    @property
    def positions(self) -> np.ndarray:
        """The positions of the rows in their texts [rows]."""
        return self.prefix + self.counts - 1


class Rotations(NamedTuple):
    """The rotations of all positions [positions, head_dim]."""

    cos: np.ndarray
    sin: np.ndarray


class Outputs(NamedTuple):
    """The outputs of a pass.

    `logits` is the address of the logits [rows, vocab] of `rows` rows from `first` on. After each layer in `taps`, the
    hidden states (after the last layer, the normed ones) are stored at the addresses `states` [texts], [rows,
    len(taps), hidden] each.
    """

    first: int
    rows: int
    logits: int
    taps: np.ndarray
    states: np.ndarray


class Pipeline(NamedTuple):
    """The counters of pipelined prefill, which count the layers whose keys are stored.

    `counter` is the address of this call's counter, `previous` that of the part before it; 0 for none.
    """

    counter: int
    previous: int


NOT_PIPELINED = Pipeline(0, 0)


# The types of these tuples, which the decorator `compiled` takes.
KERNELS = tuple_type(Kernels, *[INTEGER] * len(Kernels._fields))
SIZES = tuple_type(Sizes, *[INTEGER] * 10, *[FLOAT] * 5)
WEIGHTS = tuple_type(PackedWeights, INTEGER, FLOATS_2D, FLOATS_3D, *[INTEGERS_2D] * 4)
CACHES = tuple_type(Caches, INTEGERS_3D, INTEGERS, INTEGERS)
ROWS = tuple_type(Rows, INTEGERS, FLOATS_2D, FLOATS_2D)
COLUMNS = tuple_type(Columns, INTEGERS, INTEGERS, INTEGERS_2D, INTEGERS)
ROTATIONS = tuple_type(Rotations, FLOATS_2D, FLOATS_2D)
OUTPUTS = tuple_type(Outputs, *[INTEGER] * 3, INTEGERS, INTEGERS)
PIPELINE = tuple_type(Pipeline, INTEGER, INTEGER)
