"""Four tests that any verifying loop must pass: the real loop, rules and drafters over models without weights.

`Parts` are the pieces of a run. The engine's own pass every test, and a bug is one piece replaced.
"""

import random
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from ..core.accept import Rule, rule_for
from ..core.events import Settings, Step
from ..core.numbers import count, decimal, significant
from ..core.table import TableLM
from ..drafting import DRAFTERS, Resources
from ..engine.decode import Request
from ..engine.decode import decode as loop
from ..engine.ends import Ends
from ..engine.fixed_length import FixedLength
from ..trace.agreement import first_difference
from . import dice

ODDS = 1e-4  # the chance that a correct rule fails
K, PROMPT, LENGTH = 4, (1, 2, 3), 40
MISS = 0.3


@dataclass(frozen=True, slots=True)
class Parts:
    """The pieces of a run, each possibly altered: a rule made from settings, the target and the ends."""

    rule: Callable[[Settings], Rule] = rule_for
    target: Callable[[Any], Any] = lambda target: target
    ends: Callable[[Ends], Ends] = lambda ends: ends


HONEST = Parts()


@dataclass(frozen=True, slots=True)
class Finding:
    """Whether a test passed, and a sentence on what it measured."""

    test: str
    passed: bool
    sentence: str


class _Near(TableLM):
    """A draft that has most of the target's table."""

    def logits_after(self, sequence):
        missed = random.Random(f"miss:{list(sequence[-self.order :])}").random() < MISS
        return TableLM(self.vocab, self.order, self.seed + missed, self.spread).logits_after(sequence)


TARGET, NEAR = TableLM(16, order=3, spread=3.0), _Near(16, order=3, spread=3.0)


def _ids(*arguments: Any) -> list[int]:
    return [token for step in _steps(*arguments) for token in step.emitted]


def _steps(parts: Parts, method: str, settings: Settings, draft: TableLM, eos: Sequence[int] = ()) -> Iterator[Step]:
    rule, cls = parts.rule(settings), DRAFTERS[method]
    ends = parts.ends(Ends(frozenset(eos), settings.max_new_tokens, TARGET.context_length))
    drafter = cls(Resources(rule, draft.fresh()), cls.Options())
    return loop(Request(parts.target(TARGET.fresh()), drafter, FixedLength(K), rule, PROMPT, ends, details=False))


def every_method_writes_what_naive_writes(parts: Parts) -> tuple[bool, str]:
    """Greedily and with shared noise, a drafting run must print naive's ids."""
    compared = 0
    for settings in (Settings(max_new_tokens=LENGTH), Settings(max_new_tokens=LENGTH, temperature=0.8)):
        naive = _ids(HONEST, "naive", settings, NEAR)
        for method in ("draft", "ngram"):
            ids = _ids(parts, method, settings, NEAR)
            compared += len(naive)
            at = first_difference(ids, naive)
            if at is not None:
                difference = f"it wrote {len(ids)} tokens, naive {len(naive)}"
                if at < min(len(ids), len(naive)):
                    difference = f"at token {at + 1} it wrote number {ids[at]} of the vocabulary where naive wrote number {naive[at]}"
                return False, f"{method}, {settings.acceptance} rule: {difference}."
    return True, f"{compared} tokens compared with naive's, all the same."


def eos_inside_an_accepted_run_ends_the_text_there(parts: Parts) -> tuple[bool, str]:
    """A perfect draft runs past every end; no token after the end may be written."""
    settings = Settings(max_new_tokens=LENGTH)
    whole = _ids(HONEST, "naive", settings, TARGET)
    ends = dict.fromkeys(whole[1:])
    for token in ends:
        right = whole[: whole.index(token) + 1]
        ids = _ids(parts, "draft", settings, TARGET, [token])
        if ids != right:
            return False, f"the end came as token {len(right)}, and {len(ids)} tokens were written."
    return True, f"{len(ends)} ends tried, nothing was written after any."


def self_drafting_is_accepted_whole(parts: Parts) -> tuple[bool, str]:
    """With the target as its own draft, every pass must write all drafted tokens and one more."""
    settings = Settings(max_new_tokens=10 * (K + 1))
    steps = [step for step in _steps(parts, "draft", settings, TARGET) if step.kind == "verify"]
    written = sum(len(step.emitted) for step in steps)
    seen = f"{written} tokens in {len(steps)} passes with {K} drafted in each: {decimal(written / len(steps))} a pass"
    return all(len(step.emitted) == K + 1 for step in steps), f"{seen}, {K + 1} are possible."


def texts_follow_the_targets_distribution(parts: Parts) -> tuple[bool, str]:
    """Tokens that the rejection rule writes must have the target's distribution."""
    *_, last = dice.throw(rule=parts.rule)
    statistic = f"after {count(last.throws)} throws chi-square is {decimal(last.chi_square)} with {dice.FREEDOM} degrees of freedom"
    chance = f"chance alone gives as much in {significant(last.p_value, 2)} of all cases"
    return last.p_value > ODDS, f"{statistic}: {chance}."


CHECKS: dict[str, Callable[[Parts], tuple[bool, str]]] = {  # each returns the last two fields of its `Finding`
    check.__name__: check
    for check in (
        every_method_writes_what_naive_writes,
        eos_inside_an_accepted_run_ends_the_text_there,
        self_drafting_is_accepted_whole,
        texts_follow_the_targets_distribution,
    )
}
