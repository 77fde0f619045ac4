"""Bootstrap intervals over prompts (Efron 1979), by percentiles. Prompts are resampled, not repetitions of one prompt."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

RESAMPLES, LEVEL = 2000, 0.90


def interval(
    values: Sequence[Any], figure: Callable[[Sequence[Any]], float], level: float = LEVEL, seed: int = 0
) -> tuple[float, float] | None:
    """The interval of `figure` over resampled `values`, one for each prompt, at a `level`; None for fewer than two."""
    if len(values) < 2:
        return None
    draws = np.random.default_rng(seed).integers(len(values), size=(RESAMPLES, len(values)))
    figures = [figure([values[i] for i in draw]) for draw in draws.tolist()]
    low, high = np.quantile(figures, [(1 - level) / 2, (1 + level) / 2])
    return float(low), float(high)
