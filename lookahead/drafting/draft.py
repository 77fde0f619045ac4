"""draft: a chain from a small model with the same vocabulary (Leviathan et al. 2023; Chen et al. 2023).

The draft model keeps its own cache; `CachedLM.sync` finds what it has already read, so a rejected
tail and a bonus token need no special case. How a token is picked is the rule's business: the
most likely one, one with the shared noise, or a sample whose distribution q goes with it. The
chain ends where one more token would no longer pay: a draft model that is unsure says so. Where
nothing but logits decides, a compiled call drafts up to there (`model.chain`).

Knows nothing of the target.
"""

from __future__ import annotations

from ..core.events import EMPTY, Draft
from ..model.chain import picks_behind
from .base import Drafter


class DraftModel(Drafter):
    """Autoregressive drafting with a small model."""

    name = "draft"
    summary = "drafts from a small model"
    needs_draft = True

    def start(self, context):
        if 1 < len(context) <= self.lm.context_length and (unread := self.lm.sync(context[:-1])):
            self.lm.extend(unread)

    def longest(self, context, room, policy):
        """The longest draft to begin. There is none beyond the draft model's own context, which may be shorter than the target's."""
        most = min(room, self.lm.longest, self.lm.context_length + 1 - len(context))
        return min(most, policy.limit(self.name)) if most > 0 else 0

    def propose(self, context, room, policy):
        longest = self.longest(context, room, policy)
        if longest < 1 or not (unread := self.lm.sync(context)):
            return EMPTY
        picks, reach, text, ending = [], 1.0, list(context), policy.ending(self.name)
        while True:
            rest = ending.behind(reach, len(picks))
            for pick in picks_behind(self.lm, self.rule, unread, text, longest - len(picks), rest):
                picks.append(pick)
                text.append(pick.token)
                reach *= policy.chance(self.name, pick.chance)
            if len(picks) >= longest or not policy.extends(self.name, reach, len(picks)):
                break
            unread = text[-1:]
        sampled = picks[0].q is not None
        return Draft.chain(
            [p.token for p in picks], self.name, [p.q for p in picks] if sampled else None, [p.chance for p in picks]
        )
