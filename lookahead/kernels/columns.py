"""Which columns of the cache the rows of a pass attend to, and which models kernels compute."""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache
from typing import NamedTuple

import numpy as np

from ..core.tree import ancestors, is_chain
from ..model.shape import Shape
from .vectors import NARROW


def fits(shape: Shape) -> bool:
    """Whether the kernels take a Llama of that shape."""
    return shape.head_dim % NARROW == 0


class Columns(NamedTuple):
    """Which columns of the cache each row of a pass attends to: the first `straight` [rows] columns, then the first `counts`
    [rows] of its `branch` [rows, longest]. `new` [rows] are the columns where their keys and values go, the last they see."""

    new: np.ndarray
    straight: np.ndarray
    branch: np.ndarray
    counts: np.ndarray

    @classmethod
    def of(cls, parents: Sequence[int], base: int, first: int = 0) -> Columns:
        """For the rows of a tree from `first` on, after `base` cached tokens."""
        n, start, stop = len(parents) - first, base + first, base + len(parents)
        places = _places(1 << stop.bit_length())
        new = places[start:stop]
        if is_chain(parents):
            return cls(new, places[start + 1 : stop + 1], *_no_branches(n))
        paths = [ancestors(parents, row) for row in range(first, len(parents))]
        starts = [next((i for i, row in enumerate(path) if row != i), len(path)) for path in paths]
        counts = [len(path) - start for path, start in zip(paths, starts, strict=True)]
        branch = np.zeros((n, max(1, *counts)), np.int64)
        for row, path, start, count in zip(branch, paths, starts, counts, strict=True):
            row[:count] = path[start:]
        return cls(new, np.array(starts) + base, branch + base, np.array(counts))

    @classmethod
    def beside(cls, texts: Sequence[Columns]) -> Columns:
        """Those of several texts, one after the other; each row looks into the cache of its own."""
        news, straights, branches, every = zip(*texts, strict=True)
        new, straight, counts = np.concatenate(news), np.concatenate(straights), np.concatenate(every)
        if not counts.any():
            return cls(new, straight, *_no_branches(len(new)))
        branch = np.zeros((len(new), max(of.shape[1] for of in branches)), np.int64)
        first = 0
        for of in branches:
            rows, wide = of.shape
            branch[first : first + rows, :wide] = of
            first += rows
        return cls(new, straight, branch, counts)

    @property
    def positions(self) -> np.ndarray:
        """Where the rows stand in their texts [rows]."""
        return self.straight + self.counts - 1


@lru_cache(maxsize=32)
def _places(count: int) -> np.ndarray:
    """The first so many columns."""
    return np.arange(count)


@lru_cache(maxsize=256)
def _no_branches(rows: int) -> tuple[np.ndarray, np.ndarray]:
    """`branch` and `counts` of a chain."""
    return np.zeros((rows, 1), np.int64), np.zeros(rows, np.int64)
