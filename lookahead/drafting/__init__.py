"""The strategies that run in the loop. To add one, add a file, or a class to `heads.py`, and a line here."""

from collections.abc import Mapping
from typing import Any

from .base import Drafter, Resources
from .draft import DraftModel
from .grammar import Grammar
from .heads import Block, BlockTree, Eagle, EagleTree, Medusa, Mtp
from .hybrid import Hybrid
from .lookahead import Lookahead
from .naive import Naive
from .ngram import NGram
from .self import SelfDraft
from .suffix import Suffix
from .tree import Tree

DRAFTERS: dict[str, type[Drafter]] = {
    drafter.name: drafter
    for drafter in (
        Naive, Hybrid, DraftModel, Tree, Medusa, Mtp, Eagle, EagleTree, Block, BlockTree, NGram, Suffix, Grammar, Lookahead, SelfDraft,
    )
}  # fmt: skip


def level_rows(options: Mapping[str, Any]) -> dict[str, int]:
    """Return the rows of a draft model's pass for one more level of a draft, by source, in a lane with these options."""
    by_source = {name: drafter.level_rows(options) for name, drafter in DRAFTERS.items()}
    return {name: rows for name, rows in by_source.items() if rows}


def drafter_with(draft_model: str) -> type[Drafter]:
    """Return the first strategy whose `draft_model` is this one, such as a kind of trained head."""
    return next(drafter for drafter in DRAFTERS.values() if drafter.draft_model == draft_model)


__all__ = ["DRAFTERS", "Drafter", "Resources", "drafter_with", "level_rows"]
