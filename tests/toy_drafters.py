"""Minimal strategies, as examples: a class in a file, and a line in the registry."""

from __future__ import annotations

from lookahead.core.events import EMPTY, Draft
from lookahead.core.lm import draft_tokens
from lookahead.drafting import Drafter
from lookahead.drafting.draft import DraftModel


class Echo(Drafter):
    """Drafts copies of the last token."""

    name = "echo"
    summary = "drafts the last token again"

    def propose(self, context, limit):
        return Draft.chain(context[-1:] * min(limit, 2), self.name, None, (0.5, 0.5)[:limit])


class Single(Drafter):
    """Drafts one token with the family's draft model, through the public interface only."""

    name = "single"
    summary = "drafts one token from a small model"
    needs_draft = True

    def propose(self, context, limit):
        unread = self.lm.sync(context)
        if not unread:
            return EMPTY
        pick = draft_tokens(self.lm, self.rule, unread, list(context), 1, self.policy.stop_rule(self.name))[0]
        return Draft.chain([pick.token], self.name, None if pick.q is None else [pick.q], [pick.chance])


class Pair(DraftModel):
    """Drafts at most two tokens with a trained head."""

    name = "pair"
    summary = "drafts two slots of a block"
    draft_model = "block"
    in_hybrid = False
    technique = None

    def propose(self, context, limit):
        return super().propose(context, min(limit, 2))
