"""The decoding loop. Every strategy is this loop with another drafter. Naive decoding is this loop with an empty draft.

    propose -> forward(root + drafted rows) -> verify_and_commit -> observe -> yield Step

The last token of the text is never in the cache. It is the root, the first row of the next pass. So after every step the
cache holds `len(context) - 1` tokens, which is asserted. A separate prefill step reads the prompt without its last token.
The clocks of a race exclude it.
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
from .stop_conditions import StopConditions

if TYPE_CHECKING:
    from ..drafting import Drafter

PrefillProgress = Callable[[float], None]  # called before each part of a long prompt with the share that is read


class Request:
    """A text to continue. `details` adds the target's likeliest tokens and its experts to its steps, without counting the time."""

    def __init__(
        self, target: Target, drafter: Drafter, policy: DraftPolicy, rule: Rule, prompt: Sequence[int], stop: StopConditions,
        *, details: bool = True,
    ):  # fmt: skip
        self.target, self.policy, self.context = target, policy, list(prompt)
        self.draft, self.finish = EMPTY, None
        self._drafter, self._rule, self._stop, self._prompt, self._details = drafter, rule, stop, len(prompt), details
        drafter.policy = policy
        self._step: Step | None = None
        self.propose_s = self.prefill_s = 0.0
        self._masks, self._masked_s = rule.masks, 0.0  # `masks.seconds` at the beginning of the pass

    def prefill(self, others: Sequence[Request] = (), on_prefill: PrefillProgress | None = None) -> Step:
        """Read the prompt without its last token; return the prefill `Step`.

        If one of the `others` has read it, its cache and time are copied. Exceptions of `on_prefill` propagate.
        """
        begin, prompt = perf_counter(), self.context[:-1]
        same = (other for other in others if other is not self and other.target.tokens == prompt)
        source = next((other for other in same if self.target.can_copy_from(other.target)), None)
        if source:
            self.target.copy_from(source.target)
            self.prefill_s = source.prefill_s
        else:
            self.target.reset()
            for start in range(0, len(prompt), PREFILL_ROWS):
                if on_prefill and len(prompt) > PREFILL_ROWS:
                    on_prefill(start / len(prompt))
                self.target.extend(prompt[start : start + PREFILL_ROWS])
            self.prefill_s = perf_counter() - begin
        begin = perf_counter()
        self._drafter.start(self.context)
        return Step("prefill", 0, propose_s=perf_counter() - begin, verify_s=self.prefill_s)

    def propose(self) -> Draft:
        """Draft tokens for the next pass; return the draft."""
        begin, drafter, policy = self._now(), self._drafter, self.policy
        if self._step:
            policy.observe(self._step)
        limit = self._stop.remaining_tokens(self._prompt, len(self.context)) - 1
        if limit > 0 and not drafter.composite:
            limit = min(limit, policy.limit(drafter.name))
        proposed = drafter.propose(self.context, limit) if limit > 0 else EMPTY
        if not isfinite(sum(proposed.chances)):
            raise not_finite("draft model")
        draft = policy.trim(steps.up_to_end(proposed, self._stop.eos))
        self.draft = self._masks.pruned(draft, self.context) if self._masks else draft
        self.propose_s = self._now() - begin
        return self.draft

    def _now(self) -> float:
        """Return a time in seconds that does not include the computation of masks."""
        return perf_counter() - (self._masks.seconds if self._masks else 0.0)

    def skip_drafting(self) -> None:
        """Draft nothing for the next pass, and do not update the policy with the last pass."""
        self.draft, self.propose_s = EMPTY, 0.0

    @property
    def rows(self) -> tuple[list[int], list[int]]:
        """The root and the draft as rows of a pass: (tokens, parents)."""
        return [self.context[-1], *self.draft.tokens], [-1, *(parent + 1 for parent in self.draft.parents)]

    def verify_and_commit(self, logits: torch.Tensor, verify_s: float) -> Step:
        """Verify the draft with a pass's logits [1 + rows, vocab], commit the accepted tokens, and return the step."""
        begin, draft, context = self._now(), self.draft, self.context
        verification = self._rule.verify(logits, draft, context)
        emitted = [*(draft.tokens[row] for row in verification.path), verification.token]
        kept, self.finish = self._stop.cut(self._prompt, context, emitted)
        path = verification.path[:kept]
        self.target.keep([0, *(row + 1 for row in path[: kept - 1])])
        context += emitted[:kept]
        assert self.target.cached() == len(context) - 1, "the cache holds every token except the last"
        committed = self._now()
        self._drafter.observe(draft, logits, context)
        observed = self._now()

        mask_s, satisfied = self._masks.seconds - self._masked_s if self._masks else 0.0, None
        tests, experts = steps.tests_up_to(verification.tests, kept), None
        if self._details:
            tests = explain(self._rule, logits, draft, context[:-kept], tests)
            experts = self.target.activated_experts
        if self._masks:
            self._masked_s = self._masks.seconds
            satisfied = self._masks.satisfied(context) if self.finish else None
        self._step = Step(
            kind="verify", index=self._step.index + 1 if self._step else 1, draft=draft, statuses=steps.statuses(draft, tests), path=path,
            emitted=tuple(emitted[:kept]), origins=steps.origins(path, kept, tests), tests=tests,
            propose_s=self.propose_s + observed - committed, verify_s=verify_s, other_s=committed - begin, finish=self.finish,
            experts=experts, mask_s=mask_s, satisfied=satisfied,
        )  # fmt: skip
        return self._step


def decode(
    request: Request, others: Sequence[Request] = (), on_prefill: PrefillProgress | None = None
) -> Iterator[Step]:
    """Continue a text until it ends; yield one `Step` per pass. See `Request.prefill` for `others` and `on_prefill`."""
    yield request.prefill(others, on_prefill)
    while request.finish is None:
        request.propose()
        begin = perf_counter()
        logits = request.target.forward(*request.rows)
        yield request.verify_and_commit(logits, perf_counter() - begin)
