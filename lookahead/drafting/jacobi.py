"""The two parts of lookahead decoding: the window of Jacobi iterations, and the pool of n-grams from it.

Fu et al. 2024, arXiv 2402.02057.
"""

import random
from collections.abc import Sequence

Origin = tuple[int, int]  # number of the pass, and column of the window


class JacobiWindow:
    """A window with `n - 1` levels of `columns` guesses, oldest level first.

    Level 0 continues the text as a chain. Every further level has one guess per column. A column is the trajectory of the
    Jacobi iteration at its position. A window begins with one level and gains one per pass until it is full.
    """

    def __init__(self, columns: int, n: int):
        self.columns, self.n = columns, n
        self._levels: list[list[int]] = []

    def start(self, context: Sequence[int]) -> None:
        """Begin with random tokens of the context."""
        draws = random.Random(len(context))
        self._levels = [[draws.choice(context) for _ in range(self.columns)]]

    def shrink(self) -> None:
        """Remove all levels except the oldest."""
        self._levels = self._levels[:1]

    def close(self) -> None:
        """Remove all rows."""
        self._levels = []

    def rows(self, first: int) -> tuple[list[int], list[int]]:
        """Return tokens and parents of the window's rows. The first one becomes row `first` of the draft."""
        tokens = [token for level in self._levels for token in level]
        chain = [-1, *range(first, first + self.columns - 1)]  # parents of level 0
        above = range(first, first + len(tokens) - self.columns)  # parents of the other levels, in the same column
        return tokens, [*chain, *above] if tokens else []

    def advance(self, predicted: Sequence[int]) -> list[tuple[int, ...]]:
        """Add the target's predictions after the last level, by column; return the n-grams that they complete."""
        ngrams = []
        if len(self._levels) == self.n - 1:
            ngrams = list(zip(*self._levels, predicted, strict=True))
            self._levels.pop(0)
        self._levels.append(list(predicted))
        return ngrams


class NGramPool:
    """The newest `most` n-grams by first token, each with its first origin."""

    def __init__(self, most: int):
        self._most = most
        self._pool: dict[int, dict[tuple[int, ...], Origin | None]] = {}

    def add(self, ngram: tuple[int, ...], origin: Origin | None = None) -> None:
        """Add an n-gram as the newest; `origin` is None for an n-gram of the prompt."""
        first, continuation = ngram[0], ngram[1:]
        ngrams = self._pool.setdefault(first, {})
        ngrams[continuation] = ngrams.pop(continuation, origin)
        if len(ngrams) > self._most:
            del ngrams[next(iter(ngrams))]

    def after(self, token: int) -> list[tuple[tuple[int, ...], Origin | None]]:
        """Return the continuations of the n-grams that begin with `token`, newest first, each with its origin."""
        return list(reversed(self._pool.get(token, {}).items()))
