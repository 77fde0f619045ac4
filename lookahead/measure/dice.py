"""The rejection rule as a game of dice: a token is drafted from Q and tested, and the token that is written is counted.

The histogram approaches the target's P, although Q differs. With a bug of `bugs.py` it does not, and the chi-square test
shows it. Only the p-value at the end is valid: one that is read repeatedly falls below any threshold at times.
"""

from collections.abc import Callable, Iterator
from dataclasses import dataclass

import torch

from ..core.accept import Rule, rule_for
from ..core.events import Draft, Settings, whole_number

P = (0.30, 0.22, 0.16, 0.12, 0.08, 0.06, 0.04, 0.02)  # the target's distribution
Q = (0.08, 0.34, 0.06, 0.20, 0.02, 0.16, 0.10, 0.04)  # the drafter's
TEMPERATURE = 0.7
THROWS, EVERY, MOST_THROWS = 4000, 50, 1_000_000
FREEDOM = len(P) - 1  # degrees, of the chi-square test
LEAST = 5.0  # expected of every token before the test is made
CONTEXT = (0,)


@dataclass(frozen=True, slots=True)
class Histogram:
    """The counts after `throws` of `of`: how often each token was `seen`, and how often it is `expected`.

    `p_value` is the chance that a correct rule has a `chi_square` as large, None after too few throws.
    """

    throws: int
    of: int
    seen: tuple[int, ...]
    accepted: int

    @property
    def expected(self) -> tuple[float, ...]:
        return tuple(self.throws * share for share in P)

    @property
    def chi_square(self) -> float:
        return sum((n - e) ** 2 / e for n, e in zip(self.seen, self.expected, strict=True))

    @property
    def p_value(self) -> float | None:
        if min(self.expected) < LEAST:
            return None
        half = torch.tensor([FREEDOM / 2, self.chi_square / 2], dtype=torch.float64)
        return float(torch.special.gammaincc(*half))


NOTHING = Histogram(0, THROWS, (0,) * len(P), 0)


def throw(
    *, throws: int = THROWS, every: int = EVERY, rule: Callable[[Settings], Rule] = rule_for
) -> Iterator[Histogram]:
    """Throw and count; yields the histogram after `every` throws and at the end. `rule` makes the rule from settings.

    Raises `SettingsError` before the first throw.
    """
    whole_number("throws", throws, 1, MOST_THROWS)
    whole_number("every", every, 1, MOST_THROWS)
    # Logits that the temperature turns into P and Q.
    target, drafter = (torch.tensor(shares).log() * TEMPERATURE for shares in (P, Q))
    rows, seen, accepted = torch.stack([target, target]), [0] * len(P), 0
    for n in range(1, throws + 1):
        fresh = rule(Settings(temperature=TEMPERATURE, rule="rejection", seed=n))  # its draws start at the seed
        pick = fresh.choose(drafter, CONTEXT)
        verification = fresh.verify(rows, Draft.chain([pick.token], "dice", [pick.q]), CONTEXT)
        seen[pick.token if verification.path else verification.token] += 1
        accepted += len(verification.path)
        if n % every == 0 or n == throws:
            yield Histogram(n, throws, tuple(seen), accepted)
