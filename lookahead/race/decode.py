"""THE loop. Every strategy is this loop with another drafter; naive is it with an empty draft.

    propose -> forward(root + drafted rows) -> settle: verify, keep(path), observe -> yield Step

The last token of the text is never in the cache: it is the root, the first row of the next pass.
So `cached == len(context) - 1` holds after every step and is asserted. The prompt but for its
last token is read in a step of its own, which the race does not put on the clock.

Knows token ids. Text, models' names and the other lane are not its business.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from math import isfinite
from time import perf_counter
from typing import TYPE_CHECKING

import torch

from ..core.accept import Rule, not_finite
from ..core.events import ACCEPTED, EMPTY, REJECTED, UNVISITED, WINDOW, Draft, Step, Test
from ..core.lm import PREFILL_ROWS, Target
from ..core.tree import Limits
from .draft_length import DraftLength

if TYPE_CHECKING:
    from ..drafting import Drafter

Reading = Callable[[float], None]  # gets the share of a long prompt that is read, before each of its parts


@dataclass(frozen=True, slots=True)
class Ends:
    """What ends a text: end-of-sequence ids, a stop test on the generated ids, and two lengths."""

    eos: frozenset[int]
    most_new: int
    context_length: int
    stopped: Callable[[Sequence[int]], bool] | None = None

    def remaining(self, prompt: int, context: int) -> int:
        """How many more tokens a text of `context` tokens, `prompt` of them given, may take."""
        return min(self.most_new - (context - prompt), self.context_length - context)

    def cut(self, prompt: int, context: list[int], emitted: Sequence[int]) -> tuple[int, str | None]:
        """How many of the emitted tokens are kept, and why the text ends there (None: it goes on)."""
        room = self.remaining(prompt, len(context))
        for i, token in enumerate(emitted, start=1):
            if token in self.eos:
                return i, "eos"
            if self.stopped and self.stopped([*context[prompt:], *emitted[:i]]):
                return i, "stop"
            if i >= room:
                return i, "length" if room == self.most_new - (len(context) - prompt) else "context"
        return len(emitted), None


class Text:
    """One text on its way: what of the loop is its own, whether its rows have a pass to themselves or share one.

    `details` (off the clock) adds favourites to its steps. `propose_s` are the seconds that its draft has taken.
    """

    def __init__(
        self, target: Target, drafter: Drafter, policy: DraftLength, rule: Rule, prompt: Sequence[int], ends: Ends,
        *, details: bool = True,
    ):  # fmt: skip
        self.target, self.policy, self.context = target, policy, list(prompt)
        self.draft, self.finish = EMPTY, None
        self._drafter, self._rule, self._ends, self._prompt, self._details = drafter, rule, ends, len(prompt), details
        drafter.policy = policy
        self._step: Step | None = None
        self.propose_s = self.read_s = 0.0

    def read(self, others: Sequence[Text] = (), reading: Reading | None = None) -> Step:
        """Read the prompt but for its last token. What one of the `others` has read of the same need not be read again: its
        time is this text's too. What `reading` raises ends it."""
        begin, prompt = perf_counter(), self.context[:-1]
        before = next((one for one in others if one is not self and one.has_read(prompt, self.target)), None)
        if before:
            self.target.take(before.target)
            self.read_s = before.read_s
        else:
            self.target.reset()
            for start in range(0, len(prompt), PREFILL_ROWS):
                if reading and len(prompt) > PREFILL_ROWS:
                    reading(start / len(prompt))
                self.target.extend(prompt[start : start + PREFILL_ROWS])
            self.read_s = perf_counter() - begin
        begin = perf_counter()
        self._drafter.start(self.context)
        return Step("prefill", 0, propose_s=perf_counter() - begin, verify_s=self.read_s)

    def has_read(self, prompt: Sequence[int], target: Target) -> bool:
        """Whether it holds just that, as the target would."""
        return self.target.tokens == prompt and target.can_take(self.target)

    def propose(self) -> Draft:
        """Draft what is to be verified next."""
        begin, drafter, policy = perf_counter(), self._drafter, self.policy
        if self._step:
            policy.observe(self._step)
        limit = self._ends.remaining(self._prompt, len(self.context)) - 1
        if limit > 0 and not drafter.composite:
            limit = min(limit, policy.limit(drafter.name))
        proposed = drafter.propose(self.context, limit) if limit > 0 else EMPTY
        if not isfinite(sum(proposed.chances)):
            raise not_finite("draft model")
        self.draft = _limited(policy.trim(_up_to_end(proposed, self._ends.eos)), self.target.limits)
        self.propose_s = perf_counter() - begin
        return self.draft

    def rest(self) -> None:
        """Draft nothing for the next pass, and learn nothing from the one before."""
        self.draft, self.propose_s = EMPTY, 0.0

    @property
    def rows(self) -> tuple[list[int], list[int]]:
        """The root and the draft as rows of a pass: tokens and parents."""
        return [self.context[-1], *self.draft.tokens], [-1, *(parent + 1 for parent in self.draft.parents)]

    def settle(self, logits: torch.Tensor, verify_s: float) -> Step:
        """Take what the pass has answered, which took `verify_s`."""
        begin, draft, context = perf_counter(), self.draft, self.context
        verification = self._rule.verify(logits, draft, context)
        emitted = [*(draft.tokens[row] for row in verification.path), verification.token]
        kept, self.finish = self._ends.cut(self._prompt, context, emitted)
        path = verification.path[:kept]
        self.target.keep([0, *(row + 1 for row in path[: kept - 1])])
        context += emitted[:kept]
        assert self.target.cached() == len(context) - 1, "the cache holds every token but the last"
        settled = perf_counter()
        self._drafter.observe(draft, logits, context)
        observed = perf_counter()

        tests = _within(verification.tests, kept)
        if self._details:
            tests = self._rule.explain(logits, draft, context[:-kept], tests)
        self._step = Step(
            kind="verify", index=self._step.index + 1 if self._step else 1, draft=draft, statuses=_statuses(draft, tests), path=path,
            emitted=tuple(emitted[:kept]), origins=_origins(path, kept, tests), tests=tests,
            propose_s=self.propose_s + observed - settled, verify_s=verify_s, other_s=settled - begin, finish=self.finish,
        )  # fmt: skip
        return self._step


