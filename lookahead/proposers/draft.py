"""draft: a chain from a small model with the same vocabulary (Leviathan et al. 2023; Chen et al. 2023).

The draft model keeps its own cache; `CachedLM.sync` finds what it has already read, so a refused
tail and a bonus token need no special case. How a token is picked is the rule's business: the
most likely one, one with the shared noise, or a sample whose distribution q goes with it.

Knows nothing of the target.
"""

from __future__ import annotations

from ..events import EMPTY, Draft
from .base import Proposer


class DraftModel(Proposer):
    """Autoregressive drafting with a small model."""

    name = "draft"
    summary = "drafts from a small model"
    needs_draft = True

    def start(self, context):
        if len(context) > 1:
            self.lm.extend(self.lm.sync(context[:-1]))

    def propose(self, context, budget):
        if budget < 1:
            return EMPTY
        drafted, qs = [], []
        feed = self.lm.sync(context)
        while True:
            logits = self.lm.extend(feed)[0]
            token, q = self.rule.choose(logits, [*context, *drafted])
            drafted.append(token)
            qs.append(q)
            if len(drafted) == budget:
                return Draft.chain(drafted, self.name, qs if q is not None else None)
            feed = [token]
