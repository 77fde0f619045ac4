"""Rotary tables that grow with the text: a context of ten million tokens needs no memory until it is used.

Positions are computed in blocks of a fixed size, so the numbers of a position do not depend on how a table has grown.

Knows positions. It does not know what is rotated.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import torch

BLOCK = 8192  # positions; shorter contexts have their whole table from the start


class RotaryTables:
    """Cosines and sines [positions, dim] of the first positions, at most `most`. `make` computes both for positions [n]."""

    def __init__(self, make: Callable[[torch.Tensor], tuple[torch.Tensor, torch.Tensor]], most: int):
        self._make, self.most = make, most
        self._tables: list[np.ndarray] = []
        self._grow(1)

    def up_to(self, stop: int) -> list[np.ndarray]:
        """Return the two tables with at least the positions before `stop`, but none from `most` on. Arrays that an earlier
        call returned stay as they are."""
        stop = min(stop, self.most)
        if stop > len(self._tables[0]):
            self._grow(stop)
        return self._tables

    @torch.inference_mode()
    def _grow(self, stop: int) -> None:
        """Double the tables until they reach `stop`."""
        length = len(self._tables[0]) if self._tables else 0
        wanted = max(BLOCK, length)
        while wanted < stop:
            wanted *= 2
        wanted = min(wanted, self.most)
        places = (torch.arange(start, min(start + BLOCK, wanted)) for start in range(length, wanted, BLOCK))
        blocks = [[table.float().numpy() for table in self._make(of_block)] for of_block in places]
        self._tables = [
            np.concatenate(parts) for parts in zip(*([self._tables] if length else []), *blocks, strict=True)
        ]
