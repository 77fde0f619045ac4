"""Common bugs of speculative decoding, which can be switched on, each with the test that catches it.

A bug replaces one part of the engine: the acceptance rule, the target or the end conditions. `catch` runs the test that the
bug names. `race` compares the broken method with a correct naive lane.
"""

import random
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import takewhile
from typing import Any

from ..core.accept import Pick, Rejection, Rule, Verification, at_quantile, residual
from ..core.events import ACCEPTED, BONUS, CORRECTION, REJECTED, MethodError, Settings, SettingsError
from ..core.masks import Masks
from ..core.processing import above, process
from ..core.rules import rule_for
from ..engine.lane import Lane
from ..family.models import Models
from ..trace.race import Race
from .checks import CHECKS, CORRECT, Finding, Parts
from .state import NotRestored, Recurrent, Wrapped

TEXT, DISTRIBUTION, SPEED = "text", "distribution", "speed"


@dataclass(frozen=True, slots=True)
class Bug:
    """A bug with its `description`, its `harm` (to the text, the distribution or only the speed) and the test that fails.

    `rule` is the acceptance rule that the bug needs, "" for any. A `masked` bug needs a schema. `in_sketch` is true for bugs of the sketch in lesson 7. A
    `recurrent` bug needs a target with a recurrent state.
    """

    id: str
    name: str
    description: str
    harm: str
    test: str
    parts: Parts
    rule: str = ""
    in_sketch: bool = False
    recurrent: bool = False
    masked: bool = False


class NoResidual(Rejection):
    """After a rejection, sample from p instead of the residual."""

    def verify(self, logits, draft, context):
        verification = super().verify(logits, draft, context)
        last = verification.tests[-1]
        if last.outcome != CORRECTION:
            return verification
        row = verification.path[-1] + 1 if verification.path else 0
        p = self._scored(logits, draft, context)[row].softmax(-1)
        token = at_quantile(p, last.draw)
        test = replace(last, token=token, p=float(p[token]))
        return Verification(verification.path, token, (*verification.tests[:-1], test))


class UnprocessedQ(Rejection):
    """Sample the draft at the temperature, and test it with a q at temperature 1."""

    def choose(self, logits, context, chance=None):
        pick = super().choose(logits, context, chance)
        return pick and Pick(pick.token, pick.chance, logits.float().softmax(-1))


class NoiseReused(Rejection):
    """Test with the random numbers that selected the draft."""

    def __init__(self, settings: Settings, masks: Masks | None = None):
        super().__init__(settings, masks)
        self._testing = random.Random(f"{settings.seed}:draft")


class UnmaskedQ(Rejection):
    """Sample the draft with the mask, and test it with a q without the mask."""

    def choose(self, logits, context, chance=None):
        pick = super().choose(logits, context, chance)
        return pick and Pick(pick.token, pick.chance, process(self.settings, logits[None], context)[0].softmax(-1))


class MaskedTooLate(Rejection):
    """Test the draft with a p without the mask, and apply the mask only to the target's own token."""

    def _scored(self, logits, draft, context):
        return process(self.settings, logits, context, above(draft))

    def verify(self, logits, draft, context):
        verification = super().verify(logits, draft, context)
        *before, last = verification.tests
        if not self.masks:
            return verification
        row = verification.path[-1] + 1 if verification.path else 0
        p = self._scored(logits, draft, context)[row].softmax(-1)
        rejected = [*takewhile(lambda test: test.outcome == REJECTED, reversed(before))]  # after the last accepted row
        for test in reversed(rejected):
            p = residual(p, draft.q and draft.q[test.row], test.token)
        text = [*context, *(draft.tokens[accepted] for accepted in verification.path)]
        allowed = p.masked_fill(self.masks.forbidden(text, ((),), len(p))[0], 0.0)
        token = at_quantile(allowed if allowed.any() else p, last.draw or 0.0)
        test = replace(last, token=token, p=float(p[token]))
        return Verification(verification.path, token, (*before, test))


