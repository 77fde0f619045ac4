"""What-if: compute the passes of any n-gram or suffix setting from one naive recording, without a model.

Under the greedy and the coupled rule, every method writes the same text as naive decoding. So the recording has all predictions
of the target. The real loop and drafters run; only the target and the rule are replaced. Draft lengths are fixed, because
`auto` depends on measured times. The times are those of the recording, scaled by the cost curve to the rows of each pass.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

from ..core.accept import Verification, follow
from ..core.costs import PassCosts
from ..core.events import EMPTY, MAX_DRAFTED, SAME_TEXT, Draft, MethodError, Step, TraceError, whole_number
from ..core.table import TableLM
from ..core.tree import branch_count, depths
from ..drafting import Drafter, Resources
from ..engine.decode import Request
from ..engine.decode import decode as loop
from ..engine.fixed_length import FixedLength
from ..engine.methods import method_class, options_of, text_methods
from ..engine.stop_conditions import StopConditions
from ..model.shape import UNLIMITED
from ..trace.trace import Trace

ORACLE = "oracle"
NO_TOKEN = -1  # the target's token after the end of the recording


@dataclass(frozen=True, slots=True)
class NaiveRun:
    """A naive run: token ids of the prompt and of the text, and the reason for its end.

    `costs` and the times are from one machine. `naive_s` is the time of the run without prefill, `verify_s` that of its passes.
    """

    prompt: tuple[int, ...]
    tokens: tuple[int, ...]
    costs: PassCosts
    naive_s: float
    verify_s: float
    finish: str = "length"
    max_new_tokens: int | None = None

    @classmethod
    def from_trace(cls, trace: Trace, costs: PassCosts | None = None) -> NaiveRun:
        """Return the naive lane of a trace, with the trace's costs or with `costs`.

        A stopped run is treated as complete. Raises a `TraceError` if there is no naive lane, or if drafts changed the text.
        """
        naive = trace.naive()
        if naive is None or not naive.verified:
            raise TraceError("trace", "no naive lane", "record a race that includes the naive method.")
        if trace.settings.rule not in SAME_TEXT:
            hint = "its text depends on the drafter; record a race with the greedy or the coupled rule."
            raise TraceError("rule", trace.settings.rule, hint)
        if trace.settings.grammar:
            hint = "a recording does not have the masks of its schema; record a race without one."
            raise TraceError("schema", trace.settings.grammar, hint)
        prompt, tokens, finish = tuple(trace.prompt.tokens), tuple(naive.tokens), naive.steps[-1].finish
        verify_s = sum(step.verify_s for step in naive.verified)
        most = trace.settings.max_new_tokens if finish else None
        costs = costs or trace.costs.pass_costs()
        return cls(prompt, tokens, costs, naive.clock_s, verify_s, finish or "length", most)

    def timed_by(self, costs: PassCosts) -> NaiveRun:
        """Return the same text with the predicted times of naive decoding on the machine of `costs`."""
        naive_s = len(self.tokens) * costs.pass_s(1)
        return replace(self, costs=costs, naive_s=naive_s, verify_s=naive_s)

    def stop_conditions(self) -> StopConditions:
        """Return conditions that end the text at the same token."""
        n, length = len(self.tokens), len(self.prompt) + len(self.tokens)
        return StopConditions(
            eos=frozenset(self.tokens[-1:] if self.finish == "eos" else ()),
            max_new_tokens=self.max_new_tokens or (n if self.finish == "length" else UNLIMITED),
            context_length=length if self.finish == "context" else UNLIMITED,
            stopped=(lambda written: len(written) >= n) if self.finish == "stop" else None,
        )


@dataclass(frozen=True, slots=True)
class Outcome:
    """The passes of a setting, without prefill. `seconds` has the measured time of drafting and predicted other times."""

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
        """The share of the drafted tokens that were accepted; None if no tokens were drafted."""
        drafted = sum(len(step.draft) for step in self.steps)
        return sum(step.accepted for step in self.steps) / drafted if drafted else None

    @property
    def speedup(self) -> float:
        """The time of naive decoding divided by the predicted time of this setting."""
        return self.naive_s / self.seconds


def what_if(recording: NaiveRun, method: str, k: int = 4, **options: Any) -> Outcome:
    """Return the passes of a lookup method with draft length `k` and its options.

    Raises a `LookaheadError` for a method that drafts with a model, and for options out of range.
    """
    if method not in (lookups := text_methods()):
        raise MethodError("method", method, f"choose {' or '.join(lookups)}; other methods draft with a model.")
    resources = Resources(rule=None, pass_s=recording.costs.pass_s)
    return _outcome(recording, method_class(method)(resources, options_of(method, options)), k)


def oracle_outcome(recording: NaiveRun, k: int) -> Outcome:
    """Return the passes of an oracle, which drafts the next `k` tokens of the recording in zero time."""
    return _outcome(recording, _Oracle(recording), k)


def _outcome(recording: NaiveRun, drafter: Drafter, k: int) -> Outcome:
    whole_number("k", k, 0, MAX_DRAFTED)
    target, rule, policy = _RecordedTarget(), _RecordedRule(recording), FixedLength(k)
    steps = loop(Request(target, drafter, policy, rule, recording.prompt, recording.stop_conditions(), details=False))
    costs, tokens = recording.costs, len(recording.tokens)
    scale, other_s = recording.verify_s / costs.pass_s(1) / tokens, (recording.naive_s - recording.verify_s) / tokens
    verified = tuple(step for step in steps if step.kind == "verify")
    verify_s = sum(scale * costs.pass_s(1 + len(step.draft), branch_count(step.draft.parents)) for step in verified)
    propose_s = 0.0 if drafter.name == ORACLE else sum(step.propose_s for step in verified)
    return Outcome(drafter.name, k, verified, verify_s + propose_s + other_s * len(verified), recording.naive_s)


class _RecordedTarget(TableLM):
    """A target that stores tokens and computes nothing."""

    def forward(self, tokens: Sequence[int], *_: Any, **__: Any) -> None:
        self._rows = list(tokens)


class _RecordedRule:
    """A rule whose target token at each position is the recording's token."""

    masks = None

    def __init__(self, recording: NaiveRun):
        self._text = (*recording.prompt, *recording.tokens)

    def verify(self, logits: None, draft: Draft, context: Sequence[int]) -> Verification:
        positions = [len(context) + depth for depth in (0, *depths(draft.parents[: draft.tested]))]
        return follow(draft, [self._text[i] if i < len(self._text) else NO_TOKEN for i in positions])


class _Oracle(Drafter):
    name = ORACLE
    summary = "drafts the next tokens of the recording"

    def __init__(self, recording: NaiveRun):
        super().__init__(Resources(rule=None), None)
        self._text = (*recording.prompt, *recording.tokens)

    def propose(self, context, limit):
        tokens = self._text[len(context) : len(context) + limit]
        return Draft.chain(tokens, self.name) if tokens else EMPTY
