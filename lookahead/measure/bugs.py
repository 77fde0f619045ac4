"""Common bugs of speculative decoding as switches, each with the test that catches it.

A bug replaces one part of the engine (the rule, the target, the ends). `catch` runs the test that the bug names; `race`
races the broken method against a correct naive lane.
"""

import random
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any

from ..core.accept import Pick, Rejection, Rule, Verification, at_quantile, rule_for
from ..core.events import ACCEPTED, BONUS, CORRECTION, MethodError, Settings, SettingsError
from ..engine.lane import Lane
from ..family.models import Models
from ..trace.race import Race
from .checks import CHECKS, HONEST, Finding, Parts

TEXT, DISTRIBUTION, SPEED = "text", "distribution", "speed"


@dataclass(frozen=True, slots=True)
class Bug:
    """A bug: a sentence on what is `wrong`, what it harms (text, distribution, or only speed), and the test that fails.

    `rule` is the acceptance rule that the bug needs ("" for any); `seed` is true if the sketch of lesson 7 has it.
    """

    id: str
    name: str
    wrong: str
    harm: str
    test: str
    parts: Parts
    rule: str = ""
    seed: bool = False


class NoResidual(Rejection):
    """After a rejection, samples from p itself."""

    def verify(self, logits, draft, context):
        verification = super().verify(logits, draft, context)
        last = verification.tests[-1]
        if last.outcome != CORRECTION:
            return verification
        row = verification.path[-1] + 1 if verification.path else 0
        p = self._scored(logits, draft, context)[row].softmax(-1)
        token = at_quantile(p, last.draw)
        return Verification(
            verification.path, token, (*verification.tests[:-1], replace(last, token=token, p=float(p[token])))
        )


class UnprocessedQ(Rejection):
    """Samples the draft at the temperature, and tests against a q without it."""

    def choose(self, logits, context, chance=None):
        pick = super().choose(logits, context, chance)
        return Pick(pick.token, pick.chance, logits.float().softmax(-1))


class NoiseReused(Rejection):
    """Tests with the random numbers that the drafter has used."""

    def __init__(self, settings: Settings):
        super().__init__(settings)
        self._testing = random.Random(f"{settings.seed}:draft")


def _of_rejection(broken: type[Rejection]) -> Callable[[Settings], Rule]:
    """Return a maker of the broken rule, which makes the right one if the rejection rule is not in force."""
    return lambda settings: broken(settings) if settings.acceptance == Rejection.name else rule_for(settings)


class _Wrapped:
    """A rule, a target or the ends with some methods replaced."""

    def __init__(self, part: Any):
        self._part = part

    def __getattr__(self, name: str) -> Any:
        return getattr(self._part, name)


def _altered(broken: Callable[[Rule], Any]) -> Callable[[Settings], Any]:
    return lambda settings: broken(rule_for(settings))


class PrefixDropped(_Wrapped):
    """On a rejection, appends the correction without the tokens accepted before it."""

    def verify(self, logits, draft, context):
        verification = self._part.verify(logits, draft, context)
        if verification.tests[-1].outcome != CORRECTION:
            return verification
        tests = tuple(test for test in verification.tests if test.outcome != ACCEPTED)
        return Verification((), verification.token, tests)


class BonusLost(_Wrapped):
    """When everything is accepted, drops the token that the target computed after it."""

    def verify(self, logits, draft, context):
        verification = self._part.verify(logits, draft, context)
        if verification.tests[-1].outcome != BONUS or not verification.path:
            return verification
        return Verification(verification.path[:-1], draft.tokens[verification.path[-1]], verification.tests[:-1])


class RowsMisread(_Wrapped):
    """Reads the target's prediction for a token from the row before it."""

    def verify(self, logits, draft, context):
        return self._part.verify(logits.roll(1, dims=0), draft, context)


class NotRolledBack(_Wrapped):
    """A target whose cache keeps every row of a pass while there is space, and whose `cached` counts only the accepted ones."""

    _rows = _reported = 0

    def reset(self):
        self._reported = 0
        self._part.reset()

    def extend(self, tokens):
        self._reported += len(tokens)
        return self._part.extend(tokens)

    def take(self, other):
        self._reported = len(other.tokens)
        self._part.take(other)

    def forward(self, tokens, parents):
        self._rows = len(tokens)
        return self._part.forward(tokens, parents)

    def keep(self, path):
        self._reported += len(path)
        full = self._part.cached() + 4 * self._rows > self._part.context_length
        self._part.keep(path if full else range(self._rows))

    def cached(self):
        return self._reported


