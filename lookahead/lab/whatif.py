"""What if: from one naive recording, the passes that any n-gram or suffix setting would have taken.

Under the greedy and the coupled rule every method writes naive's text, so the recording already holds
every answer the target could give along the way. The real loop runs with the real proposers; only the
target and the rule are replaced by ones that read their answers from the recording. No model is
needed and a setting takes milliseconds.

With a draft length the passes are exact: those of a real run, step for step. With `auto` they are
what auto would do if every pass took what the cost curve says and looking up took no time: `exact` is
False, for a real auto also listens to the clock. Times are predictions: the recording's own measured
passes, scaled by the cost curve to each pass's rows.

Drafters that need the target or a model to draft (`draft`, `tree`, `lookahead`, ...) cannot be told
from a text alone. Knows recordings and the loop; it does not know pages.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any

from ..accept import Verdict, follow
from ..cost import CostCurve
from ..decode import Ends
from ..decode import decode as loop
from ..events import EMPTY, Draft, MethodError, Settings, Step, TraceError
from ..lane import MOST_AUTO
from ..methods import method_class, options_of
from ..pace import Auto, Fixed
from ..proposers import Means, Proposer
from ..trace import Trace
from ..tree import branch_count

METHODS = ("ngram", "suffix")  # the drafters that look at nothing but the text
ORACLE = "oracle"
BEYOND = -1  # what the target would say behind the recording's end: no token


@dataclass(frozen=True, slots=True)
class Recording:
    """A naive run: ids of the prompt and of what was written, and how and when the text ended.

    `clock_s` is the run's own time without prefill, `verify_s` the part of it spent in passes; None where
    nobody timed it. `costs` is the cost curve of the machine that the times are for.
    """

    prompt: tuple[int, ...]
    tokens: tuple[int, ...]
    costs: CostCurve
    finish: str = "length"
    max_new_tokens: int | None = None
    context_length: int = 1 << 20
    clock_s: float | None = None
    verify_s: float | None = None

    @classmethod
    def of(cls, trace: Trace, costs: CostCurve | None = None, context_length: int = 1 << 20) -> Recording:
        """The naive lane of a trace, or a `TraceError` where there is none to work with.

        `costs` may give what the trace's own curve leaves out (that branches cost more); `context_length` matters
        only to texts that reach it. A run that was stopped counts as one that was asked for so many tokens.
        """
        naive = trace.naive()
        if naive is None or not naive.verified:
            raise TraceError("trace", "no naive lane", "record a race with the naive method in it.")
        if trace.settings.rule == "rejection":
            mend = "its text depends on who drafts; record one with the greedy or the coupled rule."
            raise TraceError("rule", trace.settings.rule, mend)
        ended = naive.steps[-1].finish
        return cls(
            prompt=tuple(trace.prompt.tokens),
            tokens=tuple(naive.tokens),
            costs=costs or CostCurve(tuple(trace.costs.rows), tuple(trace.costs.seconds)),
            finish=ended or "length",
            max_new_tokens=trace.settings.max_new_tokens if ended else None,
            context_length=context_length,
            clock_s=naive.clock_s,
            verify_s=sum(step.verify_s for step in naive.verified),
        )

    @property
    def naive_s(self) -> float:
        """Seconds that naive took; by the cost curve where nobody timed it."""
        return len(self.tokens) * self.costs.pass_s(1) if self.clock_s is None else self.clock_s

    @property
    def scale(self) -> float:
        """How much slower the recording's passes were than the cost curve says."""
        return 1.0 if self.verify_s is None else self.verify_s / (len(self.tokens) * self.costs.pass_s(1))

    @property
    def other_s(self) -> float:
        """Seconds a naive pass spent outside the target."""
        return 0.0 if self.clock_s is None else (self.clock_s - (self.verify_s or 0.0)) / len(self.tokens)

    def ends(self) -> Ends:
        """What ended the text, so that it ends there again."""
        n, whole = len(self.tokens), len(self.prompt) + len(self.tokens)
        return Ends(
            eos=frozenset(self.tokens[-1:] if self.finish == "eos" else ()),
            most_new=self.max_new_tokens or (n if self.finish == "length" else 1 << 20),
            context_length=whole if self.finish == "context" else self.context_length,
            stopped=(lambda written: len(written) >= n) if self.finish == "stop" else None,
        )


