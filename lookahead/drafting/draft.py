"""draft: a chain from a small model (Leviathan et al. 2023; Chen et al. 2023).

The draft model has its own cache, and `sync` returns the tokens that are not in it. The acceptance rule picks each token: the
most likely one, one with shared noise, or a sample from q. The chain ends early if one more token would cost time. A model with
another tokenizer may draft nothing; see `model/translated.py`.
"""

from ..core.events import EMPTY, Draft
from ..core.lm import draft_tokens
from .base import DRAFT_MODEL, Drafter


class DraftModel(Drafter):
    """Autoregressive drafting with a small model."""

    name = "draft"
    summary = "drafts from a small model"
    needs_draft = in_hybrid = True
    technique = DRAFT_MODEL

    def start(self, context):
        if 1 < len(context) <= self.lm.context_length and (unread := self.lm.sync(context[:-1])):
            self.lm.extend(unread)

    def longest(self, context, limit: int) -> int:
        """Return the limit, or less if the model's own context ends before the target's."""
        return min(limit, self.lm.longest, self.lm.context_length + 1 - len(context))

    def propose(self, context, limit):
        longest = self.longest(context, limit)
        if longest < 1 or not (unread := self.lm.sync(context)):
            return EMPTY
        stop, picks, reach, text = self.policy.stop_rule(self.name), [], 1.0, list(context)
        while len(picks) < longest and not (picks and stop.stops(reach, len(picks))):
            remaining, after = longest - len(picks), stop.after(len(picks))
            drafted = draft_tokens(self.lm, self.rule, unread, text, remaining, after, reach)
            if not drafted:
                break
            for pick in drafted:
                picks.append(pick)
                text.append(pick.token)
                reach *= pick.chance
            unread = text[-1:]
        q = [pick.q for pick in picks] if picks and picks[0].q is not None else None
        tokens, chances = [pick.token for pick in picks], [pick.chance for pick in picks]
        return Draft.chain(tokens, self.name, q, chances, self.lm.translation)
