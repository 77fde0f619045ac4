"""Sweeps: one setting varied over its range, with the measured and the predicted speedup at every point.

Every drafted chain has two predictions from the acceptance measured at that point. In Leviathan's, verifying costs one pass
whatever its rows; in the priced one, it costs what this machine's curve gives. Both leave out the loop, and assume that tokens
are accepted independently. For draft lengths there is a third prediction, from runs with two lengths (`decision.forecast`).
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any

from ..family.models import Models
from .decision import SEEN, Forecast, forecast
from .progress import Arm, Plan, Progress, measure, questions
from .timing import median_pairs, read_entry

LENGTHS = (1, 2, 3, 4, 6, 8, 12, 16)
TEMPERATURES = (0.0, 0.3, 0.6, 0.8, 1.0, 1.3, 1.6)
TOKENS = (8, 16, 32, 64, 128, 256)
SHAPES = ((2, 2, 2), (3, 3, 3), (5, 3, 5), (5, 4, 5), (7, 5, 7), (10, 5, 10), (15, 5, 15))  # W, N, G
FIXED = "draft:k=4"  # while another setting is varied


@dataclass(frozen=True, slots=True)
class Point:
    """One value `x` of the setting: what was measured, and the speedups that two formulas predict, or None."""

    x: float
    arm: Arm
    leviathan: float | None
    priced: float | None

    @property
    def acceptance(self) -> float | None:
        """Share of the tested tokens that were accepted; None if none was drafted."""
        return self.arm.mean("acceptance")


@dataclass(frozen=True, slots=True)
class Sweep:
    """The points so far, and the speedups predicted from the runs with fewest and with `SEEN` drafted tokens."""

    setting: str
    points: tuple[Point, ...] = ()
    forecasts: tuple[Forecast, ...] = ()


def _window(shape: tuple[int, int, int]) -> tuple[float, Plan]:
    """Window W, n-gram N and guesses G of `lookahead`; x is the rows a pass may have."""
    w, n, g = shape
    method = f"lookahead:window={w},ngram={n},guesses={g}"
    return 1 + (w + g) * (n - 1), Plan(f"W {w}, N {n}, G {g}", method, settings={"k": n - 1})


SWEEPS = {  # the setting's name, its range, and the place of a value on the axis with its plan
    "draft-length": ("draft length", LENGTHS, lambda k: (k, Plan(f"k = {k}", f"draft:k={k}"))),
    "temperature": (
        "temperature", TEMPERATURES, lambda t: (t, Plan(f"temperature {t:g}", FIXED, settings={"temperature": t})),
    ),
    "output-length": ("output length", TOKENS, lambda n: (n, Plan(f"{n} tokens", FIXED, settings={"max_new_tokens": n}))),
    "window": ("W, N, G", SHAPES, _window),
}  # fmt: skip


def sweep(
    models: Models, name: str, values: Sequence[Any] | None = None, *, prompts: Sequence[str] = ("story",), repeats: int = 3,
    tokens: int = 64, most: int | None = None,
) -> Iterator[Progress | None]:  # fmt: skip
    """Measure every point of a sweep of `SWEEPS` against naive; yields the `Sweep` so far, and None after every run.

    `values` replace the whole range. `prompts` are categories or ids of bundled prompts, `most` of them; `tokens` is
    the length if that is not swept.
    """
    setting, whole_range, planned = SWEEPS[name]
    runs = [planned(value) for value in values or whole_range]
    arms = [
        (plan.method, questions(*prompts, most=most, **{"max_new_tokens": tokens, **plan.settings})) for _, plan in runs
    ]
    swept = Sweep(setting)
    for now in measure(models, arms, repeats):
        if now:
            newest = now
            both = zip(runs, now.result, strict=True)
            points = (_point(models, x, plan.arm(taken)) for (x, plan), taken in both if taken)
            swept = replace(swept, points=tuple(points))
        yield now and replace(now, result=swept)
    by_length = {x: median_pairs(taken, plan.method) for (x, plan), taken in zip(runs, newest.result, strict=True)}
    if name == "draft-length" and SEEN in by_length and (few := min(by_length)) < SEEN:
        forecasts = forecast(models.costs, (few, by_length[few]), (SEEN, by_length[SEEN]), whole_range)
        yield replace(newest, result=replace(swept, forecasts=tuple(forecasts)))


def _point(models: Models, x: float, arm: Arm) -> Point:
    entry, alpha = read_entry(arm.method), arm.mean("acceptance")
    if "k" not in entry.settings or alpha is None:
        return Point(x, arm, None, arm.mean("predicted"))
    expected = models.costs.predict(alpha, entry.settings["k"], entry.method)
    return Point(x, arm, expected.leviathan, expected.speedup)