class EndsOverlooked(_Wrapped):
    """Checks only the last token of a pass for an end of the text."""

    def cut(self, prompt, context, emitted):
        _, finish = self._part.cut(prompt, [*context, *emitted[:-1]], emitted[-1:])
        return len(emitted), finish


_SAME, _END, _WHOLE, _DICE = CHECKS
BUGS: dict[str, Bug] = {
    bug.id: bug
    for bug in (
        Bug(
            "no-residual", "no residual",
            "After a rejection the correction is drawn from p itself, so tokens that the draft favours are rejected, drawn again and come too often.",
            DISTRIBUTION, _DICE, Parts(rule=_of_rejection(NoResidual)), rule="rejection",
        ),
        Bug(
            "unprocessed-q", "q without the temperature",
            "The draft is sampled at the temperature but tested with a q that the temperature was never applied to.",
            DISTRIBUTION, _DICE, Parts(rule=_of_rejection(UnprocessedQ)), rule="rejection",
        ),
        Bug(
            "noise-reused", "noise reused",
            "The test draws the very numbers the draft was sampled with, so whether a token is accepted depends on which token it is.",
            DISTRIBUTION, _DICE, Parts(rule=_of_rejection(NoiseReused)), rule="rejection",
        ),
        Bug(
            "no-rollback", "cache not rolled back",
            "Refused tokens stay in the target's cache, and the model reads on as if they had been written.",
            TEXT, _SAME, Parts(target=NotRolledBack),
        ),
        Bug(
            "eos-ignored", "end overlooked",
            "Only the last token of a pass is asked whether it ends the text, so an end inside an accepted run is written over.",
            TEXT, _END, Parts(ends=EndsOverlooked),
        ),
        Bug(
            "prefix-dropped", "accepted prefix dropped",
            "On a mismatch only the correction is appended: the drafted tokens accepted before it are thrown away.",
            TEXT, _SAME, Parts(rule=_altered(PrefixDropped)), seed=True,
        ),
        Bug(
            "rows-misread", "rows misread",
            "The target's logits are read a row off, so a drafted token is compared with the answer to another question.",
            TEXT, _SAME, Parts(rule=_altered(RowsMisread)), seed=True,
        ),
        Bug(
            "bonus-lost", "bonus token lost",
            "When every drafted token is accepted, the target's own next token, computed in the same pass, is discarded.",
            SPEED, _WHOLE, Parts(rule=_altered(BonusLost)), seed=True,
        ),
    )
}  # fmt: skip


def find(id: str) -> Bug:
    """Return the bug of that id. Raises a `SettingsError` that lists them."""
    if id not in BUGS:
        raise SettingsError("bug", id, f"choose one of {', '.join(BUGS)}.")
    return BUGS[id]


def catch(bug: Bug | None, test: str | None = None) -> Iterator[Finding]:
    """Run the test that `bug` names with the bug switched on; without a bug every test, or `test` alone."""
    tests = [test] if test else [bug.test] if bug else list(CHECKS)
    for name in tests:
        yield Finding(name, *CHECKS[name](bug.parts if bug else HONEST))


class BrokenLane(Lane):
    """A lane with a bug in it."""

    def __init__(self, bug: Bug, *arguments: Any):
        super().__init__(*arguments)
        self._bug = bug
        if not self.reports_drafts:
            raise MethodError("method", self.method, "its loop is transformers' own; choose one of ours to break.")
        self._rule, self._ends = bug.parts.rule(self.settings), bug.parts.ends(self._ends)

    def _fresh_target(self):
        return self._bug.parts.target(super()._fresh_target())


class BrokenRace(Race):
    """A race whose drafting lanes have a bug in them; the naive lane is honest."""

    def __init__(self, bug: Bug, *arguments: Any):
        self._bug = bug
        super().__init__(*arguments)

    def _lane(self, models, prompt, method, *arguments):
        if method == "naive":
            return super()._lane(models, prompt, method, *arguments)
        return BrokenLane(self._bug, models, prompt, method, *arguments)


def race(
    models: Models, prompt: Any, bug: Bug, methods: Sequence[str] = ("naive", "draft"), **options: Any
) -> BrokenRace:
    """Return `lookahead.race` with the bug switched on; a bug of the rejection rule needs `rule="rejection"`."""
    if bug.rule and options.get("rule") != bug.rule:
        raise SettingsError(
            "rule", options.get("rule", "auto"), f'this bug is one of the "{bug.rule}" rule; choose it.'
        )
    return BrokenRace(bug, models, prompt, methods, options)
