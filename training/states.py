"""Outputs of a frozen target for the text that it wrote, stored on disk.

The target's pass takes more than half of a head's training step, and its result for a text is always the same. So its outputs
(`TargetOutputs`) are computed once and stored, `BLOCK` rows per file.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from time import perf_counter

import numpy as np
import torch
from transformers import PreTrainedModel

from lookahead.train.rows import TargetOutputs, target_outputs

from .fit import Report, Watch

BLOCK, TOGETHER = 256, 8  # rows per file and per pass
LAST, SUMS = "last", "sums"  # names of the files that are not taps


class States:
    """The stored outputs of a target for rows that it wrote, in a folder."""

    def __init__(self, folder: Path, taps: Sequence[int]):
        self._folder, self._taps = folder, tuple(taps)
        self._open: dict[tuple[int, str], np.ndarray] = {}

    @staticmethod
    def nbytes(target: PreTrainedModel, ids: np.ndarray, taps: Sequence[int]) -> int:
        """Return the bytes on disk for rows of ids [rows, tokens]."""
        return ids.size * (2 * target.config.hidden_size * (1 + len(taps)) + 4)

    def fill(self, target: PreTrainedModel, ids: np.ndarray, watch: Watch, compiled: bool = False) -> None:
        """Compute and store the outputs for rows of ids [rows, tokens] that are not stored yet."""
        self._folder.mkdir(exist_ok=True)
        device, start, done = target.device, perf_counter(), 0
        run = torch.compile(target_outputs, dynamic=False) if compiled else target_outputs
        for block in range(-(-len(ids) // BLOCK)):
            rows = ids[block * BLOCK : (block + 1) * BLOCK]
            if all(self._has(block, name, len(rows)) for name in self._names):
                continue
            parts = []
            for first in range(0, len(rows), TOGETHER):
                texts = torch.from_numpy(rows[first : first + TOGETHER].astype(np.int64)).to(device)
                with torch.autocast(device.type, torch.bfloat16):
                    parts.append(run(target, texts, self._taps))
                done, spent = done + texts.numel(), perf_counter() - start
                reached = (block * BLOCK + first + len(texts)) * ids.shape[1]
                watch(Report("states", reached, ids.size, float("nan"), done / spent, spent))
            self._keep(block, TargetOutputs(*(torch.cat(part) for part in zip(*parts, strict=True))))

    @property
    def _names(self) -> list[str]:
        return [*map(str, self._taps), LAST, SUMS]

    def _path(self, block: int, name: str) -> Path:
        return self._folder / f"{block:05}-{name}.npy"

    def _has(self, block: int, name: str, rows: int) -> bool:
        path = self._path(block, name)
        return path.is_file() and len(np.load(path, mmap_mode="r")) == rows

    def _keep(self, block: int, outputs: TargetOutputs) -> None:
        taps = outputs.states.to(torch.bfloat16).cpu().chunk(len(self._taps), -1)
        values = [part.view(torch.uint16).numpy() for part in (*taps, outputs.last.to(torch.bfloat16).cpu())]
        for name, value in zip(self._names, [*values, outputs.sums.cpu().numpy()], strict=True):
            path = self._path(block, name)
            new = path.with_suffix(".new.npy")
            np.save(new, value)
            new.replace(path)

    def at(self, rows: np.ndarray) -> TargetOutputs:
        """Return the outputs of the rows with these numbers. They must be stored (`fill`)."""
        *taps, last, sums = (
            np.stack([self._block(row // BLOCK, name)[row % BLOCK] for row in rows]) for name in self._names
        )
        states, last = (torch.from_numpy(part).view(torch.bfloat16) for part in (np.concatenate(taps, -1), last))
        return TargetOutputs(states, last, torch.from_numpy(sums))

    def _block(self, block: int, name: str) -> np.ndarray:
        if (block, name) not in self._open:
            self._open[block, name] = np.load(self._path(block, name), mmap_mode="r")
        return self._open[block, name]
