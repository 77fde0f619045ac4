"""Six tests that every correct decoding loop passes. They run the real loop, rules and drafters with table models.

`Parts` are the components of a run. The engine's components pass every test. A bug replaces one component.
"""

import random
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from ..core.accept import Rule
from ..core.events import Settings, Step
from ..core.numbers import count, decimal, percent, significant
from ..core.rules import rule_for
from ..core.table import TableLM
from ..drafting import DRAFTERS, Resources
from ..engine.decode import Request
from ..engine.decode import decode as loop
from ..engine.fixed_length import FixedLength
from ..engine.stop_conditions import StopConditions
from ..trace.agreement import first_difference
from . import dice
from .state import Recurrent, State

ODDS = 1e-4  # the probability that a correct rule fails
K, PROMPT, LENGTH = 4, (1, 2, 3), 40
MISS = 0.3  # the probability that a row of the draft table differs from the target's


@dataclass(frozen=True, slots=True)
class Parts:
    """The components of a run: functions that return the rule for settings and masks, the target and the end conditions.

    `state` is the class of the recurrent state, if the target has one.
    """

    rule: Callable[..., Rule] = rule_for
    target: Callable[[Any], Any] = lambda target: target
    stop: Callable[[StopConditions], StopConditions] = lambda stop: stop
    state: type[State] = State


CORRECT = Parts()


@dataclass(frozen=True, slots=True)
class Finding:
    """The result of a test, with a sentence that reports the measurement."""

    test: str
    passed: bool
    sentence: str


class _Near(TableLM):
    """A draft model that shares most of the target's table."""

    def logits_after(self, sequence):
        missed = random.Random(f"miss:{list(sequence[-self.order :])}").random() < MISS
        return TableLM(self.vocab, self.order, self.seed + missed, self.spread).logits_after(sequence)


TARGET, NEAR = TableLM(16, order=3, spread=3.0), _Near(16, order=3, spread=3.0)


def _ids(*arguments: Any) -> list[int]:
    return [token for step in _steps(*arguments) for token in step.emitted]


def _steps(
    parts: Parts, method: str, settings: Settings, draft: TableLM, eos: Sequence[int] = (), recurrent: bool = False
) -> Iterator[Step]:
    rule, cls, target = parts.rule(settings), DRAFTERS[method], parts.target(TARGET.fresh())
    target = Recurrent(target, parts.state) if recurrent else target
    stop = parts.stop(StopConditions(frozenset(eos), settings.max_new_tokens, TARGET.context_length))
    drafter = cls(Resources(rule, draft.fresh()), cls.Options())
    return loop(Request(target, drafter, FixedLength(K), rule, PROMPT, stop, details=False))


def every_method_writes_the_same_text_as_naive(parts: Parts) -> tuple[bool, str]:
    """Under the greedy and the coupled rule, every method must write the same token ids as naive decoding."""
    compared = 0
    for settings in (Settings(max_new_tokens=LENGTH), Settings(max_new_tokens=LENGTH, temperature=0.8)):
        naive = _ids(CORRECT, "naive", settings, NEAR)
        for method in ("draft", "ngram"):
            ids = _ids(parts, method, settings, NEAR)
            compared += len(naive)
            at = first_difference(ids, naive)
            if at is not None:
                difference = f"it wrote {len(ids)} tokens, naive decoding {len(naive)}"
                if at < min(len(ids), len(naive)):
                    difference = f"token {at + 1} has id {ids[at]}, with naive decoding id {naive[at]}"
                return False, f"{method}, {settings.acceptance} rule: {difference}."
    return True, f"{compared} tokens are the same as with naive decoding."


def eos_inside_an_accepted_run_ends_the_text(parts: Parts) -> tuple[bool, str]:
    """A perfect draft continues after the EOS token. No token after EOS may be written."""
    settings = Settings(max_new_tokens=LENGTH)
    full = _ids(CORRECT, "naive", settings, TARGET)
    eos_tokens = dict.fromkeys(full[1:])
    for eos in eos_tokens:
        expected = full[: full.index(eos) + 1]
        ids = _ids(parts, "draft", settings, TARGET, [eos])
        if ids != expected:
            return False, f"EOS was token {len(expected)}, but {len(ids)} tokens were written."
    return True, f"{len(eos_tokens)} EOS tokens tested; no token was written after EOS."


def self_drafting_is_fully_accepted(parts: Parts) -> tuple[bool, str]:
    """If the target is also the draft model, every pass must write all drafted tokens and the bonus."""
    settings = Settings(max_new_tokens=10 * (K + 1))
    steps = [step for step in _steps(parts, "draft", settings, TARGET) if step.kind == "verify"]
    written = sum(len(step.emitted) for step in steps)
    rate = f"{written} tokens in {len(steps)} passes, each with {K} drafted: {decimal(written / len(steps))} per pass"
    return all(len(step.emitted) == K + 1 for step in steps), f"{rate}; {K + 1} are possible."


def the_state_is_restored_after_a_rejection(parts: Parts) -> tuple[bool, str]:
    """With a recurrent target, `draft` must write the same token ids as naive decoding, also after rejected tokens."""
    settings = Settings(max_new_tokens=LENGTH)
    naive, drafted = (
        list(_steps(used, method, settings, NEAR, (), True)) for used, method in ((CORRECT, "naive"), (parts, "draft"))
    )
    rate = sum(len(step.path) for step in drafted) / sum(len(step.draft.tokens) for step in drafted)
    accepted = f"{percent(rate)} of the drafted tokens were accepted"
    expected, ids = ([token for step in steps for token in step.emitted] for steps in (naive, drafted))
    at = first_difference(ids, expected)
    if at is not None:
        return False, f"token {at + 1} has id {ids[at]}, with naive decoding id {expected[at]}; {accepted}."
    return True, f"{len(ids)} tokens are the same as with naive decoding; {accepted}."


def samples_follow_the_target_distribution(parts: Parts) -> tuple[bool, str]:
    """Tokens written under the rejection rule must have the target's distribution."""
    return _thrown(parts, masked=False)


def masked_samples_follow_the_masked_distribution(parts: Parts) -> tuple[bool, str]:
    """With the mask of a schema, tokens must have the target's distribution over the allowed tokens."""
    return _thrown(parts, masked=True)


def _thrown(parts: Parts, *, masked: bool) -> tuple[bool, str]:
    *_, last = dice.throw(rule=parts.rule, masked=masked)
    statistic = f"after {count(last.throws)} throws, chi-square is {decimal(last.chi_square)} with {last.freedom} degrees of freedom"
    return last.p_value > ODDS, f"{statistic}: p-value {significant(last.p_value, 2)}."


CHECKS: dict[str, Callable[[Parts], tuple[bool, str]]] = {  # each returns `passed` and `sentence` of its `Finding`
    check.__name__: check
    for check in (
        every_method_writes_the_same_text_as_naive,
        eos_inside_an_accepted_run_ends_the_text,
        self_drafting_is_fully_accepted,
        the_state_is_restored_after_a_rejection,
        samples_follow_the_target_distribution,
        masked_samples_follow_the_masked_distribution,
    )
}
