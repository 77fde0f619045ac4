"""ngram: look up the last tokens in the text so far, and draft their continuation (Saxena 2023; LLMA, Yang et al. 2023).

An index maps every n-gram to its end positions. A new token adds one entry per length, so the cost of a pass does not grow
with the text. Longer matches have priority, then more recent ones. Different continuations are merged into a trie.
"""

from dataclasses import dataclass

from ..core.events import EMPTY, Draft, SettingsError
from ..core.tree import trie
from .automaton import doubt
from .base import LOOKUP, Drafter, check_range, rows_looked_up

MAX_POSITIONS = 8  # most recent end positions of an n-gram that are searched
MAX_LENGTH = 64  # longest match that is counted, in tokens


class NGram(Drafter):
    """Longest-suffix lookup with several candidates."""

    name = "ngram"
    summary = "drafts from earlier text"
    candidate = False
    technique = LOOKUP

    @dataclass(frozen=True, slots=True)
    class Options:
        """The `shortest` and `longest` match in tokens, and at most `candidates` continuations per pass."""

        shortest: int = 2
        longest: int = 6
        candidates: int = 2

        def __post_init__(self) -> None:
            check_range(self, shortest=(1, 32), longest=(1, 32), candidates=(1, 32))
            if self.shortest > self.longest:
                raise SettingsError("shortest", self.shortest, f"give at most longest ({self.longest}).")

    def __init__(self, resources, options):
        super().__init__(resources, options)
        self._ends: dict[tuple[int, ...], list[int]] = {}  # by n-gram: the positions after it, in order
        self._indexed = 0  # tokens of the text whose n-grams are in the index

    def start(self, context):
        """Index every n-gram that ends before the last token. An n-gram at the end has no continuation yet."""
        for end in range(self._indexed + 1, len(context)):
            for n in range(self.options.shortest, min(self.options.longest, end) + 1):
                self._ends.setdefault(tuple(context[end - n : end]), []).append(end)
        self._indexed = max(self._indexed, len(context) - 1)

    def propose(self, context, limit):
        self.start(context)
        if tuple(context[-self.options.shortest :]) not in self._ends:
            return EMPTY
        matches = self._matches(context, limit)
        tokens, parents, origins = trie([*matches], rows_looked_up(limit))
        lengths, chances, drafted_after = [*matches.values()], [], set()
        for parent, (candidate, depth) in zip(parents, origins, strict=True):
            length = lengths[candidate] + depth
            chance = length / (length + doubt(depth))  # a longer match is more likely to continue
            second = parent in drafted_after  # a better match drafted another token at this position
            chances.append((1 - chance) / 2 if second else chance)
            drafted_after.add(parent)
        return Draft(tuple(tokens), tuple(parents), None, (self.name,) * len(tokens), tuple(chances))

    def _matches(self, context, longest) -> dict[tuple[int, ...], int]:
        """Return different continuations of at most `longest` tokens with the length of their match, best first."""
        matches: dict[tuple[int, ...], int] = {}
        for n in range(min(self.options.longest, len(context)), self.options.shortest - 1, -1):
            ends = self._ends.get(tuple(context[-n:]), ())[-MAX_POSITIONS:]
            for length, end in sorted(((_matched(context, end), end) for end in ends), reverse=True):
                continuation = _continued(context, end, length, longest)
                if not any(better[: len(continuation)] == continuation for better in matches):
                    matches[continuation] = length
                if len(matches) == self.options.candidates:
                    return matches
        return matches


def _matched(context, end) -> int:
    """Return the number of tokens before `end` that equal the last tokens of the text."""
    length, most = 0, min(end, MAX_LENGTH)
    while length < most and context[end - 1 - length] == context[-1 - length]:
        length += 1
    return length


def _continued(context, end, length, longest) -> tuple[int, ...]:
    """Return the continuation at `end`. If the text repeats itself, the continuation is repeated to the full length."""
    tokens = tuple(context[end : end + longest])
    if length < len(tokens) or len(tokens) == longest:
        return tokens
    return (tokens * (longest // len(tokens) + 1))[:longest]
