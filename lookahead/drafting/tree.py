"""tree: the draft model's likeliest continuations as a tree (SpecInfer, Miao et al. 2024; EAGLE-2, Li et al. 2024).

One pass of the draft model reads the newest rows, and their likeliest children become the next level. If the rule needs only
logits, one call drafts all levels. Rows are picked, not sampled, so their q is a point mass.
"""

from dataclasses import dataclass

from ..core.events import EMPTY, Draft
from ..core.lm import DraftRequest
from .base import check_range
from .draft import DraftModel


class Tree(DraftModel):
    """A top-b tree from a small model."""

    name = "tree"
    summary = "drafts a tree of a small model's likeliest tokens"
    candidate = False
    in_hybrid = False
    technique = None
    expected_tokens = 2.2  # more than a chain, because of second choices

    @dataclass(frozen=True, slots=True)
    class Options:
        """At most `branches` rows per level, and at most `rows` in total."""

        branches: int = 3
        rows: int = 24

        def __post_init__(self) -> None:
            check_range(self, branches=(1, 16), rows=(1, 64))

    @classmethod
    def level_rows(cls, options):
        branches = options.get("branches")
        return branches if isinstance(branches, int) else cls.Options().branches

    def __init__(self, resources, options):
        super().__init__(resources, options)
        # Number of tokens in the cache, and (token, parent) of the pending rows after them.
        self._read: tuple[int, list[tuple[int, int]]] = 0, []

    def propose(self, context, limit):
        longest = self.longest(context, limit)
        if longest < 1:
            return EMPTY
        self._keep_accepted(context)
        unread = self.lm.sync(context)
        return self._drafted(context, unread, longest) if unread else EMPTY

    def _drafted(self, context, unread, longest: int) -> Draft:
        """Read the `unread` tokens of the context and return a tree of at most `longest` levels."""
        lm, options, stop = self.lm, self.options, self.policy.stop_rule(self.name)
        levels = min(longest, -(-options.rows // options.branches))  # every level but the last is full
        if scores := self.rule.scores(context, levels, lm.vocab):
            request = DraftRequest(levels, lm.vocab, scores, stop)
            if drafted := lm.draft_tree(unread, request, options.branches, options.rows):
                tokens, parents, chances = map(tuple, drafted[:3])
                self._read = len(lm.tokens), list(zip(tokens, parents, strict=True))[: drafted.read]
                return Draft(tokens, parents, None, (self.name,) * len(tokens), chances)
        tokens, parents, chances, reach = [], [], [], []
        logits = lm.extend(unread)
        newest, above = [-1], [()]
        for depth in range(1, longest + 1):
            candidates = self.rule.top_k(logits, context, above, options.branches)
            offers = [
                (chance * (reach[row] if row >= 0 else 1.0), chance, row, token, path)
                for row, path, picks in zip(newest, above, candidates, strict=True)
                for token, chance in picks
            ]
            offers.sort(key=lambda offer: -offer[0])
            newest, above = [], []
            for reached, chance, row, token, path in offers[: min(options.branches, options.rows - len(tokens))]:
                newest.append(len(tokens))
                above.append((*path, token))
                tokens.append(token)
                parents.append(row)
                chances.append(chance)
                reach.append(reached)
            reached = sum(reach[row] for row in newest)
            if not newest or depth == longest or len(tokens) >= options.rows or stop.stops(reached, depth):
                break
            logits = lm.forward(tokens, parents, first=newest[0])
            self._read = len(lm.tokens), list(zip(tokens, parents, strict=True))
        return Draft(tuple(tokens), tuple(parents), None, (self.name,) * len(tokens), tuple(chances))

    def _keep_accepted(self, context) -> None:
        """Keep the accepted path of the last tree in the draft model's cache, so that the model does not read it again."""
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
