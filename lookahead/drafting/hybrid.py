"""hybrid: what followed here before, where the text repeats itself; else a small model, or a trained head.

The policy knows each of the two by its own history, so what decides is which of them is expected
to write more tokens per second at this very place. Of a head that drafts a tree, what followed here
before is part of the tree, where each of the two says how far the other may be trusted.

Knows the two drafters it is made of.
"""

from __future__ import annotations

from math import prod

from ..core.events import Draft
from ..model.heads.head import CachedHead
from .base import Drafter
from .block_tree import BlockTree
from .draft import DraftModel
from .eagle import Eagle
from .medusa import Medusa
from .suffix import Suffix
from .tree import Tree

LEAST_LEFT = 0.01  # of a chance, for what a drafter does not name
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
            return policy.trim(joined(drafted, looked_up))
        return drafted or looked_up


def joined(draft: Draft, other: Draft) -> Draft:
    """Both as one tree. A row that both have is of the surer one."""
    tokens, parents, sources = map(list, (draft.tokens, draft.parents, draft.sources))
    of_draft, of_second = dict(enumerate(draft.chances)), {}
    rows = {place: row for row, place in enumerate(zip(parents, tokens, strict=True))}
    of_other = {-1: -1}  # rows of `other` here
    for i, (token, parent, source, chance) in enumerate(
        zip(other.tokens, other.parents, other.sources, other.chances, strict=True)
    ):
        row = of_other[i] = rows.setdefault((of_other[parent], token), len(tokens))
        of_second[row] = chance
        if row == len(tokens):
            tokens.append(token)
            parents.append(of_other[parent])
            sources.append(source)
        elif chance > of_draft[row]:
            sources[row] = source
    return Draft(tuple(tokens), tuple(parents), None, tuple(sources), weighed(parents, of_draft, of_second))


def weighed(parents: list[int], *witnesses: dict[int, float]) -> tuple[float, ...]:
    """The chance of every row of a tree, of which two witnesses who do not know of each other give chances by row.

    Where both say what follows a row, a token's chance is in proportion to what the one gives it times what the other does
    or, where that one names other tokens only, has left.
    """
    chances = witnesses[1] | witnesses[0]
    for parent in set.intersection(*({parents[row] for row in witness} for witness in witnesses)):
        below = [row for row, above in enumerate(parents) if above == parent]
        parts = [{row: witness[row] for row in below if row in witness} for witness in witnesses]
        rests = [max(LEAST_LEFT, 1 - sum(part.values())) for part in parts]
        weights = [prod(part.get(row, rest) for part, rest in zip(parts, rests, strict=True)) for row in below]
        total = sum(weights) + prod(rests)
        chances.update((row, weight / total) for row, weight in zip(below, weights, strict=True))
    return tuple(chances[row] for row in range(len(parents)))
