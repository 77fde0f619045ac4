"""The formulas, compared with simulation and with each other."""

import random

import pytest

from lookahead.core import theory


@pytest.mark.parametrize(("alpha", "k"), [(0.0, 4), (0.3, 1), (0.6, 4), (0.9, 8), (1.0, 5)])
def test_expected_tokens_agrees_with_simulation(alpha, k):
    draws = random.Random(f"{alpha}{k}")
    n, total = 40_000, 0
    for _ in range(n):
        run = 0
        while run < k and draws.random() < alpha:
            run += 1
        total += run + 1
    # The standard error is below (k + 1) / (2 sqrt(n)). Six of them are exceeded less than once in 100 million runs.
    assert theory.expected_tokens(alpha, k) == pytest.approx(total / n, abs=6 * (k + 1) / (2 * n**0.5))


def test_leviathan_example_and_losses():
    assert theory.speedup(theory.expected_tokens(0.8, 5), 5, 0.02) == pytest.approx(3.35, abs=0.01)
    assert theory.speedup(1.0, 4, 0.1, v=1.2) < 1


def test_interpolation():
    assert theory.interpolate([1, 3], [2.0, 4.0], 2) == 3.0
    assert theory.interpolate([1, 3], [2.0, 4.0], 0) == 2.0
    assert theory.interpolate([1, 3], [2.0, 4.0], 5) == 6.0
    assert theory.interpolate([1], [2.0], 9) == 2.0
