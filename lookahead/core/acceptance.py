"""How far drafts get: acceptance by position as a hazard, with censoring.

Of the drafts that reached a position, all before it accepted, how many had the token there accepted? What stands behind a
rejection was never tested, nor what stands behind the end of a text, so neither counts as rejected (the estimate of Kaplan
and Meier 1958). The product of the first n is the chance that n tokens are accepted, whatever the length drafted, so one
run predicts longer and shorter drafts.

This holds only for drafts of a fixed length. A draft that ends because confidence is low is not censored at random: its missing
tokens were less likely to be accepted, so the rates of later positions are too high. Forecast from runs of fixed lengths only.
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
        """Of passes (`Step`s or their records): the target's token in place of a drafted one says where a draft was refused."""
        return cls.of_counts((step.origins.count(ACCEPTED), CORRECTION in step.origins) for step in steps)

    @classmethod
    def of_counts(cls, drafts: Iterable[tuple[int, bool]]) -> Self:
        """Of drafts: how many of each were accepted, and whether the next one was refused. A `Counter` has many at once."""
        ends = Counter(drafts)
        lengths: Counter[int] = Counter()
        for (accepted, _), drafted in ends.items():
            lengths[accepted] += drafted
        longest = max((n + refused for n, refused in ends), default=0)
        reached = [*accumulate(lengths[n] for n in range(longest, 0, -1))][::-1]
        refused = [ends[place, True] for place in range(longest)]
        return cls(tuple(reached), tuple(a + b for a, b in zip(reached, refused, strict=True)))

    def __add__(self, other: Acceptance) -> Acceptance:
        """Both taken together."""
        counts = (
            tuple(a + b for a, b in zip_longest(one, two, fillvalue=0))
            for one, two in ((self.accepted, other.accepted), (self.tested, other.tested))
        )
        return Acceptance(*counts)

    @property
    def rates(self) -> tuple[float, ...]:
        """The share of the tested that was accepted, by position."""
        return tuple(a / n for a, n in zip(self.accepted, self.tested, strict=True))

    def chances(self, k: int) -> list[float]:
        """How likely the first n of `k` drafted tokens are accepted and the next is not, for n from 0 to k.

        Positions that no draft has reached are as good as all those that were tested, taken together.
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
        """How many passes write so many `tokens`, drafting `k` in each; what the last one writes too much is lost."""
        chances = self.chances(k)
        expected = [0.0]
        for left in range(1, tokens + 1):
            expected.append(1 + sum(p * expected[max(0, left - 1 - n)] for n, p in enumerate(chances)))
        return expected[tokens]


UNTESTED = Acceptance()
