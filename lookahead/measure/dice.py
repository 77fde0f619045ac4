"""The rejection rule as a game of dice: a token is drafted from q and tested, and the token that is written is counted.

After thousands of throws on a vocabulary of eight the histogram is the target's p, whatever q is. With a bug of `bugs.py` it is
not, and the chi-square test shows it. Only the p-value at the end counts: one that is read again and again falls below any
threshold now and then.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

import torch

from ..core.accept import Rule, rule_for
from ..core.events import Draft, Settings, SettingsError, whole_number

P = (0.30, 0.22, 0.16, 0.12, 0.08, 0.06, 0.04, 0.02)  # the target's, and a drafter's that is far from it
Q = (0.08, 0.34, 0.06, 0.20, 0.02, 0.16, 0.10, 0.04)
TEMPERATURE = 0.7
THROWS, EVERY = 4000, 50
MOST_VOCABULARY, MOST_THROWS = 64, 1_000_000
LEAST = 5.0  # a cell expected less often is counted together with others
CONTEXT = (0,)


@dataclass(frozen=True, slots=True)
class Histogram:
    """The counts after so many `throws` of `of`: how often each token was `seen`, and how often it should be.

    `chi_square` has `freedom` degrees; `p_value` is how often a correct rule strays as far, None after too few throws.
    """

    throws: int
    of: int
    seen: tuple[int, ...]
    expected: tuple[float, ...]
    accepted: int
    chi_square: float
    freedom: int
    p_value: float | None


def throw(
    p: Sequence[float] = P,
    q: Sequence[float] = Q,
    *,
    throws: int = THROWS,
    every: int = EVERY,
    temperature: float = TEMPERATURE,
    seed: int = 0,
    rule: Callable[[Settings], Rule] = rule_for,
) -> Iterator[Histogram]:
    """Throw and count; yields the histogram `every` so many throws and at the end. May be closed at any point.

    `p` and `q` are the distributions at `temperature`. `rule` makes the rule from settings: the real one, or a bug's. Raises
    `SettingsError` before the first throw.
    """
    p, q = _distribution("p", p), _distribution("q", q)
    if len(p) != len(q):
        raise SettingsError("q", f"{len(q)} numbers", f"give as many as p has ({len(p)}).")
    whole_number("throws", throws, 1, MOST_THROWS)
    whole_number("every", every, 1, MOST_THROWS)
    Settings(temperature=temperature, rule="rejection", seed=seed)
    return _throws(p, q, throws, every, temperature, seed, rule)


def _throws(p, q, throws, every, temperature, seed, rule) -> Iterator[Histogram]:
    # Logits that the temperature turns into p and q.
    target = torch.tensor(p, dtype=torch.float64).log() * temperature
    drafter = torch.tensor(q, dtype=torch.float64).log() * temperature
    rows = torch.stack([target, target]).float()
    seen, accepted = [0] * len(p), 0
    for n in range(1, throws + 1):
        # A new rule for every throw, as for every text, so that its draws start at the seed.
        fresh = rule(Settings(temperature=temperature, rule="rejection", seed=seed * MOST_THROWS + n))
        pick = fresh.choose(drafter.float(), CONTEXT)
        verification = fresh.verify(rows, Draft.chain([pick.token], "dice", [pick.q]), CONTEXT)
        seen[pick.token if verification.path else verification.token] += 1
        accepted += len(verification.path)
        if n % every == 0 or n == throws:
            expected = [n * share for share in p]
            statistic, freedom, p_value = chi_square(seen, expected)
            yield Histogram(n, throws, tuple(seen), tuple(expected), accepted, statistic, freedom, p_value)


def chi_square(seen: Sequence[int], expected: Sequence[float]) -> tuple[float, int, float | None]:
    """Pearson's statistic, its degrees of freedom, and how often chance alone reaches it; rare cells are pooled."""
    if any(n and not e for n, e in zip(seen, expected, strict=True)):
        return math.inf, 0, 0.0  # a token that should never fall has fallen
    cells = [(n, e) for n, e in zip(seen, expected, strict=True) if e >= LEAST]
    rare = [(n, e) for n, e in zip(seen, expected, strict=True) if 0 < e < LEAST]
    if rare:
        cells.append((sum(n for n, _ in rare), sum(e for _, e in rare)))
    statistic, freedom = sum((n - e) ** 2 / e for n, e in cells), len(cells) - 1
    if freedom < 1 or sum(expected) < LEAST * len(cells):
        return statistic, freedom, None
    half = torch.tensor([freedom / 2, statistic / 2], dtype=torch.float64)
    return statistic, freedom, float(torch.special.gammaincc(half[0], half[1]))


def _distribution(name: str, given: Sequence[float]) -> list[float]:
    """Shares that add up to 1, or a `SettingsError`."""
    values = list(given)
    numbers = all(isinstance(x, (int, float)) and not isinstance(x, bool) and 0 <= x < math.inf for x in values)
    if not 2 <= len(values) <= MOST_VOCABULARY or not numbers or sum(values) <= 0:
        raise SettingsError(name, given, f"give 2 to {MOST_VOCABULARY} numbers, none below 0 and not all 0.")
    return [x / sum(values) for x in values]
