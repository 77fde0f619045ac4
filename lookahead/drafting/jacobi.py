"""The two parts of lookahead decoding: the window of Jacobi iterations, and the pool of the n-grams that it finds.

Fu et al. 2024, arXiv 2402.02057.
"""

import random
from collections.abc import Sequence

Origin = tuple[int, int]  # the pass, and the column of its window


class JacobiWindow:
    """`n - 1` levels of `columns` guesses, oldest first.

    Level 0 continues the text as a chain. Each of its columns has one guess per further level below it: the trajectory of
    the Jacobi iteration at that column. A window begins with one level and gains one per pass until it is full.
    """

    def __init__(self, columns: int, n: int):
        self.columns, self.n = columns, n
        self._levels: list[list[int]] = []

    def start(self, context: Sequence[int]) -> None:
        """Begin with tokens drawn from the context."""
        draws = random.Random(len(context))
        self._levels = [[draws.choice(context) for _ in range(self.columns)]]

    def shrink(self) -> None:
        """Begin anew from the oldest level."""
        self._levels = self._levels[:1]

    def close(self) -> None:
        """Remove all rows."""
        self._levels = []

    def rows(self, first: int) -> tuple[list[int], list[int]]:
        """Tokens and parents of the window's rows, the first of which will be row `first` of the draft."""
        tokens = [token for level in self._levels for token in level]
        chain = [-1, *range(first, first + self.columns - 1)]  # the parents of level 0
        above = range(first, first + len(tokens) - self.columns)  # those of the others: the same column, a level up
        return tokens, [*chain, *above] if tokens else []

    def advance(self, predicted: Sequence[int]) -> list[tuple[int, ...]]:
        """Add the target's predictions after the last level, by column; returns the n-grams that they complete."""
        ngrams = []
        if len(self._levels) == self.n - 1:
            ngrams = list(zip(*self._levels, predicted, strict=True))
            self._levels.pop(0)
        self._levels.append(list(predicted))
        return ngrams


class NGramPool:
    """The newest `most` n-grams by first token, with the place where each was found first."""

    def __init__(self, most: int):
        self._most = most
        self._pool: dict[int, dict[tuple[int, ...], Origin | None]] = {}

    def add(self, ngram: tuple[int, ...], origin: Origin | None = None) -> None:
        """Add an n-gram as the newest; `origin` is None for one of the prompt's."""
        first, rest = ngram[0], ngram[1:]
        ngrams = self._pool.setdefault(first, {})
        ngrams[rest] = ngrams.pop(rest, origin)
        if len(ngrams) > self._most:
            del ngrams[next(iter(ngrams))]

    def after(self, token: int) -> list[tuple[tuple[int, ...], Origin | None]]:
        """The n-grams that begin with a token, without it, newest first, each with its origin."""
        return list(reversed(self._pool.get(token, {}).items()))