def _of_rejection(broken: type[Rejection]) -> Callable[..., Rule]:
    """Return a function from settings and masks to the broken rule, or to the correct rule for settings without rejection."""
    return lambda settings, masks=None: (broken if settings.acceptance == Rejection.name else rule_for)(settings, masks)


def _altered(broken: Callable[[Rule], Any]) -> Callable[..., Any]:
    return lambda settings, masks=None: broken(rule_for(settings, masks))


class PrefixDropped(Wrapped):
    """After a rejection, append only the correction and drop the tokens accepted before it."""

    def verify(self, logits, draft, context):
        verification = self._part.verify(logits, draft, context)
        if verification.tests[-1].outcome != CORRECTION:
            return verification
        tests = tuple(test for test in verification.tests if test.outcome != ACCEPTED)
        return Verification((), verification.token, tests)


class BonusLost(Wrapped):
    """If all drafted tokens are accepted, drop the bonus token."""

    def verify(self, logits, draft, context):
        verification = self._part.verify(logits, draft, context)
        if verification.tests[-1].outcome != BONUS or not verification.path:
            return verification
        return Verification(verification.path[:-1], draft.tokens[verification.path[-1]], verification.tests[:-1])


class RowsMisread(Wrapped):
    """Compare each drafted token with the target's logits of the previous row."""

    def verify(self, logits, draft, context):
        return self._part.verify(logits.roll(1, dims=0), draft, context)


class NotRolledBack(Wrapped):
    """A target whose cache keeps all rows of a pass unless it is almost full. `cached` counts only accepted rows."""

    _rows = _reported = 0

    def reset(self):
        self._reported = 0
        self._part.reset()

    def extend(self, tokens):
        self._reported += len(tokens)
        return self._part.extend(tokens)

    def copy_from(self, other):
        self._reported = len(other.tokens)
        self._part.copy_from(other)

    def forward(self, tokens, parents):
        self._rows = len(tokens)
        return self._part.forward(tokens, parents)

    def keep(self, path):
        self._reported += len(path)
        full = self._part.cached() + 4 * self._rows > self._part.context_length
        self._part.keep(path if full else range(self._rows))

    def cached(self):
        return self._reported


class EosIgnored(Wrapped):
    """Check only the last token of a pass for the end of the text."""

    def cut(self, prompt, context, emitted):
        _, finish = self._part.cut(prompt, [*context, *emitted[:-1]], emitted[-1:])
        return len(emitted), finish


_SAME_TEXT, _EOS, _SELF_DRAFT, _STATE, _DISTRIBUTION, _MASKED = CHECKS
BUGS: dict[str, Bug] = {
    bug.id: bug
    for bug in (
        Bug(
            "no-residual", "no residual",
            "After a rejection, the correction is sampled from p instead of the residual. Tokens with q > p get a second chance and occur too often.",
            DISTRIBUTION, _DISTRIBUTION, Parts(rule=_of_rejection(NoResidual)), rule="rejection",
        ),
        Bug(
            "unprocessed-q", "q without the temperature",
            "The draft is sampled at the temperature, but tested with a q at temperature 1.",
            DISTRIBUTION, _DISTRIBUTION, Parts(rule=_of_rejection(UnprocessedQ)), rule="rejection",
        ),
        Bug(
            "noise-reused", "random numbers reused",
            "The test uses the random numbers that selected the draft. So acceptance depends on the token that was drafted.",
            DISTRIBUTION, _DISTRIBUTION, Parts(rule=_of_rejection(NoiseReused)), rule="rejection",
        ),
        Bug(
            "mask-missing", "mask missing from q",
            "The draft is sampled with the schema's mask, but tested with a q without it. This q is too small, so too many drafted tokens are accepted.",
            DISTRIBUTION, _MASKED, Parts(rule=_of_rejection(UnmaskedQ)), rule="rejection", masked=True,
        ),
        Bug(
            "mask-too-late", "mask after acceptance",
            "Drafted tokens are tested with a p without the mask, which is applied only to the target's own token. Without the mask, p is too small for every allowed token.",
            DISTRIBUTION, _MASKED, Parts(rule=_of_rejection(MaskedTooLate)), rule="rejection", masked=True,
        ),
        Bug(
            "no-rollback", "cache not rolled back",
            "Rejected tokens stay in the target's KV cache, and the model continues as if they were in the text.",
            TEXT, _SAME_TEXT, Parts(target=NotRolledBack),
        ),
        Bug(
            "state-not-restored", "state not restored",
            "After a rejection, the recurrent state is not restored: it has read the rejected tokens. Acceptance looks healthy, but the text is wrong.",
            TEXT, _STATE, Parts(state=NotRestored), recurrent=True,
        ),
        Bug(
            "eos-ignored", "EOS ignored",
            "Only the last token of a pass is checked for the end of the text. An EOS token inside the accepted tokens does not end it.",
            TEXT, _EOS, Parts(stop=EosIgnored),
        ),
        Bug(
            "prefix-dropped", "accepted prefix dropped",
            "After a rejection, only the correction is appended. The drafted tokens accepted before it are discarded.",
            TEXT, _SAME_TEXT, Parts(rule=_altered(PrefixDropped)), in_sketch=True,
        ),
        Bug(
            "rows-misread", "logits off by one row",
            "Each drafted token is compared with the target's logits of the previous row.",
            TEXT, _SAME_TEXT, Parts(rule=_altered(RowsMisread)), in_sketch=True,
        ),
        Bug(
            "bonus-lost", "bonus token lost",
            "If all drafted tokens are accepted, the bonus token, which the same pass computed, is discarded.",
            SPEED, _SELF_DRAFT, Parts(rule=_altered(BonusLost)), in_sketch=True,
        ),
    )
}  # fmt: skip


