"""Training rows of the mix, as a pure function of the row number.

The documents of a domain are shuffled once and concatenated. A fixed pattern with the shares of the mix assigns row n to a
domain. The row contains the next tokens of that domain. So a resumed run reads the same rows as an uninterrupted run.
"""

from __future__ import annotations

from collections.abc import Mapping
from itertools import count
from pathlib import Path

import numpy as np
import torch
from transformers import PreTrainedTokenizerFast

from .corpus import Document
from .tokenizer import encode

PATTERN = 1000  # rows per period of the mix


class Streams:
    """Token streams by domain, [tokens] of uint16, and the ids of held-out documents."""

    def __init__(self, training: Mapping[str, np.ndarray], held_out: Mapping[str, list[list[int]]]):
        self.training, self.held_out = training, held_out

    @classmethod
    def from_documents(
        cls, documents: list[Document], tokenizer: PreTrainedTokenizerFast, seed: int, folder: Path
    ) -> Streams:
        """Encode a corpus, or read the training streams from `folder` if an earlier run stored them."""
        path = folder / "tokens.npz"
        domains = sorted({d.domain for d in documents})
        held_out = cls.held_out_ids(documents, tokenizer)
        if path.is_file():
            with np.load(path) as stored:
                return cls({domain: stored[domain] for domain in domains}, held_out)
        training = {}
        for domain in domains:
            chosen = [d for d in documents if d.domain == domain and not d.held_out]
            encoded = zip(chosen, encode(tokenizer, chosen), strict=True)
            rows = [ids for document, ids in encoded for _ in range(document.weight)]
            np.random.default_rng(seed).shuffle(rows)
            training[domain] = np.concatenate([np.asarray(row, dtype=np.uint16) for row in rows])
        np.savez(path, **training)
        return cls(training, held_out)

    @staticmethod
    def held_out_ids(documents: list[Document], tokenizer: PreTrainedTokenizerFast) -> dict[str, list[list[int]]]:
        """Return the ids of held-out documents by domain."""
        held_out = [d for d in documents if d.held_out]
        out: dict[str, list[list[int]]] = {d.domain: [] for d in documents}
        for document, ids in zip(held_out, encode(tokenizer, held_out), strict=True):
            out[document.domain].append(ids)
        return out


class Batches:
    """The training rows of a mix, by row number. `streams` are tokens by domain, `mix` the domains' shares."""

    def __init__(self, streams: Mapping[str, np.ndarray], mix: Mapping[str, float], seed: int):
        mix = {domain: share for domain, share in mix.items() if len(streams.get(domain, ()))}
        total = sum(mix.values())
        counts = {domain: max(1, round(PATTERN * share / total)) for domain, share in mix.items()}
        self._streams = streams
        self._pattern = np.random.default_rng(seed).permutation([d for d, n in counts.items() for _ in range(n)])
        self._counts = counts
        ranks = {domain: count() for domain in counts}
        self._rank = [next(ranks[domain]) for domain in self._pattern]

    def batch(self, first_row: int, rows: int, length: int) -> torch.Tensor:
        """Return rows from `first_row` on, [rows, length + 1]; the last token is only a label."""
        return torch.from_numpy(np.stack([self._row(first_row + i, length + 1) for i in range(rows)]))

    def _row(self, n: int, length: int) -> np.ndarray:
        cycle, slot = divmod(n, len(self._pattern))
        domain = str(self._pattern[slot])
        stream = self._streams[domain]
        start = (cycle * self._counts[domain] + self._rank[slot]) * (length - 1) % len(stream)
        piece = np.take(stream, range(start, start + length), mode="wrap")
        return piece.astype(np.int64)
