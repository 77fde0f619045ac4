"""An online suffix automaton with counts (Blumer et al. 1985): what followed the end of the text before, and how often.

A state stands for all strings with the same end positions. A token is added in constant amortized time. The longest earlier
occurrence of the text's end is one link away.
"""

from collections.abc import Sequence
from heapq import heappop, heappush

MOST_LINKS = 32  # endings of the text that are counted, the longest first
# A match of n tokens continues with odds of n to 1, at its first token of n to this. Of 3,000 matches that had been seen once,
# 47 % of two tokens continued, 55 of three, 71 of four, 75 of five to eight.
UNPROVEN = 2


def doubt(depth: int) -> int:
    """The odds against a match's token at this depth, against the match's length."""
    return 1 if depth else UNPROVEN


class SuffixAutomaton:
    """States are whole numbers; 0 is the empty string."""

    def __init__(self):
        self._next: list[dict[int, int]] = [{}]  # by state: token -> state
        self._counts: list[dict[int, int]] = [{}]  # by state: token -> how often it followed
        self._followed = [0]  # by state: how often anything followed
        self._link, self._length = [-1], [0]
        self._last = 0  # the state of the whole text

    def __len__(self) -> int:
        return len(self._length)

    def break_off(self) -> None:
        self._last = 0

    def extend(self, tokens: Sequence[int]) -> None:
        for token in tokens:
            self._count(token)
            self._last = self._step(token)

    def _count(self, token: int) -> None:
        """Count the token after the longest endings of the text."""
        state = self._last
        for _ in range(MOST_LINKS):
            if state < 0:
                break
            self._counts[state][token] = self._counts[state].get(token, 0) + 1
            self._followed[state] += 1
            state = self._link[state]

    def _step(self, token: int) -> int:
        last = state = self._last
        known = self._next[last].get(token)
        if known is not None:  # only after a break: this text begins as another did
            return self._split(last, token, known)
        new = self._add(self._length[last] + 1)
        while state >= 0 and token not in self._next[state]:
            self._next[state][token] = new
            state = self._link[state]
        if state >= 0:
            self._link[new] = self._split(state, token, self._next[state][token])
        return new

    def _add(self, length: int) -> int:
        self._next.append({})
        self._counts.append({})
        self._followed.append(0)
        self._link.append(0)
        self._length.append(length)
        return len(self._length) - 1

    def _split(self, state: int, token: int, target: int) -> int:
        """The state of `state`'s longest string and `token`; a copy of `target` if that stands for longer strings too."""
        length = self._length[state] + 1
        if self._length[target] == length:
            return target
        copy = self._add(length)
        self._next[copy], self._counts[copy] = dict(self._next[target]), dict(self._counts[target])
        self._followed[copy], self._link[copy] = self._followed[target], self._link[target]
        self._link[target] = copy
        while state >= 0 and self._next[state].get(token) == target:
            self._next[state][token] = copy
            state = self._link[state]
        return copy

    def seen(self) -> tuple[int, int]:
        """(state, length) of the longest ending of the text that something has followed; (0, 0) for none."""
        return self._continued(self._link[self._last])

    def _continued(self, state: int) -> tuple[int, int]:
        """(state, length) of the longest ending of a state's strings that something has followed; (0, 0) for none."""
        while state > 0 and not self._followed[state]:
            state = self._link[state]
        return (state, self._length[state]) if state > 0 else (0, 0)

    def continuations(
        self, shortest: int, reach: int, longest: int, rows: int, candidates: int
    ) -> tuple[list[int], list[int], list[float]] | None:
        """What followed the longest earlier ending of the text, as a tree: tokens, parents (-1: the text's end) and chances.

        A chance is that of a row if its parent is accepted. Rows are in the order of their chance to be reached, at most
        `rows`, `candidates` below each. The depth is at most `longest`, and `reach` times the ending's length. Returns None
        if the ending has fewer than `shortest` tokens.
        """
        state, matched = self.seen()
        if matched < max(shortest, 1):
            return None
        deepest = min(longest, reach * matched)
        tokens, parents, chances = [], [], []
        offers: list[tuple[float, int, int, int, int, int, float]] = []  # the likeliest first, then the earliest
        rank, row, depth, reached = 0, -1, 0, 1.0
        while True:
            state, length = self._continued(state) if depth < deepest else (0, 0)
            if state:
                total = self._followed[state] + doubt(depth) / min(matched + depth, length)
                counts = self._counts[state]
                for token in sorted(counts, key=counts.get, reverse=True)[:candidates]:
                    chance = counts[token] / total
                    heappush(offers, (-reached * chance, rank, row, depth + 1, token, self._next[state][token], chance))
                    rank += 1
            if not offers or len(tokens) == rows:
                return tokens, parents, chances
            reached, _, parent, depth, token, state, chance = heappop(offers)
            reached, row = -reached, len(tokens)
            tokens.append(token)
            parents.append(parent)
            chances.append(chance)
