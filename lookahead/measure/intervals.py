"""Bootstrap percentile intervals over prompts (Efron 1979). Prompts are resampled, not repetitions of one prompt."""

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

RESAMPLES = 2000


def interval(values: Sequence[Any], statistic: Callable[..., float], seed: int = 0) -> tuple[float, float] | None:
    """Return the 90% bootstrap interval of `statistic` over `values`, one per prompt; None for fewer than two."""
    if len(values) < 2:
        return None
    draws = np.random.default_rng(seed).integers(len(values), size=(RESAMPLES, len(values)))
    statistics = [statistic([values[i] for i in draw]) for draw in draws.tolist()]
    low, high = np.quantile(statistics, [0.05, 0.95])
    return float(low), float(high)
