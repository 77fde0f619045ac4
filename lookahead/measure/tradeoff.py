"""Speed against damage: a lossy rule at every weight, and the exact rules, compared with naive decoding on the same prompts.

A written token is changed if naive, after the same text, would have written another one. The damage of a run is the share of
its changed tokens, and the log-probability per token that the target loses by them. Both are measured in the timed runs.
"""

import statistics
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Literal

from ..core.events import LOSSY, SettingsError
from ..drafting import drafter_with
from ..drafting.ngram import NGram
from ..engine.methods import DRAFT
from ..engine.text import IncrementalDetokenizer, encode_prompt
from ..family.models import Models
from ..model.heads.shape import KINDS
from .intervals import interval
from .progress import Arm, Progress, measure, questions, rows_of
from .timing import Question, Sample, Timing, by_question, median_run

WEIGHTS = tuple(tenths / 10 for tenths in range(11))
K, TOKENS, PROMPTS = 4, 64, 6  # drafted tokens per pass, tokens per text, prompts
TEMPERATURE = 0.8  # of the exact rules that sample
SAMPLED = ("coupled", "rejection", "block-verification")
Damage = Literal["changed", "lost"]  # the share of the changed tokens, or nats per token


@dataclass(frozen=True, slots=True)
class Point:
    """A rule with the speedups of its `arm`, and its median run on each prompt. `weight` is None for an exact rule."""

    rule: str
    weight: float | None
    arm: Arm
    runs: tuple[Timing, ...]

    @property
    def speedup(self) -> float:
        """The median speedup over prompts."""
        return statistics.median(row.speedup for row in self.arm.rows)

    def damage(self, kind: Damage) -> float:
        """Return the mean damage over prompts."""
        return statistics.fmean(getattr(run, kind) for run in self.runs)

    def interval(self, kind: Damage) -> tuple[float, float] | None:
        """Return the 90% interval of the mean damage, over prompts; None for fewer than two."""
        return interval([getattr(run, kind) for run in self.runs], statistics.fmean)


@dataclass(frozen=True, slots=True)
class Tradeoff:
    """The points of a lossy rule by weight, and those of the exact rules, measured so far with the models `spec`."""

    spec: str
    rule: str
    questions: tuple[Question, ...]
    points: tuple[Point, ...] = ()
    exact: tuple[Point, ...] = ()

    def at(self, weight: float) -> Point | None:
        """Return the point nearest to a weight; None if no point is measured yet."""
        return min(self.points, key=lambda point: abs((point.weight or 0.0) - weight), default=None)


def tradeoff(
    models: Models, rule: str, *, prompts: int = PROMPTS, repeats: int = 1, weights: Sequence[float] = WEIGHTS, tokens: int = TOKENS
) -> Iterator[Progress | None]:  # fmt: skip
    """Measure a lossy rule at each of the `weights`, and the exact rules. Yields the `Tradeoff` so far, and None after each run.

    The lossy rules and greedy run at temperature 0, the exact sampling rules at `TEMPERATURE`. Raises `SettingsError` for an
    exact rule.
    """
    if rule not in LOSSY:
        raise SettingsError("rule", rule, f"choose one of {', '.join(LOSSY)}.")
    method, bundled = chain_method(models), questions(family=models.spec, max_new_tokens=tokens)
    chosen = bundled[:: max(1, len(bundled) // prompts)][:prompts]  # of all kinds
    greedy, sampled = (
        [replace(q, settings={**q.settings, "temperature": t}) for q in chosen] for t in (0.0, TEMPERATURE)
    )
    lossy = [(rule, w, f"{method}:k={K},rule={rule},weight={w:g}", greedy) for w in weights]
    exact = [
        ("greedy", None, f"{method}:k={K}", greedy),
        *((name, None, f"{method}:k={K},rule={name}", sampled) for name in SAMPLED),
    ]
    arms, result = [*lossy, *exact], Tradeoff(models.spec, rule, tuple(greedy))
    for update in measure(models, [(label, prompts) for _, _, label, prompts in arms], repeats):
        if update:
            points = [
                _point(name, weight, label, taken)
                for (name, weight, label, _), taken in zip(arms, update.result, strict=True)
                if taken
            ]
            result = replace(
                result,
                points=tuple(point for point in points if point.weight is not None),
                exact=tuple(point for point in points if point.weight is None),
            )
        yield update and replace(update, result=result)


def chain_method(models: Models) -> str:
    """Return a method that drafts a chain: with a draft model, else with a trained head, else with lookup."""
    if DRAFT in models.drafts:
        return DRAFT
    heads = [kind for kind in reversed(KINDS) if kind in models.heads]
    return drafter_with(heads[0]).name if heads else NGram.name


def _point(rule: str, weight: float | None, label: str, taken: Sequence[Sample]) -> Point:
    runs = tuple(median_run([sample.timing for sample in group]) for group in by_question(taken, label))
    return Point(rule, weight, Arm.from_rows(rule, label, rows_of(taken, label)), runs)


@dataclass(frozen=True, slots=True)
class Piece:
    """The text of a written token; if it is changed, the text of naive's token and its probability."""

    text: str
    naive: str | None = None
    p: float | None = None


def pieces(models: Models, question: Question, run: Timing) -> list[Piece]:
    """Return the text of a run, token by token."""
    target, tokenizer = models.target, models.tokenizer
    prompt = encode_prompt(
        tokenizer, question.prompt, chat=question.chat, vocab=target.vocab, context_length=target.context_length
    )
    detokenizer, out = IncrementalDetokenizer(tokenizer, prompt), []
    for token, change in zip(run.tokens, run.changes, strict=True):
        naive = change and str(tokenizer.decode([change.token], clean_up_tokenization_spaces=False))
        out.append(Piece(detokenizer.add(token), naive, change and change.p))
    if out:
        out[-1] = replace(out[-1], text=out[-1].text + detokenizer.flush())
    return out
