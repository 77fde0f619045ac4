"""block-tree: the favourites of a block's slots as a tree (JetSpec 2026).

One pass has the favourites of every depth; each path through them gets the Markov part's bias for its own tokens. Levels
cost next to nothing, so all are grown, in one compiled call where nothing but logits decides, and the rows stay that pay.

Knows the target by its hidden states only.
"""

from __future__ import annotations

from ..core.events import Draft
from ..model.chain import Request
from ..model.heads.shape import BLOCK
from .tree import Tree


class BlockTree(Tree):
    """A top-b tree from the slots of a block."""

    name = "block-tree"
    summary = "drafts a tree of a block's favourites"
    draft_model = BLOCK

    def _grown(self, context, unread, longest, policy):
        lm, options = self.lm, self.options
        if scores := self.rule.scores(len(context), longest, lm.vocab):
            request = Request(longest, lm.vocab, scores, policy.ending(self.name))
            if grown := lm.tree(unread, request, options.branches, options.rows):
                tokens, parents, chances = map(tuple, grown)
                return Draft(tokens, parents, None, (self.name,) * len(tokens), chances)
        return super()._grown(context, unread, longest, policy)
