"""The strategies that run in our loop: one file each, and this registry.

A drafter drafts; it never verifies and never sees the loop. Adding a strategy is adding a file
and a line here.
"""

from __future__ import annotations

from .base import Drafter, Resources
from .block import Block
from .block_tree import BlockTree
from .draft import DraftModel
from .eagle import Eagle
from .eagle_tree import EagleTree
from .hybrid import Hybrid
from .lookahead import Lookahead
from .medusa import Medusa
from .naive import Naive
from .ngram import NGram
from .self import SelfDraft
from .suffix import Suffix
from .tree import Tree

DRAFTERS: dict[str, type[Drafter]] = {
    drafter.name: drafter
    for drafter in (
        Naive, Hybrid, DraftModel, Tree, Medusa, Eagle, EagleTree, Block, BlockTree, NGram, Suffix, Lookahead, SelfDraft,
    )
}  # fmt: skip

__all__ = ["DRAFTERS", "Drafter", "Resources"]
