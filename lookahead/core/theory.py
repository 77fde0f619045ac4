"""The formulas of speculative decoding.

`alpha` is the chance that a drafted token is accepted, `k` how many are drafted. `c` is the cost of one drafted token, and
`v` of the verifying pass, in ordinary target passes.
"""

from collections.abc import Sequence


def expected_tokens(alpha: float, k: int) -> float:
    """Tokens that a pass emits: 1 + alpha + ... + alpha^k. Leviathan et al. 2023, equation 1."""
    if alpha >= 1.0:
        return float(k + 1)
    return (1.0 - alpha ** (k + 1)) / (1.0 - alpha)


def speedup(tokens_per_pass: float, k: int, c: float, v: float = 1.0) -> float:
    """How many times faster than naive. With v = 1 this is theorem 3.8 of Leviathan et al. 2023."""
    return tokens_per_pass / (v + k * c)


def interpolate(xs: Sequence[float], ys: Sequence[float], x: float) -> float:
    """The curve (xs, ys), xs rising, at x: linear between points and past the end."""
    if len(xs) == 1 or x <= xs[0]:
        return ys[0]
    i = next((i for i in range(1, len(xs)) if x <= xs[i]), len(xs) - 1)
    share = (x - xs[i - 1]) / (xs[i] - xs[i - 1])
    return ys[i - 1] + share * (ys[i] - ys[i - 1])
