"""eagle-tree: an EAGLE head's favourites as a tree (EAGLE-2's dynamic tree, Li et al. 2024).

The tree grows a level at a time from its likeliest rows, as `tree` does; then the rows stay that pay.
"""

from __future__ import annotations

from .base import HEAD_TOKENS
from .tree import Tree


class EagleTree(Tree):
    """A top-b tree from an EAGLE-3 head."""

    name = "eagle-tree"
    summary = "drafts a tree of an EAGLE head's favourites"
    candidate = False
    draft_model = "eagle"
    expected_tokens = HEAD_TOKENS
