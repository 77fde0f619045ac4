"""Acceptance by position of a draft, as a hazard with censoring (Kaplan and Meier 1958).

A token after a rejection, or after the end of a text, is not tested. It does not count as rejected. The product of the
first n rates is the chance that n tokens are accepted.

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
    """How many tokens were `tested` and `accepted` at each position of a draft, from the first position on."""

    accepted: tuple[int, ...] = ()
    tested: tuple[int, ...] = ()

    @classmethod
    def from_steps(cls, steps: Iterable[Any]) -> Self:
        """Count the tests in passes (`Step`s or their records). A correction marks a rejected draft."""
        return cls.from_counts((step.origins.count(ACCEPTED), CORRECTION in step.origins) for step in steps)

    @classmethod
    def from_counts(cls, drafts: Iterable[tuple[int, bool]]) -> Self:
        """Count the tests in drafts of (number of accepted tokens, whether the next token was rejected)."""
        ends = Counter(drafts)
        lengths: Counter[int] = Counter()
        for (accepted, _), drafted in ends.items():
            lengths[accepted] += drafted
        longest = max((n + was_rejected for n, was_rejected in ends), default=0)
        accepted_at = [*accumulate(lengths[n] for n in range(longest, 0, -1))][::-1]
        rejected_at = [ends[position, True] for position in range(longest)]
        return cls(tuple(accepted_at), tuple(a + b for a, b in zip(accepted_at, rejected_at, strict=True)))

    def __add__(self, other: Acceptance) -> Acceptance:
        pairs = (self.accepted, other.accepted), (self.tested, other.tested)
        return Acceptance(*(tuple(map(sum, zip_longest(*pair, fillvalue=0))) for pair in pairs))

    @property
    def rates(self) -> tuple[float, ...]:
        """The share of the tested tokens that was accepted, by position."""
        return tuple(a / n for a, n in zip(self.accepted, self.tested, strict=True))

    def chances(self, k: int) -> list[float]:
        """Return the chance that exactly the first n of `k` drafted tokens are accepted, for n from 0 to k.

        A position without tests gets the rate of all positions together.
        """
        if not self.tested:
            return [1.0]
        rates = self.rates[:k]
        rates += (sum(self.accepted) / sum(self.tested),) * (k - len(rates))
        survival, out = 1.0, []
        for rate in rates:
            out.append(survival * (1 - rate))
            survival *= rate
        return [*out, survival]

    def passes(self, k: int, tokens: int) -> float:
        """Return the expected number of passes to write `tokens` tokens with `k` drafted tokens per pass."""
        chances = self.chances(k)
        expected = [0.0]
        for remaining in range(1, tokens + 1):
            expected.append(1 + sum(p * expected[max(0, remaining - 1 - n)] for n, p in enumerate(chances)))
        return expected[tokens]


UNTESTED = Acceptance()
