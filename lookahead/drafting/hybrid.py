"""hybrid: what followed here before, where the text repeats itself; else a small model, or a trained head.

The policy knows each of the two by its own history, so what decides is which of them is expected
to write more tokens per second at this very place. Of a head that drafts a tree, what followed here
before is part of the tree.

Knows the two drafters it is made of.
"""

from __future__ import annotations

from collections.abc import Callable

from ..core.events import Draft
from ..model.heads.head import CachedHead
from .base import Drafter
from .block_tree import BlockTree
from .draft import DraftModel
from .eagle import Eagle
from .medusa import Medusa
from .suffix import Suffix
from .tree import Tree

OF_HEADS = {drafter.draft_model: drafter for drafter in (BlockTree, Eagle, Medusa)}


class Hybrid(Drafter):
    """Suffix matches first, a draft model or a trained head otherwise."""

    name = "hybrid"
    summary = "drafts from earlier text where it repeats, else from a small model"
    needs_draft = heads_too = True
    Options = Suffix.Options

    def __init__(self, resources, options):
        super().__init__(resources, options)
        self._suffix = Suffix(resources, options)
        of = OF_HEADS[self.lm.shape.kind] if isinstance(self.lm, CachedHead) else DraftModel
        self._model = of(resources, of.Options())
        self._joins = isinstance(self._model, Tree)

    def start(self, context):
        self._suffix.start(context)
        self._model.start(context)

    def propose(self, context, room, policy):
        looked_up = self._suffix.propose(context, room, policy)
        likelier = len(looked_up) and policy.expected_speedup(looked_up) >= policy.recent_speedup(self._model.name)
        if likelier and not (self._joins and policy.adds(looked_up, self._model.name)):
            return looked_up
        drafted = self._model.propose(context, room, policy)
        if self._joins and drafted and looked_up:
            return policy.trim(joined(drafted, looked_up, policy.chance))
        return drafted or looked_up


def joined(draft: Draft, other: Draft, chance: Callable[[str, float], float]) -> Draft:
    """Both as one tree; of a row that both have the surer one says how sure."""
    tokens, parents, sources, chances = map(list, (draft.tokens, draft.parents, draft.sources, draft.chances))
    rows = {place: row for row, place in enumerate(zip(parents, tokens, strict=True))}
    of_other = {-1: -1}
    for i, (token, parent, source, sure) in enumerate(
        zip(other.tokens, other.parents, other.sources, other.chances, strict=True)
    ):
        row = of_other[i] = rows.setdefault((of_other[parent], token), len(tokens))
        if row == len(tokens):
            tokens.append(token)
            parents.append(of_other[parent])
            sources.append(source)
            chances.append(sure)
        elif chance(source, sure) > chance(sources[row], chances[row]):
            sources[row], chances[row] = source, sure
    return Draft(tuple(tokens), tuple(parents), None, tuple(sources), tuple(chances))
