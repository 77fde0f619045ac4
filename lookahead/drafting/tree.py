"""tree: the draft model's likeliest continuations as a tree (SpecInfer, Miao et al. 2024; EAGLE-2, Li et al. 2024).

The tree grows a level at a time: one draft pass reads the newest rows, and their likeliest children
become the next level; all in one compiled call where nothing but logits decides. When no
further level would pay, the rows that pay stay. A tree can hold the target's second choice where a
chain would have ended, and pays for it in rows.

Rows are picked, not sampled, so their q is a point mass.
"""

from __future__ import annotations

from dataclasses import dataclass

from ..core.costs import TREE_BRANCHES
from ..core.events import EMPTY, Draft
from ..model.chain import Request
from .base import check_range
from .draft import DraftModel


class Tree(DraftModel):
    """A top-b tree from a small model."""

    name = "tree"
    summary = "drafts a tree of a small model's favourites"

    @dataclass(frozen=True, slots=True)
    class Options:
        """At most `branches` rows a level, and `rows` in all."""

        branches: int = TREE_BRANCHES
        rows: int = 24

        def __post_init__(self) -> None:
            check_range(self, branches=(1, 16), rows=(1, 64))

    def __init__(self, resources, options):
        super().__init__(resources, options)
        self._read: tuple[int, list[tuple[int, int]]] = 0, []  # behind so many tokens, rows: token and parent

    def propose(self, context, room, policy):
        longest = self.longest(context, room, policy)
        if longest < 1:
            return EMPTY
        self._keep_accepted(context)
        unread = self.lm.sync(context)
        return policy.trim(self._grown(context, unread, longest, policy)) if unread else EMPTY

    def _grown(self, context, unread, longest: int, policy) -> Draft:
        """A tree of at most so many levels, of which the model has `unread` tokens of the context still to read."""
        lm, options = self.lm, self.options
        levels = min(longest, -(-options.rows // options.branches))  # each is full
        if scores := self.rule.scores(len(context), levels, lm.vocab):
            request = Request(levels, lm.vocab, scores, policy.ending(self.name))
            if grown := lm.tree(unread, request, options.branches, options.rows):
                tokens, parents, chances = map(tuple, grown[:3])
                self._read = len(lm.tokens), list(zip(tokens, parents, strict=True))[: grown.read]
                return Draft(tokens, parents, None, (self.name,) * len(tokens), chances)
        tokens, parents, chances, reach = [], [], [], []
        logits = lm.extend(unread)
        newest, above = [-1], [()]
        for depth in range(1, longest + 1):
            favourites = self.rule.favourites(logits, context, above, self.options.branches)
            offers = [
                (policy.chance(self.name, chance) * (reach[row] if row >= 0 else 1.0), chance, row, token, path)
                for row, path, picks in zip(newest, above, favourites, strict=True)
                for token, chance in picks
            ]
            offers.sort(key=lambda offer: -offer[0])
            newest, above = [], []
            for reached, chance, row, token, path in offers[
                : min(self.options.branches, self.options.rows - len(tokens))
            ]:
                newest.append(len(tokens))
                above.append((*path, token))
                tokens.append(token)
                parents.append(row)
                chances.append(chance)
                reach.append(reached)
            pays = newest and policy.extends(self.name, sum(reach[row] for row in newest), depth)
            if depth == longest or len(tokens) >= self.options.rows or not pays:
                break
            logits = self.lm.forward(tokens, parents, first=newest[0])
            self._read = len(self.lm.tokens), list(zip(tokens, parents, strict=True))
        return Draft(tuple(tokens), tuple(parents), None, (self.name,) * len(tokens), tuple(chances))

    def _keep_accepted(self, context) -> None:
        """Of the tree that the draft model read last, keep the path that has become text: it need not be read again."""
        start, rows = self._read
        if start == len(self.lm.tokens) and rows:
            path, node = [], -1
            for token in context[start:-1]:
                node = rows.index((token, node)) if (token, node) in rows else None
                if node is None:
                    break
                path.append(node)
            self.lm.keep(path)
        self._read = 0, []
