"""Four tests that any verifying loop must pass, to be run on the spot over weightless models.

Each is the core of a test of the same name in this project's tests, and runs the real loop, the real
rules and real proposers in a second or less. `Parts` are the pieces that a run is put together from; the
engine's own pass every test, and a bug is one piece replaced.

Knows the engine. It does not know which bugs there are.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from ..accept import Rule, rule_for
from ..decode import Ends
from ..decode import decode as loop
from ..events import Settings, SettingsError, Step
from ..pace import Fixed
from ..proposers import PROPOSERS, Means
from ..table import TableLM
from . import dice

ODDS = 1e-4  # a correct rule fails a fresh set of dice once in so many
K, PROMPT, LENGTH = 4, (1, 2, 3), 40
MISS = 0.3


def _same(part: Any) -> Any:
    return part


@dataclass(frozen=True, slots=True)
class Parts:
    """What a run is put together from: a rule made from settings, a target and the ends, each perhaps altered."""

    rule: Callable[[Settings], Rule] = rule_for
    target: Callable[[Any], Any] = _same
    ends: Callable[[Ends], Ends] = _same


HONEST = Parts()


@dataclass(frozen=True, slots=True)
class Finding:
    """What a test found: whether all was well, and in words what it saw."""

    test: str
    passed: bool
    found: str


class _Near(TableLM):
    """A draft that knows most of the target's table and is wrong about the rest."""

    def fresh(self) -> _Near:
        return _Near(self.vocab, self.order, self.seed, self.spread, self.context_length)

    def logits_after(self, sequence):
        missed = random.Random(f"miss:{list(sequence[-self.order :])}").random() < MISS
        return TableLM(self.vocab, self.order, self.seed + missed, self.spread).logits_after(sequence)


TARGET, NEAR = TableLM(16, order=3, spread=3.0), _Near(16, order=3, spread=3.0)


def _ids(parts: Parts, method: str, settings: Settings, draft: TableLM, eos: Sequence[int] = ()) -> list[int]:
    return [token for step in _steps(parts, method, settings, draft, eos) for token in step.emitted]


def _steps(parts: Parts, method: str, settings: Settings, draft: TableLM, eos: Sequence[int] = ()) -> Iterator[Step]:
    """The real loop over tables."""
    rule, cls = parts.rule(settings), PROPOSERS[method]
    ends = parts.ends(Ends(frozenset(eos), settings.max_new_tokens, TARGET.context_length))
    proposer = cls(Means(rule, draft.fresh()), cls.Options())
    return loop(parts.target(TARGET.fresh()), proposer, Fixed(K), rule, PROMPT, ends, details=False)


def every_method_writes_what_naive_writes(parts: Parts) -> Finding:
    """Greedily and with shared noise, a drafting run must print naive's ids."""
    name, compared = every_method_writes_what_naive_writes.__name__, 0
    for settings in (Settings(max_new_tokens=LENGTH), Settings(max_new_tokens=LENGTH, temperature=0.8)):
        naive = _ids(HONEST, "naive", settings, NEAR)
        for method in ("draft", "ngram"):
            ours = _ids(parts, method, settings, NEAR)
            compared += len(naive)
            if ours != naive:
                at = next((i for i, (a, b) in enumerate(zip(ours, naive, strict=False)) if a != b), None)
                told = (
                    f"it wrote {len(ours)} tokens, naive {len(naive)}"
                    if at is None
                    else f"token {at + 1} is {ours[at]}, naive wrote {naive[at]}"
                )
                return Finding(name, False, f"{method}, {settings.acceptance} rule: {told}.")
    return Finding(name, True, f"{compared} tokens compared with naive's, all the same.")


def eos_inside_an_accepted_run_ends_the_text_there(parts: Parts) -> Finding:
    """A perfect draft runs past every end; what stands behind the end must not be written."""
    name, settings = eos_inside_an_accepted_run_ends_the_text_there.__name__, Settings(max_new_tokens=LENGTH)
    whole, tried = _ids(HONEST, "naive", settings, TARGET), 0
    for token in dict.fromkeys(whole[1:]):
        right = whole[: whole.index(token) + 1]
        ours = _ids(parts, "draft", settings, TARGET, eos=[token])
        tried += 1
        if ours != right:
            told = f"the end came as token {len(right)}, and {len(ours)} tokens were written"
            return Finding(name, False, f"{told}.")
    return Finding(name, True, f"{tried} ends tried, nothing was written behind any.")


def self_drafting_is_accepted_whole(parts: Parts) -> Finding:
    """The target as its own draft: every pass must write all it drafted and one token more."""
    name = self_drafting_is_accepted_whole.__name__
    settings = Settings(max_new_tokens=10 * (K + 1))
    steps = [step for step in _steps(parts, "draft", settings, TARGET) if step.kind == "verify"]
    written = sum(len(step.emitted) for step in steps)
    told = f"{written} tokens in {len(steps)} passes with {K} drafted in each: {written / len(steps):.2f} a pass"
    return Finding(name, all(len(step.emitted) == K + 1 for step in steps), f"{told}, {K + 1} are possible.")


def texts_follow_the_targets_distribution(parts: Parts) -> Finding:
    """Dice: what the rejection rule lets stand must be distributed as the target says."""
    name = texts_follow_the_targets_distribution.__name__
    *_, last = dice.throw(rule=parts.rule)
    told = f"after {last.throws:,} throws chi-square is {last.chi_square:.1f} with {last.freedom} degrees of freedom"
    return Finding(name, last.p_value > ODDS, f"{told}: chance alone gives as much in {last.p_value:.2g} of all cases.")


CHECKS: dict[str, Callable[[Parts], Finding]] = {
    check.__name__: check
    for check in (
        every_method_writes_what_naive_writes,
        eos_inside_an_accepted_run_ends_the_text_there,
        self_drafting_is_accepted_whole,
        texts_follow_the_targets_distribution,
    )
}


def check(test: str, parts: Parts = HONEST) -> Finding:
    """Run the test of that name; `SettingsError` if there is none."""
    if test not in CHECKS:
        raise SettingsError("test", test, f"choose one of {', '.join(CHECKS)}.")
    return CHECKS[test](parts)
