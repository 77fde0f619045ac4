"""hybrid: looks tokens up if the text repeats itself, else drafts with a small model or a trained head.

The one with more expected tokens per second proposes, by the policy's history of both. If the model drafts trees, both drafts
become one tree.
"""

from math import prod

from ..core.events import EMPTY, Draft
from .base import Drafter
from .suffix import Suffix
from .tree import Tree

LEAST_LEFT = 0.01  # of a chance, for all tokens that a drafter does not name


class Hybrid(Drafter):
    """Suffix matches first, a draft model or a trained head otherwise."""

    name = "hybrid"
    summary = "drafts from earlier text if it repeats, else from a small model"
    needs_draft = accepts_head = composite = True
    Options = Suffix.Options

    def __init__(self, resources, options):
        super().__init__(resources, options)
        from . import DRAFTERS  # the registry imports this file

        strategy = next(d for d in DRAFTERS.values() if d.in_hybrid and d.draft_model == self.lm.kind)
        self._suffix, self._model = Suffix(resources, options), strategy(resources, strategy.Options())

    def sources(self):
        return self._model.sources()

    def start(self, context):
        self._suffix.policy = self._model.policy = self.policy
        self._suffix.start(context)
        self._model.start(context)

    def propose(self, context, limit):
        looked_up = self._proposal(self._suffix, context, limit)
        model = self._model.name
        if looked_up and self.policy.expected_speedup(looked_up) >= self.policy.recent_speedup(model):
            return looked_up
        drafted = self._proposal(self._model, context, limit)
        if drafted and looked_up and isinstance(self._model, Tree):
            return joined(drafted, looked_up)
        return drafted or looked_up

    def _proposal(self, part: Drafter, context, limit: int) -> Draft:
        limit = min(limit, self.policy.limit(part.name))
        return part.propose(context, limit) if limit > 0 else EMPTY


def joined(draft: Draft, other: Draft) -> Draft:
    """Both as one tree. A row that both have belongs to the drafter with the higher confidence."""
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
    """The chance of every row of a tree, from the chances that two independent drafters give by row.

    If both name tokens after a row, a token's chance is proportional to the product of the two. A drafter that does not name
    the token counts with what its chances leave.
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
