"""Sweeps: one setting turned through its range, what was measured at every point, and what theory expects there.

Two predictions stand beside every measured speedup of a drafted chain, both from the acceptance measured
at that point: Leviathan's, where verifying costs one pass whatever its rows, and the priced one, where
it costs what this machine's curve says and turning from one model to the other is paid for too. What is left between the priced one and the measurement is the
loop, and tokens that do not stand independently of each other.

`surface` draws the priced formula over acceptance and draft length, for the measured points to lie on.

Knows lanes and costs. It does not know pages.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any

from .. import theory
from ..cost import CostCurve
from ..models import Models
from ..timing import Question, Sample, read_entry, samples
from .measure import Arm, Progress, questions, rows_of

LENGTHS = (1, 2, 3, 4, 6, 8, 12, 16)
TEMPERATURES = (0.0, 0.3, 0.6, 0.8, 1.0, 1.3, 1.6)
TOKENS = (8, 16, 32, 64, 128, 256)
SHAPES = ((2, 2, 2), (3, 3, 3), (5, 3, 5), (5, 4, 5), (7, 5, 7), (10, 5, 10), (15, 5, 15))  # W, N, G
ALPHAS = tuple(i / 20 for i in range(21))
K = 4


@dataclass(frozen=True, slots=True)
class Point:
    """One value of the setting. `arm` is what was measured; None stands for what has no prediction or no draft.

    `acceptance` is the share of the tested tokens that stood. `leviathan` and `priced` are predicted speedups.
    """

    x: float
    label: str
    arm: Arm
    acceptance: float | None
    tokens_per_pass: float | None
    leviathan: float | None
    priced: float | None

    @property
    def speedup(self) -> float | None:
        """Measured: the median over the prompts."""
        return self.arm.median


@dataclass(frozen=True, slots=True)
class Sweep:
    """What was swept, and the points so far."""

    setting: str
    method: str
    points: tuple[Point, ...] = ()


@dataclass(frozen=True, slots=True)
class Surface:
    """`speedup[i][j]` is the priced formula's at acceptance `alphas[i]` and draft length `ks[j]`."""

    alphas: tuple[float, ...]
    ks: tuple[int, ...]
    speedup: tuple[tuple[float, ...], ...]


def draft_length(models: Models, method: str = "draft", ks: Sequence[int] = LENGTHS, **how: Any) -> Iterator[Progress]:
    """Draft length k. `how`: see `_sweep`."""
    runs = [(k, f"k = {k}", _with(method, k=k), {}, k) for k in ks]
    return _sweep(models, "draft length", method, runs, **how)


def temperature(
    models: Models, method: str = "draft", temperatures: Sequence[float] = TEMPERATURES, k: int = K, **how: Any
) -> Iterator[Progress]:
    """Temperature, at a fixed draft length."""
    runs = [(t, f"temperature {t:g}", _with(method, k=k), {"temperature": t}, k) for t in temperatures]
    return _sweep(models, "temperature", method, runs, **how)


def output_length(
    models: Models, method: str = "draft", lengths: Sequence[int] = TOKENS, k: int = K, **how: Any
) -> Iterator[Progress]:
    """Output length in tokens, at a fixed draft length."""
    runs = [(n, f"{n} tokens", _with(method, k=k), {"max_new_tokens": n}, k) for n in lengths]
    return _sweep(models, "output length", method, runs, **how)


def window(models: Models, shapes: Sequence[tuple[int, int, int]] = SHAPES, **how: Any) -> Iterator[Progress]:
    """Window W, n-gram N and guesses G of `lookahead`; x is the rows a pass may have."""
    runs = []
    for w, n, g in shapes:
        label = _with("lookahead", window=w, ngram=n, guesses=g)
        runs.append((1 + (w + g) * (n - 1), f"W {w}, N {n}, G {g}", label, {"k": n - 1}, None))
    return _sweep(models, "W, N, G", "lookahead", runs, **how)


SWEEPS = {"draft-length": draft_length, "temperature": temperature, "output-length": output_length, "window": window}


def _with(method: str, **options: Any) -> str:
    """A method's entry, with more options."""
    name, _, held = method.partition(":")
    return f"{name}:{','.join([*filter(None, [held]), *(f'{k}={v}' for k, v in options.items())])}"


def _sweep(
    models: Models,
    setting: str,
    method: str,
    runs: Sequence[tuple[float, str, str, dict[str, Any], int | None]],
    *,
    prompts: Sequence[str] = ("story",),
    repeats: int = 3,
    tokens: int = 64,
    most: int | None = None,
) -> Iterator[Progress]:
    """Measure every point against naive; yields the `Sweep` so far, and may be closed at any point.

    `prompts` are categories or ids of bundled prompts, `most` of them; `tokens` is the length where it is not what
    is swept. Every point has a naive run of its own, so that a machine that slows down slows both.
    """
    asked = [questions(*prompts, most=most, **{"max_new_tokens": tokens, **settings}) for *_, settings, _ in runs]
    total, done = sum(map(len, asked)) * repeats, 0
    sweep = Sweep(setting, method)
    for (x, name, label, _, k), held in zip(runs, asked, strict=True):
        before, taken = sweep.points, []
        for sample in samples(models, [read_entry("naive"), read_entry(label)], held, repeats, {}):
            taken.append(sample)
            done += sample.entry.label == label
            if found := _point(models, x, name, label, held, k, taken):
                sweep = replace(sweep, points=(*before, found))
            yield Progress(done, total, f"{name}: {sample.question.id}", sweep)


def _point(
    models: Models, x: float, name: str, label: str, held: Sequence[Question], k: int | None, taken: Sequence[Sample]
) -> Point | None:
    rows = rows_of(taken, label, models.costs.pass_s(1))
    if not rows:
        return None
    arm = Arm.of(name, label, rows)
    alpha = arm.mean("acceptance")
    leviathan, priced = None, arm.mean("predicted")
    if k is not None and alpha is not None:
        entry = read_entry(label)
        draft = models.draft_costs.get(entry.options.get("draft", entry.method))
        leviathan, priced = predict(alpha, k, models.costs, draft)
    return Point(x, name, arm, alpha, arm.mean("tokens_per_pass"), leviathan, priced)


def predict(alpha: float, k: int, costs: CostCurve, draft: CostCurve | None = None) -> tuple[float, float]:
    """Speedups expected of chains of `k` tokens: (Leviathan's, with the measured price of verifying).

    `draft` is the draft model's curve; without one drafting costs nothing.
    """
    tokens, plain = theory.expected_tokens(alpha, k), costs.pass_s(1)
    c, turning_s = (draft.token_s / plain, draft.turning_s(k)) if draft else (0.0, 0.0)
    return theory.speedup(tokens, k, c), theory.speedup(tokens, k, c, (costs.pass_s(1 + k) + turning_s) / plain)


def surface(
    costs: CostCurve,
    draft: CostCurve | None = None,
    *,
    alphas: Sequence[float] = ALPHAS,
    ks: Sequence[int] = tuple(range(1, 17)),
) -> Surface:
    """The priced speedup over acceptance and draft length, on this machine's curves."""
    cells = tuple(tuple(predict(alpha, k, costs, draft)[1] for k in ks) for alpha in alphas)
    return Surface(tuple(alphas), tuple(ks), cells)
