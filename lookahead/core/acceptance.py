"""How far drafts get: acceptance by position as a hazard, with censoring (Kaplan and Meier 1958).

A token after a rejection, or after the end of a text, was never tested, so it does not count as rejected. The product of
the first n rates is the chance that n tokens are accepted, whatever the length drafted.

This holds only for drafts of a fixed length. If low confidence ends drafts, the rates of later positions are too high.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass
from itertools import accumulate, zip_longest
from typing import Any, Self

from .events import ACCEPTED, CORRECTION


@dataclass(frozen=True, slots=True)
class Acceptance:
    """For each position of a draft, the first one first: how many were `accepted` of how many `tested`."""

    accepted: tuple[int, ...] = ()
    tested: tuple[int, ...] = ()

    @classmethod
    def of(cls, steps: Iterable[Any]) -> Self:
        """The acceptance in passes (`Step`s or their records). A correction marks a rejected draft."""
        return cls.of_counts((step.origins.count(ACCEPTED), CORRECTION in step.origins) for step in steps)

    @classmethod
    def of_counts(cls, drafts: Iterable[tuple[int, bool]]) -> Self:
        """The acceptance in drafts: how many tokens of each were accepted, and whether the next one was rejected."""
        ends = Counter(drafts)
        lengths: Counter[int] = Counter()
        for (accepted, _), drafted in ends.items():
            lengths[accepted] += drafted
        longest = max((n + refused for n, refused in ends), default=0)
        reached = [*accumulate(lengths[n] for n in range(longest, 0, -1))][::-1]
        refused = [ends[place, True] for place in range(longest)]
        return cls(tuple(reached), tuple(a + b for a, b in zip(reached, refused, strict=True)))

    def __add__(self, other: Acceptance) -> Acceptance:
        pairs = (self.accepted, other.accepted), (self.tested, other.tested)
        return Acceptance(*(tuple(map(sum, zip_longest(*pair, fillvalue=0))) for pair in pairs))

    @property
    def rates(self) -> tuple[float, ...]:
        """The share of the tested that was accepted, by position."""
        return tuple(a / n for a, n in zip(self.accepted, self.tested, strict=True))

    def chances(self, k: int) -> list[float]:
        """The chance that the first n of `k` drafted tokens are accepted and the next is not, for n from 0 to k.

        Positions that no draft reached get the rate of all tested positions together.
        """
        if not self.tested:
            return [1.0]
        rates = self.rates[:k]
        rates += (sum(self.accepted) / sum(self.tested),) * (k - len(rates))
        standing, out = 1.0, []
        for rate in rates:
            out.append(standing * (1 - rate))
            standing *= rate
        return [*out, standing]

    def passes(self, k: int, tokens: int) -> float:
        """Expected passes that write `tokens` tokens with `k` drafted in each; tokens beyond them are lost."""
        chances = self.chances(k)
        expected = [0.0]
        for left in range(1, tokens + 1):
            expected.append(1 + sum(p * expected[max(0, left - 1 - n)] for n, p in enumerate(chances)))
        return expected[tokens]


UNTESTED = Acceptance()
