"""An exact rule on two fixed distributions: each throw drafts tokens from Q, tests them and counts the written tokens.

The histogram approaches the target's P, although Q differs. With a bug of `bugs.py` it does not, and the chi-square test
detects it. With a mask, both distributions have only the words without an "o". Only the final p-value is valid, because repeated
tests of growing counts give false alarms. A bonus is not counted: it is drawn from P in any case.
"""

import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass

import torch

from ..core.accept import Rule
from ..core.events import MAX_DRAFTED, Draft, Settings, whole_number
from ..core.masks import Masks
from ..core.rules import rule_for

P = (0.30, 0.22, 0.16, 0.12, 0.08, 0.06, 0.04, 0.02)  # the target's distribution
Q = (0.08, 0.34, 0.06, 0.20, 0.02, 0.16, 0.10, 0.04)  # the drafter's
WORDS = ("cat", "dog", "fox", "hen", "owl", "bee", "ant", "elk")  # names of the tokens
TEMPERATURE = 0.7
THROWS, MIN_INTERVAL, MAX_THROWS = 4000, 50, 1_000_000
ALLOWED = tuple("o" not in word for word in WORDS)  # by the mask
_SHARES = [p * allowed for p, allowed in zip(P, ALLOWED, strict=True)]
MASKED_P = tuple(share / sum(_SHARES) for share in _SHARES)
MIN_EXPECTED = 5.0  # minimum expected count of every token for a valid test
CONTEXT = (0,)


class _WithoutO:
    """A grammar that allows one word without an "o"."""

    def allowed(self, tokens):
        return bytes([sum(allowed << token for token, allowed in enumerate(ALLOWED))])

    def forced(self, tokens):
        return None

    def satisfied(self, tokens):
        return True


@dataclass(frozen=True, slots=True)
class Histogram:
    """Counts after `throws` of `total` throws: the observed `counts` of each token and the `expected` ones.

    A throw drafts `drafted` tokens, and `accepted` counts those of all throws that were accepted. `p_value` is the probability that a correct rule has at least this `chi_square`. It is None after too few throws.
    """

    throws: int
    total: int
    counts: tuple[int, ...]
    accepted: int
    drafted: int = 1
    p: tuple[float, ...] = P

    @property
    def written(self) -> int:
        """The number of written tokens, without bonuses."""
        return sum(self.counts)

    @property
    def accepted_per_throw(self) -> float:
        return self.accepted / self.throws

    @property
    def expected(self) -> tuple[float, ...]:
        return tuple(self.written * share for share in self.p)

    @property
    def freedom(self) -> int:
        """The degrees of freedom of the chi-square test."""
        return sum(share > 0 for share in self.p) - 1

    @property
    def chi_square(self) -> float:
        pairs = zip(self.counts, self.expected, strict=True)
        return sum((n - e) ** 2 / e if e else n and math.inf for n, e in pairs)

    @property
    def p_value(self) -> float | None:
        if min(expected for expected, share in zip(self.expected, self.p, strict=True) if share) < MIN_EXPECTED:
            return None
        half = torch.tensor([self.freedom / 2, self.chi_square / 2], dtype=torch.float64)
        return float(torch.special.gammaincc(*half))


NOTHING = Histogram(0, THROWS, (0,) * len(P), 0)


def throw(
    throws: int = THROWS, every: int = MIN_INTERVAL, rule: Callable[..., Rule] = rule_for, *, drafted: int = 1,
    name: str = "rejection", masked: bool = False,
) -> Iterator[Histogram]:  # fmt: skip
    """Draft and test `drafted` tokens `throws` times; yields the histogram after `every` throws and at the end.

    `rule` returns the acceptance rule for settings, with the rule `name`, and masks. All rules test the same drafts. Raises
    `SettingsError` before the first throw.
    """
    whole_number("throws", throws, 1, MAX_THROWS)
    whole_number("every", every, 1, MAX_THROWS)
    whole_number("drafted", drafted, 1, MAX_DRAFTED)
    # Logits whose softmax at the temperature is P and Q.
    target, drafter = (torch.tensor(shares).log() * TEMPERATURE for shares in (P, Q))
    rows, counts, accepted = torch.stack([target] * (1 + drafted)), [0] * len(P), 0
    masks = Masks(_WithoutO(), len(CONTEXT)) if masked else None
    for n in range(1, throws + 1):
        seeded = rule(Settings(temperature=TEMPERATURE, rule=name, seed=n), masks)
        picks = [seeded.choose(drafter, CONTEXT) for _ in range(drafted)]
        draft = Draft.chain([pick.token for pick in picks], "dice", [pick.q for pick in picks])
        verification = seeded.verify(rows, draft, CONTEXT)
        for token in [*(draft.tokens[row] for row in verification.path), verification.token][:drafted]:
            counts[token] += 1
        accepted += len(verification.path)
        if n % every == 0 or n == throws:
            yield Histogram(n, throws, tuple(counts), accepted, drafted, MASKED_P if masked else P)