def find(id: str) -> Bug:
    """Return the bug with this id. Raises a `SettingsError` with all ids if there is none."""
    if id not in BUGS:
        raise SettingsError("bug", id, f"choose one of {', '.join(BUGS)}.")
    return BUGS[id]


def catch(bug: Bug | None, test: str | None = None) -> Iterator[Finding]:
    """Yield the `Finding` of the bug's test, with the bug switched on. Without a bug, run all tests, or only `test`."""
    tests = [test] if test else [bug.test] if bug else list(CHECKS)
    for name in tests:
        yield Finding(name, *CHECKS[name](bug.parts if bug else CORRECT))


class BrokenLane(Lane):
    """A lane with a bug, which its options name. Without a bug, it is correct; `recurrent` gives its target a recurrent state."""

    def __init__(self, bug: Bug | None, recurrent: bool, *arguments: Any):
        super().__init__(*arguments)
        self._parts, self._recurrent = bug.parts if bug else CORRECT, recurrent
        if not self.reports_drafts:
            hint = "transformers runs its own loop; choose a method that runs in our loop."
            raise MethodError("method", self.method, hint)
        self.options = {**self.options, "bug": bug.id} if bug else self.options
        self._rule, self._stop = self._parts.rule(self.settings, self._masks), self._parts.stop(self._stop)

    def _fresh_target(self):
        target = self._parts.target(super()._fresh_target())
        return Recurrent(target, self._parts.state) if self._recurrent else target


class BrokenRace(Race):
    """A race whose last lane has a bug. All other lanes are correct."""

    def __init__(self, broken: Bug, models: Models, prompt: Any, methods: Sequence[Any], options: dict[str, Any]):
        super().__init__(models, prompt, methods, options)

        def lane(bug: Bug | None, lane: Lane) -> Lane:
            return BrokenLane(bug, broken.recurrent, models, prompt, lane.method, self.settings, lane.options)

        *correct, last = self._lanes
        others = [lane(None, each) for each in correct] if broken.recurrent else correct
        self._lanes = [*others, lane(broken, last)]


def race(models: Models, prompt: Any, bug: Bug, methods: Sequence[str] = ("naive", "draft"), **options: Any) -> Race:
    """Return a race whose last lane has the bug. Raises `SettingsError` if `rule` is not the one that the bug needs."""
    if bug.rule and options.get("rule") != bug.rule:
        raise SettingsError("rule", options.get("rule", "auto"), f'this bug needs the "{bug.rule}" rule; choose it.')
    return BrokenRace(bug, models, prompt, methods, options)
