"""The formulas of speculative decoding.

`alpha` is the chance that a drafted token is accepted, and `k` the number of drafted tokens. `c` is the cost of one drafted
token and `v` that of the verifying pass, both in one-row target passes.
"""

from collections.abc import Sequence


def expected_tokens(alpha: float, k: int) -> float:
    """Return the expected tokens per pass: 1 + alpha + ... + alpha^k (Leviathan et al. 2023, equation 1)."""
    if alpha >= 1.0:
        return float(k + 1)
    return (1.0 - alpha ** (k + 1)) / (1.0 - alpha)


def speedup(tokens_per_pass: float, k: int, c: float, v: float = 1.0) -> float:
    """Return the speedup over naive decoding. With v = 1 this is theorem 3.8 of Leviathan et al. 2023."""
    return tokens_per_pass / (v + k * c)


def interpolate(xs: Sequence[float], ys: Sequence[float], x: float) -> float:
    """Interpolate the curve (xs, ys) with rising xs at x, and extrapolate linearly after the last point."""
    if len(xs) == 1 or x <= xs[0]:
        return ys[0]
    i = next((i for i in range(1, len(xs)) if x <= xs[i]), len(xs) - 1)
    share = (x - xs[i - 1]) / (xs[i] - xs[i - 1])
    return ys[i - 1] + share * (ys[i] - ys[i - 1])
