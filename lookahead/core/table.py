"""`TableLM`: a language model without weights, for tests and experiments on the rules.

Its logits are a pseudo-random function of the last `order` tokens. A wrong mask, parent or rollback changes them. Its
distribution can be enumerated if vocabulary and order are small.
"""

from __future__ import annotations

import random
from collections.abc import Sequence
from functools import lru_cache

import torch

from .tree import ancestors


class TableLM:
    """A model with the interface of `CachedLM` and logits from a table. `seed` selects the table."""

    device = torch.device("cpu")
    longest, confidence, kind, translation, activated_experts = 1 << 20, None, None, None, None

    def __init__(self, vocab: int = 8, order: int = 2, seed: int = 0, spread: float = 2, context_length: int = 1 << 20):
        self.vocab, self.order, self.seed, self.spread = vocab, order, seed, spread
        self.context_length = context_length
        self.tokens: list[int] = []
        self._rows: list[int] = []

    def fresh(self) -> TableLM:
        return type(self)(self.vocab, self.order, self.seed, self.spread, self.context_length)

    def logits_after(self, sequence: Sequence[int]) -> torch.Tensor:
        return _row(self.vocab, self.seed, self.spread, tuple(sequence[-self.order :]))

    def forward(
        self, tokens: Sequence[int], parents: Sequence[int] | None = None, only: slice = slice(None), first: int = 0
    ) -> torch.Tensor:
        self._rows = list(tokens)
        parents = list(range(-1, len(tokens) - 1)) if parents is None else parents
        paths = [[self._rows[j] for j in ancestors(parents, i)] for i in range(len(tokens))]
        return torch.stack([self.logits_after(self.tokens + path) for path in paths[first:][only]])

    def keep(self, path: Sequence[int]) -> None:
        self.tokens += [self._rows[row] for row in path]
        self._rows = []

    def extend(self, tokens: Sequence[int]) -> torch.Tensor:
        logits = self.forward(tokens, only=slice(-1, None))
        self.keep(range(len(tokens)))
        return logits

    def draft_chain(self, tokens: Sequence[int], request: object) -> None:
        """Return None: drafting in one call is not supported."""

    def draft_tree(self, tokens: Sequence[int], request: object, branches: int, rows: int) -> None:
        """Return None: drafting in one call is not supported."""

    def sync(self, context: Sequence[int]) -> list[int]:
        shared = 0
        while shared < min(len(self.tokens), len(context) - 1) and self.tokens[shared] == context[shared]:
            shared += 1
        del self.tokens[shared:]
        return list(context[shared:])

    def reset(self) -> None:
        self.tokens, self._rows = [], []

    def cached(self) -> int:
        return len(self.tokens)


@lru_cache(maxsize=1 << 14)
def _row(vocab: int, seed: int, spread: float, suffix: tuple[int, ...]) -> torch.Tensor:
    """Return logits [vocab] after the last tokens. Callers must not modify them."""
    draws = random.Random(f"{seed}:{','.join(map(str, suffix))}")
    return torch.tensor([draws.gauss(0.0, spread) for _ in range(vocab)])
