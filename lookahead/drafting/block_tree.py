"""block-tree: the favourites of a block's slots as a tree (JetSpec 2026).

One pass has the favourites of every depth; each path through them gets the Markov part's bias for its own tokens. Levels
cost next to nothing, so all are grown, and the rows stay that pay.
"""

from __future__ import annotations

from .base import HEAD_TOKENS
from .tree import Tree


class BlockTree(Tree):
    """A top-b tree from the slots of a block."""

    name = "block-tree"
    summary = "drafts a tree of a block's favourites"
    candidate = True
    draft_model = "block"
    in_hybrid = True
    expected_tokens = HEAD_TOKENS