@dataclass(frozen=True, slots=True)
class Outcome:
    """What a setting would have done.

    `steps` are its passes, prefill left out: `verify_s` and `other_s` predicted, `propose_s` really spent here, now.
    `exact` says whether a real run's passes are these. Seconds are predictions, naive's are its own.
    """

    method: str
    k: int | str
    options: dict[str, Any]
    steps: tuple[Step, ...]
    exact: bool
    seconds: float
    naive_s: float

    @property
    def tokens_per_pass(self) -> float:
        """How many tokens a pass wrote."""
        return sum(len(step.emitted) for step in self.steps) / len(self.steps)

    @property
    def acceptance_rate(self) -> float | None:
        """Share of the drafted tokens that stood; None where nothing was drafted."""
        drafted = sum(len(step.draft) for step in self.steps)
        return sum(step.accepted for step in self.steps) / drafted if drafted else None

    @property
    def drafting_share(self) -> float:
        """Share of the passes that had a draft."""
        return sum(len(step.draft) > 0 for step in self.steps) / len(self.steps)

    @property
    def speedup(self) -> float:
        """Predicted: naive's time over this setting's."""
        return self.naive_s / self.seconds


def what_if(recording: Recording, method: str = "ngram", k: int | str = 4, **options: Any) -> Outcome:
    """The passes of `ngram` or `suffix` at draft length `k` (or "auto"), with the method's own options.

    Raises `LookaheadError` for a method that needs more than a text, and for options out of range.
    """
    if method not in METHODS:
        raise MethodError("method", method, f"choose {' or '.join(METHODS)}: others need a model to draft.")
    Settings(k=k)
    costs = recording.costs
    made = method_class(method)(Means(rule=None, pass_s=costs.pass_s), options_of(method, options))
    pace = _OnPaper(costs.pass_s, MOST_AUTO) if k == "auto" else Fixed(k)
    return _outcome(recording, made, pace, k, options)


def ceiling(recording: Recording, k: int = 4) -> Outcome:
    """The oracle: a drafter that knows the next `k` tokens and takes no time. Nobody drafts better chains."""
    Settings(k=k)
    return _outcome(recording, _Oracle(recording), Fixed(k), k, {})


def over_k(recording: Recording, method: str, ks: Sequence[int], **options: Any) -> Iterator[tuple[Outcome, Outcome]]:
    """For every draft length, what the method and what the oracle would have done."""
    for k in ks:
        yield what_if(recording, method, k, **options), ceiling(recording, k)


def _outcome(recording: Recording, proposer: Proposer, pace: Auto | Fixed, k: int | str, options: Any) -> Outcome:
    rule = _Remembered(recording)
    steps = loop(_Remembering(), proposer, pace, rule, recording.prompt, recording.ends(), details=False)
    priced = [_priced(recording, step, proposer.name == ORACLE) for step in steps if step.kind == "verify"]
    seconds = sum(step.seconds for step in priced)
    return Outcome(proposer.name, k, dict(options), tuple(priced), k != "auto", seconds, recording.naive_s)


def _priced(recording: Recording, step: Step, free: bool) -> Step:
    """The step with the times that its pass should take."""
    verify_s = recording.scale * recording.costs.pass_s(1 + len(step.draft), branch_count(step.draft.parents))
    spent = 0.0 if free else step.propose_s
    return replace(step, propose_s=spent, verify_s=verify_s, other_s=recording.other_s)


class _Remembering:
    """In the target's place: it counts tokens and computes nothing, for the answers are known."""

    def __init__(self):
        self._length = 0

    def reset(self) -> None:
        self._length = 0

    def extend(self, tokens: Sequence[int]) -> None:
        self._length += len(tokens)

    def forward(self, tokens: Sequence[int], parents: Sequence[int]) -> None:
        return None

    def keep(self, path: Sequence[int]) -> None:
        self._length += len(path)

    def cached(self) -> int:
        return self._length


class _Remembered:
    """In the rule's place: the target wants whatever stands in the recording."""

    def __init__(self, recording: Recording):
        self._text = (*recording.prompt, *recording.tokens)

    def judge(self, logits: None, draft: Draft, context: Sequence[int]) -> Verdict:
        below: list[int] = [0]
        for parent in draft.parents[: draft.tested]:
            below.append(1 + below[parent + 1])
        wanted = [len(context) + depth for depth in below]
        return follow(draft, [self._text[i] if i < len(self._text) else BEYOND for i in wanted])


class _OnPaper(Auto):
    """Auto that is told the predicted times, so that it decides the same whenever it is asked."""

    def observe(self, step: Step) -> None:
        verify_s = self._pass_s(1 + len(step.draft), branch_count(step.draft.parents))
        super().observe(replace(step, verify_s=verify_s, propose_s=0.0))


class _Oracle(Proposer):
    """Drafts what the recording says comes next."""

    name = ORACLE
    summary = "drafts the next tokens as they will be"

    def __init__(self, recording: Recording):
        super().__init__(Means(rule=None), None)
        self._text = (*recording.prompt, *recording.tokens)

    def propose(self, context, room, pace):
        known = self._text[len(context) : len(context) + min(room, pace.deepest)]
        return Draft.chain(known, self.name) if known else EMPTY
