"""Compute a tree as a batch with one text per path from the root to a leaf.

Layers whose attention cannot follow the branches of a tree compute chains. Rows that several paths share are computed
once per path, so a tree costs more than its rows.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch


class Paths:
    """The paths of a tree, of which the first `stem` rows are left out.

    `rows` [texts, longest] has the rows of each path. A shorter path repeats its last row.
    """

    def __init__(self, parents: Sequence[int], stem: int = 0):
        inner = set(parents)
        paths = [_path(parents, leaf, stem) for leaf in range(stem, len(parents)) if leaf not in inner]
        longest = max(map(len, paths))
        place = {row: (text, i) for text, path in enumerate(paths) for i, row in enumerate(path)}
        self.rows = torch.tensor([path + path[-1:] * (longest - len(path)) for path in paths])
        self._texts, self._columns = (list(part) for part in zip(*(place[row] for row in sorted(place)), strict=True))

    def __len__(self) -> int:
        """Return the number of paths."""
        return len(self.rows)

    def batch(self, tensor: torch.Tensor) -> torch.Tensor:
        """Return the batch [texts, longest, ...] for values of rows [rows, ...]."""
        return tensor[self.rows.to(tensor.device)]

    def by_row(self, out: Any) -> Any:
        """Return values of rows [1, rows, ...] for those of a batch [texts, longest, ...], or for a tuple of them."""
        if isinstance(out, tuple):
            return tuple(self.by_row(part) for part in out)
        if not isinstance(out, torch.Tensor):
            return out
        return out[self._texts, self._columns][None]

    def after(self, base: int, stored: torch.Tensor) -> torch.Tensor:
        """Return the keys or values of each path, [texts, heads, base + longest, dim].

        `stored` [1, heads, base + rows, dim] are keys or values of `base` tokens and of all rows.
        """
        columns = torch.cat([torch.arange(base).expand(len(self), -1), base + self.rows], 1).to(stored.device)
        heads = torch.arange(stored.shape[1], device=stored.device)
        return stored[0][heads[:, None], columns[:, None]]


def _path(parents: Sequence[int], row: int, stem: int) -> list[int]:
    path = []
    while row >= stem:
        path.append(row)
        row = parents[row]
    return path[::-1]