def decode(text: Text, others: Sequence[Text] = (), reading: Reading | None = None) -> Iterator[Step]:
    """Continue a text until it ends, one `Step` a pass. The prompt may have been read for one of the `others`."""
    yield text.read(others, reading)
    while text.finish is None:
        text.propose()
        begin = perf_counter()
        logits = text.target.forward(*text.rows)
        yield text.settle(logits, perf_counter() - begin)


def _up_to_end(draft: Draft, eos: frozenset[int]) -> Draft:
    """The draft without rows behind an end-of-sequence token, where the text ends whatever follows. Who copies a prompt out of
    a chat drafts on into the next turn."""
    if draft.window or eos.isdisjoint(draft.tokens):
        return draft
    goes_on = {-1}
    rows = []
    for row, (token, parent) in enumerate(zip(draft.tokens, draft.parents, strict=True)):
        if parent in goes_on:
            rows.append(row)
            if token not in eos:
                goes_on.add(row)
    return draft.pruned(rows)


def _limited(draft: Draft, limits: Limits) -> Draft:
    """The draft as far as one exact pass goes. A window is whole or useless: its pass is computed in parts."""
    most = limits.rows(draft.parents) - 1
    if draft.window or len(draft) <= most:
        return draft
    trunk = next((row for row, parent in enumerate(draft.parents) if parent != row - 1), len(draft))
    return draft.pruned(range(max(most, min(trunk, limits.chain_rows - 1))))


def _within(tests: Sequence[Test], kept: int) -> tuple[Test, ...]:
    """The tests up to the one that settled the last token that is kept."""
    settled = 0
    for i, test in enumerate(tests):
        settled += test.outcome != REJECTED
        if settled == kept:
            return tuple(tests[: i + 1])
    return tuple(tests)


def _statuses(draft: Draft, tests: Sequence[Test]) -> tuple[str, ...]:
    """What became of every drafted row."""
    statuses = [UNVISITED] * draft.tested + [WINDOW] * draft.window
    for test in tests:
        if test.row is not None:
            statuses[test.row] = test.outcome
    return tuple(statuses)


def _origins(path: Sequence[int], kept: int, tests: Sequence[Test]) -> tuple[str, ...]:
    """Where each emitted token came from."""
    return (ACCEPTED,) * len(path) + ((tests[-1].outcome,) if kept > len(path) else ())
