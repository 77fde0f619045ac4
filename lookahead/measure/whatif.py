"""What if: from one naive recording, the passes that any n-gram or suffix setting would have taken.

Under the greedy and the coupled rule every method writes naive's text, so the recording has every prediction of the target.
The real loop and drafters run; only the target and the rule are replaced. Draft lengths are fixed, because `auto` depends on
measured times. Times are the recording's, scaled by the cost curve to each pass's rows.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

from ..core.accept import Verification, follow
from ..core.costs import PassCosts
from ..core.events import EMPTY, MOST_DRAFTED, Draft, MethodError, Step, TraceError, whole_number
from ..core.table import TableLM
from ..core.tree import branch_count
from ..drafting import Drafter, Resources
from ..engine.decode import Request
from ..engine.decode import decode as loop
from ..engine.ends import Ends
from ..engine.fixed_length import FixedLength
from ..engine.methods import method_class, options_of, text_methods
from ..model.shape import UNLIMITED
from ..trace.trace import Trace

ORACLE = "oracle"
BEYOND = -1  # the target's token after the recording's end: none


@dataclass(frozen=True, slots=True)
class Recording:
    """A naive run: ids of the prompt and of the text, and why it ended.

    `costs` and times are one machine's; `naive_s` is the run's time without prefill, `verify_s` that of its passes.
    """

    prompt: tuple[int, ...]
    tokens: tuple[int, ...]
    costs: PassCosts
    naive_s: float
    verify_s: float
    finish: str = "length"
    max_new_tokens: int | None = None

    @classmethod
    def of(cls, trace: Trace, costs: PassCosts | None = None) -> Recording:
        """Return the naive lane of a trace, with its costs or others. A stopped run counts as one of that length.

        Raises a `TraceError` if there is no naive lane, or if its text depends on the drafter.
        """
        naive = trace.naive()
        if naive is None or not naive.verified:
            raise TraceError("trace", "no naive lane", "record a race with the naive method in it.")
        if trace.settings.rule == "rejection":
            hint = "its text depends on who drafts; record one with the greedy or the coupled rule."
            raise TraceError("rule", trace.settings.rule, hint)
        ended = naive.steps[-1].finish
        return cls(
            prompt=tuple(trace.prompt.tokens),
            tokens=tuple(naive.tokens),
            costs=costs or trace.costs.pass_costs(),
            naive_s=naive.clock_s,
            verify_s=sum(step.verify_s for step in naive.verified),
            finish=ended or "length",
            max_new_tokens=trace.settings.max_new_tokens if ended else None,
        )

    def timed_by(self, costs: PassCosts) -> Recording:
        """Return the same text with the times of naive decoding on the machine of these `costs`."""
        plain_s = len(self.tokens) * costs.pass_s(1)
        return replace(self, costs=costs, naive_s=plain_s, verify_s=plain_s)

    def ends(self) -> Ends:
        """Return ends that end the text at the same token."""
        n, whole = len(self.tokens), len(self.prompt) + len(self.tokens)
        return Ends(
            eos=frozenset(self.tokens[-1:] if self.finish == "eos" else ()),
            most_new=self.max_new_tokens or (n if self.finish == "length" else UNLIMITED),
            context_length=whole if self.finish == "context" else UNLIMITED,
            stopped=(lambda written: len(written) >= n) if self.finish == "stop" else None,
        )


@dataclass(frozen=True, slots=True)
class Outcome:
    """The passes of a setting, without prefill. Of `seconds`, drafting is measured now and the rest is predicted."""

    method: str
    k: int
    steps: tuple[Step, ...]
    seconds: float
    naive_s: float

    @property
    def tokens_per_pass(self) -> float:
        return sum(len(step.emitted) for step in self.steps) / len(self.steps)

    @property
    def acceptance_rate(self) -> float | None:
        """Share of the drafted tokens that were accepted; None if nothing was drafted."""
        drafted = sum(len(step.draft) for step in self.steps)
        return sum(step.accepted for step in self.steps) / drafted if drafted else None

    @property
    def speedup(self) -> float:
        """Predicted: naive's time over this setting's."""
        return self.naive_s / self.seconds


def what_if(recording: Recording, method: str, k: int = 4, **options: Any) -> Outcome:
    """Return the passes of a method that drafts from the text alone, at draft length `k` and with its own options.

    Raises a `LookaheadError` for a method that needs more than a text, and for options out of range.
    """
    if method not in (known := text_methods()):
        raise MethodError("method", method, f"choose {' or '.join(known)}: others need a model to draft.")
    resources = Resources(rule=None, pass_s=recording.costs.pass_s)
    return _outcome(recording, method_class(method)(resources, options_of(method, options)), k)


def ceiling(recording: Recording, k: int) -> Outcome:
    """Return the passes of an oracle, which drafts the next `k` tokens of the recording in no time."""
    return _outcome(recording, _Oracle(recording), k)


def _outcome(recording: Recording, drafter: Drafter, k: int) -> Outcome:
    whole_number("k", k, 0, MOST_DRAFTED)
    target, rule, policy = _RecordedTarget(), _RecordedRule(recording), FixedLength(k)
    steps = loop(Request(target, drafter, policy, rule, recording.prompt, recording.ends(), details=False))
    costs, written = recording.costs, len(recording.tokens)
    slower, other_s = recording.verify_s / costs.pass_s(1) / written, (recording.naive_s - recording.verify_s) / written
    verified = tuple(step for step in steps if step.kind == "verify")
    verify_s = sum(slower * costs.pass_s(1 + len(step.draft), branch_count(step.draft.parents)) for step in verified)
    propose_s = 0.0 if drafter.name == ORACLE else sum(step.propose_s for step in verified)
    return Outcome(drafter.name, k, verified, verify_s + propose_s + other_s * len(verified), recording.naive_s)


class _RecordedTarget(TableLM):
    """Replaces the target: keeps tokens and computes nothing."""

    def forward(self, tokens: Sequence[int], *_: Any, **__: Any) -> None:
        self._rows = list(tokens)


class _RecordedRule:
    """Replaces the rule: the target's token at every position is the recording's."""

    def __init__(self, recording: Recording):
        self._text = (*recording.prompt, *recording.tokens)

    def verify(self, logits: None, draft: Draft, context: Sequence[int]) -> Verification:
        below: list[int] = [0]
        for parent in draft.parents[: draft.tested]:
            below.append(1 + below[parent + 1])
        wanted = [len(context) + depth for depth in below]
        return follow(draft, [self._text[i] if i < len(self._text) else BEYOND for i in wanted])


class _Oracle(Drafter):
    name = ORACLE
    summary = "drafts the next tokens as they will be"

    def __init__(self, recording: Recording):
        super().__init__(Resources(rule=None), None)
        self._text = (*recording.prompt, *recording.tokens)

    def propose(self, context, limit):
        tokens = self._text[len(context) : len(context) + limit]
        return Draft.chain(tokens, self.name) if tokens else EMPTY
