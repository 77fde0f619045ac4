"""The decoding loop. Every strategy is this loop with another drafter; naive decoding is it with an empty draft.

    propose -> forward(root + drafted rows) -> verify_and_commit -> observe -> yield Step

The last token of the text is never in the cache: it is the root, the first row of the next pass. So
`cached == len(context) - 1` holds after every step, and is asserted. The prompt without its last token is read in a step of
its own, which the clocks of a race exclude.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from math import isfinite
from time import perf_counter
from typing import TYPE_CHECKING

import torch

from ..core.accept import Rule
from ..core.events import EMPTY, Draft, Step
from ..core.explain import explain
from ..core.lm import PREFILL_ROWS, Target
from ..core.policy import DraftPolicy
from ..core.processing import not_finite
from . import steps
from .ends import Ends

if TYPE_CHECKING:
    from ..drafting import Drafter

Reading = Callable[[float], None]  # gets the share of a long prompt that is read, before each of its parts


class Request:
    """One text that is being continued. `details` (off the clock) adds the target's likeliest tokens to its steps."""

    def __init__(
        self, target: Target, drafter: Drafter, policy: DraftPolicy, rule: Rule, prompt: Sequence[int], ends: Ends,
        *, details: bool = True,
    ):  # fmt: skip
        self.target, self.policy, self.context = target, policy, list(prompt)
        self.draft, self.finish = EMPTY, None
        self._drafter, self._rule, self._ends, self._prompt, self._details = drafter, rule, ends, len(prompt), details
        drafter.policy = policy
        self._step: Step | None = None
        self.propose_s = self.read_s = 0.0

    def read(self, others: Sequence[Request] = (), reading: Reading | None = None) -> Step:
        """Read the prompt without its last token, or copy it, with its time, from one of the `others` that has read the same.

        An exception of `reading` ends it.
        """
        begin, prompt = perf_counter(), self.context[:-1]
        read = (text for text in others if text is not self and text.target.tokens == prompt)
        before = next((text for text in read if self.target.can_take(text.target)), None)
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

    def propose(self) -> Draft:
        """Draft what the next pass verifies."""
        begin, drafter, policy = perf_counter(), self._drafter, self.policy
        if self._step:
            policy.observe(self._step)
        limit = self._ends.remaining(self._prompt, len(self.context)) - 1
        if limit > 0 and not drafter.composite:
            limit = min(limit, policy.limit(drafter.name))
        proposed = drafter.propose(self.context, limit) if limit > 0 else EMPTY
        if not isfinite(sum(proposed.chances)):
            raise not_finite("draft model")
        self.draft = policy.trim(steps.up_to_end(proposed, self._ends.eos))
        self.propose_s = perf_counter() - begin
        return self.draft

    def skip_drafting(self) -> None:
        """Draft nothing for the next pass, and learn nothing from the one before."""
        self.draft, self.propose_s = EMPTY, 0.0

    @property
    def rows(self) -> tuple[list[int], list[int]]:
        """The root and the draft as rows of a pass: tokens and parents."""
        return [self.context[-1], *self.draft.tokens], [-1, *(parent + 1 for parent in self.draft.parents)]

    def verify_and_commit(self, logits: torch.Tensor, verify_s: float) -> Step:
        """Verify the draft with the logits of a pass that took `verify_s`, and commit the accepted tokens."""
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

        tests = steps.kept_tests(verification.tests, kept)
        if self._details:
            tests = explain(self._rule, logits, draft, context[:-kept], tests)
        self._step = Step(
            kind="verify", index=self._step.index + 1 if self._step else 1, draft=draft, statuses=steps.statuses(draft, tests), path=path,
            emitted=tuple(emitted[:kept]), origins=steps.origins(path, kept, tests), tests=tests,
            propose_s=self.propose_s + observed - settled, verify_s=verify_s, other_s=settled - begin, finish=self.finish,
        )  # fmt: skip
        return self._step


def decode(text: Request, others: Sequence[Request] = (), reading: Reading | None = None) -> Iterator[Step]:
    """Continue a text until it ends, one `Step` a pass. The prompt may have been read for one of the `others`."""
    yield text.read(others, reading)
    while text.finish is None:
        text.propose()
        begin = perf_counter()
        logits = text.target.forward(*text.rows)
        yield text.verify_and_commit(logits, perf_counter() - begin)
