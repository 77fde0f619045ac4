"""hybrid: look tokens up if the text repeats itself, else draft with a small model or a trained head.

The policy estimates the tokens per second of both sources, and the faster source drafts. If the model drafts trees, the two
drafts are merged into one tree. Tokens that a schema forces are drafted at no cost, before and after the tokens of the sources.
"""

from dataclasses import dataclass
from math import prod

from ..core.events import EMPTY, Draft
from .base import Drafter, check_range
from .grammar import Grammar
from .suffix import Suffix
from .tree import Tree

MIN_REMAINDER = 0.01  # least probability of all tokens that a drafter does not propose


class Hybrid(Drafter):
    """Forced tokens; suffix matches, else a draft model or a trained head."""

    name = "hybrid"
    summary = "drafts from earlier text if it repeats, else from a small model"
    needs_draft = accepts_head = composite = True

    @dataclass(frozen=True, slots=True)
    class Options(Suffix.Options):
        """The options of `suffix`. `grammar` 0 does not draft the tokens that a schema forces."""

        grammar: int = 1

        def __post_init__(self) -> None:
            Suffix.Options.__post_init__(self)
            check_range(self, grammar=(0, 1))

    def __init__(self, resources, options):
        super().__init__(resources, options)
        from . import DRAFTERS  # the registry imports this file

        strategy = next(d for d in DRAFTERS.values() if d.in_hybrid and d.draft_model == self.lm.kind)
        self._suffix, self._model = Suffix(resources, options), strategy(resources, strategy.Options())
        self._grammar = Grammar(resources, Grammar.Options()) if options.grammar else None

    def sources(self):
        return self._model.sources()

    def start(self, context):
        self._suffix.policy = self._model.policy = self.policy
        self._suffix.start(context)
        self._model.start(context)

    def propose(self, context, limit):
        if not self._grammar:
            return self._sources(context, limit)
        forced = self._grammar.propose(context, limit)
        if not forced:
            return self._grammar.extended(self._sources(context, limit), context, limit)
        # A trained head reads hidden states, which do not exist for drafted tokens.
        if self.lm.kind or (left := limit - len(forced)) < 1:
            return forced
        after = self._proposal(self._model, [*context, *forced.tokens], left)
        draft = forced.continued(len(forced) - 1, after.tokens, after.sources, after.chances, after.q)
        return self._grammar.extended(draft, context, limit)

    def _sources(self, context, limit: int) -> Draft:
        looked_up = self._proposal(self._suffix, context, limit)
        model = self._model.name
        if looked_up and self.policy.expected_speedup(looked_up) >= self.policy.recent_speedup(model):
            return looked_up
        drafted = self._proposal(self._model, context, limit)
        if drafted and looked_up and isinstance(self._model, Tree):
            return merge_drafts(drafted, looked_up)
        return drafted or looked_up

    def _proposal(self, part: Drafter, context, limit: int) -> Draft:
        limit = min(limit, self.policy.limit(part.name))
        return part.propose(context, limit) if limit > 0 else EMPTY


def merge_drafts(draft: Draft, other: Draft) -> Draft:
    """Return both drafts as one tree. The source of a common row is the drafter with the higher confidence."""
    tokens, parents, sources = map(list, (draft.tokens, draft.parents, draft.sources))
    chances, other_chances = dict(enumerate(draft.chances)), {}
    rows = {parent_and_token: row for row, parent_and_token in enumerate(zip(parents, tokens, strict=True))}
    new_rows = {-1: -1}  # row of `other` -> row of the merged tree
    other_rows = zip(other.tokens, other.parents, other.sources, other.chances, strict=True)
    for i, (token, parent, source, chance) in enumerate(other_rows):
        row = new_rows[i] = rows.setdefault((new_rows[parent], token), len(tokens))
        other_chances[row] = chance
        if row == len(tokens):
            tokens.append(token)
            parents.append(new_rows[parent])
            sources.append(source)
        elif chance > chances[row]:
            sources[row] = source
    return Draft(tuple(tokens), tuple(parents), None, tuple(sources), combine_chances(parents, chances, other_chances))


def combine_chances(parents: list[int], *estimates: dict[int, float]) -> tuple[float, ...]:
    """Return the chance of every row of a tree, from the estimates of two independent drafters by row.

    If both propose children of a row, a child's chance is proportional to the product of both estimates. A drafter's
    estimate for a child that it does not propose is the remainder: 1 minus the sum of its estimates.
    """
    chances = estimates[1] | estimates[0]
    for parent in set.intersection(*({parents[row] for row in estimate} for estimate in estimates)):
        below = [row for row, above in enumerate(parents) if above == parent]
        parts = [{row: estimate[row] for row in below if row in estimate} for estimate in estimates]
        remainders = [max(MIN_REMAINDER, 1 - sum(part.values())) for part in parts]
        weights = [prod(part.get(row, left) for part, left in zip(parts, remainders, strict=True)) for row in below]
        total = sum(weights) + prod(remainders)
        chances.update((row, weight / total) for row, weight in zip(below, weights, strict=True))
    return tuple(chances[row] for row in range(len(parents)))
