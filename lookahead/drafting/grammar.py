"""grammar: draft the tokens that a schema forces, such as the keys of a JSON object. No model is needed.

If the schema allows only one token, it is certain to be accepted: its source is "forced". If the schema forces characters that
have several tokenizations, the usual one is drafted: its source is "grammar". Without a schema, nothing is drafted.
Outlines (Willard and Louf 2023) and SGLang (Zheng et al. 2024) skip passes in the same places.
"""

from math import prod

from ..core.events import EMPTY, Draft
from ..core.tree import ancestors
from .base import Drafter

FORCED = "forced"  # source of a token that is the only allowed one
LIKELY = 0.9  # confidence in the usual tokenization of forced characters


class Grammar(Drafter):
    """A chain of forced tokens."""

    name = "grammar"
    summary = "drafts the tokens that a schema forces"
    needs_schema = True
    candidate = False

    @classmethod
    def text_only(cls):
        return False  # a recording has no masks

    def propose(self, context, limit):
        return self.extended(EMPTY, context, limit)

    def extended(self, draft: Draft, context, limit: int) -> Draft:
        """Return the draft with forced tokens after its likeliest path, at most `limit` tokens deep."""
        if not self.rule.masks or draft.window:
            return draft
        draft = self.rule.masks.pruned(draft, context)
        parents = {*draft.parents}
        paths = [ancestors(draft.parents, row) for row in range(len(draft)) if row not in parents]
        path = max(paths, key=lambda rows: prod(draft.chances[row] for row in rows), default=[])
        text = [*context, *(draft.tokens[row] for row in path)]
        tokens, sources, chances = [], [], []
        while len(path) + len(tokens) < limit and (following := self.rule.masks.next(text)):
            token, certain = following
            text.append(token)
            tokens.append(token)
            sources.append(FORCED if certain else self.name)
            chances.append(1.0 if certain else LIKELY)
        return draft.continued(path[-1] if path else -1, tokens, sources, chances)
