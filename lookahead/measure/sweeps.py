"""Sweeps: one setting varied over its range, with the measured and the predicted speedup at each point.

Chains have two predictions from the acceptance rate measured at that point. `leviathan` assumes that verifying costs one pass
for any number of rows (Leviathan et al. 2023). `priced` uses this machine's cost curve. Both ignore the loop and assume that
tokens are accepted independently. Draft lengths have a third prediction, from runs with two lengths (`decision.forecast`).
A long prompt begins with other bundled prompts.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import cycle, islice
from typing import Any

from ..core.numbers import count
from ..engine.text import encode_prompt
from ..family.models import Models
from .decision import LONG_K, Forecast, forecast
from .machine import parts_of
from .progress import Arm, Plan, Progress, measure, questions
from .timing import Question, median_pairs, read_entry

LENGTHS = (1, 2, 3, 4, 6, 8, 12, 16)
TEMPERATURES = (0.0, 0.3, 0.6, 0.8, 1.0, 1.3, 1.6)
TOKENS = (8, 16, 32, 64, 128, 256)
CONTEXTS = (128, 256, 512, 1024, 2048, 4096)
CONTEXT = "context-length"
SHAPES = ((2, 2, 2), (3, 3, 3), (5, 3, 5), (5, 4, 5), (7, 5, 7), (10, 5, 10), (15, 5, 15))  # W, N, G
FIXED = "draft:k=4"  # the method when another setting is varied


@dataclass(frozen=True, slots=True)
class Point:
    """A value `x` of the setting, with the measured arm and the speedups that two formulas predict, or None.

    `attention` is the share of a one-row pass that reads keys and values; None if it was not measured.
    """

    x: float
    arm: Arm
    leviathan: float | None
    priced: float | None
    attention: float | None = None

    @property
    def acceptance(self) -> float | None:
        """The share of the tested tokens that were accepted; None if no tokens were drafted."""
        return self.arm.mean("acceptance")


@dataclass(frozen=True, slots=True)
class Sweep:
    """The points so far, and the speedups predicted from the runs with the shortest draft and with `LONG_K` tokens."""

    setting: str
    points: tuple[Point, ...] = ()
    forecasts: tuple[Forecast, ...] = ()


def _window(shape: tuple[int, int, int]) -> tuple[float, Plan]:
    """Return the plan for window W, n-gram size N and guesses G of `lookahead`; x is the maximum number of rows per pass."""
    w, n, g = shape
    method = f"lookahead:window={w},ngram={n},guesses={g}"
    return 1 + (w + g) * (n - 1), Plan(f"W {w}, N {n}, G {g}", method, settings={"k": n - 1})


SWEEPS = {  # the setting's name, its range, and a function from a value to its x and plan
    "draft-length": ("draft length", LENGTHS, lambda k: (k, Plan(f"k = {k}", f"draft:k={k}"))),
    "temperature": (
        "temperature", TEMPERATURES, lambda t: (t, Plan(f"temperature {t:g}", FIXED, settings={"temperature": t})),
    ),
    "output-length": ("output length", TOKENS, lambda n: (n, Plan(f"{n} tokens", FIXED, settings={"max_new_tokens": n}))),
    CONTEXT: ("prompt length", CONTEXTS, lambda n: (n, Plan(f"{count(n)} tokens before", FIXED))),
    "window": ("W, N, G", SHAPES, _window),
}  # fmt: skip


def sweep(
    models: Models, name: str, values: Sequence[Any] | None = None, *, prompts: Sequence[str] = ("story",), repeats: int = 3,
    tokens: int = 64, most: int | None = None,
) -> Iterator[Progress | None]:  # fmt: skip
    """Measure each point of a sweep of `SWEEPS`; yields the `Sweep` so far, and None after each run.

    `values` replace the full range. `prompts` are categories or ids of bundled prompts, and `most` limits their number.
    `tokens` is the length of the texts, unless it is swept.
    """
    setting, full_range, plan_for = SWEEPS[name]
    runs = [plan_for(value) for value in values or full_range]
    if by_context := name == CONTEXT:
        runs = [(x, plan) for x, plan in runs if x + tokens <= models.target.context_length]
    arms = [(p.method, questions(*prompts, most=most, **{"max_new_tokens": tokens, **p.settings})) for _, p in runs]
    if by_context:
        pairs = zip(runs, arms, strict=True)
        arms = [(method, [lengthened(models, q, x) for q in entries]) for (x, _), (method, entries) in pairs]
    swept, shares = Sweep(setting), {}
    for update in measure(models, arms, repeats):
        if update:
            newest = update
            pairs = [(x, plan, taken) for (x, plan), taken in zip(runs, update.result, strict=True) if taken]
            if by_context and pairs and pairs[-1][0] not in shares:
                shares[pairs[-1][0]] = parts_of("target", models.target.fresh(), 2, pairs[-1][0]).attention_share
            points = (_point(models, x, plan.arm(taken), shares) for x, plan, taken in pairs)
            swept = replace(swept, points=tuple(points))
        yield update and replace(update, result=swept)
    by_length = {x: median_pairs(taken, plan.method) for (x, plan), taken in zip(runs, newest.result, strict=True)}
    if name == "draft-length" and LONG_K in by_length and (short_k := min(by_length)) < LONG_K:
        forecasts = forecast(models.costs, (short_k, by_length[short_k]), (LONG_K, by_length[LONG_K]), full_range)
        yield replace(newest, result=replace(swept, forecasts=tuple(forecasts)))


def lengthened(models: Models, question: Question, length: int) -> Question:
    """Return a question with a prompt of at least `length` ids: other bundled prompts, then its own."""

    def ids(prompt: str | list[int], chat: bool) -> list[int]:
        vocab, most = models.target.vocab, models.target.context_length
        return encode_prompt(models.tokenizer, prompt, chat=chat, vocab=vocab, context_length=most)

    last = ids(question.prompt, question.chat)
    others = [token for other in questions() if other.id != question.id for token in ids(f"{other.prompt}\n\n", False)]
    return replace(question, prompt=[*islice(cycle(others), max(0, length - len(last))), *last], chat=False)


def _point(models: Models, x: float, arm: Arm, attention: Mapping[float, float | None]) -> Point:
    entry, alpha = read_entry(arm.method), arm.mean("acceptance")
    if "k" not in entry.settings or alpha is None:
        return Point(x, arm, None, arm.mean("predicted"))
    costs = models.costs.at(round(x)) if attention else models.costs
    expected = costs.predict(alpha, entry.settings["k"], entry.method)
    return Point(x, arm, expected.leviathan, expected.speedup, attention.get(x))
