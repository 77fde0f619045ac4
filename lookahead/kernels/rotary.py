"""Rotary (RoPE) tables that grow with the text.

A context of ten million tokens uses no memory until the text reaches it. Positions are computed in blocks of a fixed
size, so the values of a position do not depend on how a table has grown.
"""

import numpy as np
import torch

from .records import Rotations

BLOCK = 8192  # positions; tables of shorter contexts are computed at once
SPARE_POSITIONS = 8  # in the tables, after the end of the context


class RotaryTables:
    """Cosines and sines [at most max_positions, head_dim], times `factor`, rounded to a number format."""

    def __init__(self, inv_freq: torch.Tensor, dtype: torch.dtype, max_positions: int, factor: float = 1.0):
        self._inv_freq, self._dtype, self.max_positions, self._factor = inv_freq, dtype, max_positions, factor
        self._tables: Rotations | None = None
        self.up_to(1)

    def up_to(self, stop: int) -> Rotations:
        """Return the two tables with at least the positions before `stop`, limited to `max_positions`.

        The tables double until they reach `stop`. Arrays that an earlier call returned are not changed.
        """
        tables, stop = self._tables, min(stop, self.max_positions)  # threads may extend the tables concurrently
        length = len(tables.cos) if tables else 0
        if stop > length:
            new_length = max(BLOCK, length)
            while new_length < stop:
                new_length *= 2
            new_length = min(new_length, self.max_positions)
            blocks = [self._block(start, min(start + BLOCK, new_length)) for start in range(length, new_length, BLOCK)]
            previous = [tables] if tables else []
            self._tables = tables = Rotations(*(np.concatenate(part) for part in zip(*previous, *blocks, strict=True)))
        return tables

    @torch.inference_mode()
    def _block(self, start: int, stop: int) -> list[np.ndarray]:
        """Compute the two tables of the positions from `start` to `stop`."""
        angles = torch.arange(start, stop).float()[:, None] * self._inv_freq
        cos, sin = (f(angles) * self._factor for f in (torch.cos, torch.sin))
        # rotate_half(x) is [-x2, x1]: the sign goes into the table.
        tables = torch.cat([cos, cos], -1), torch.cat([-sin, sin], -1)
        return [table.to(self._dtype).float().numpy() for table in tables]
