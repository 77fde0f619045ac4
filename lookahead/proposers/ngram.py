"""ngram: look the last few tokens up in the prompt and in what was generated, and draft what
followed them there (prompt lookup decoding, Saxena 2023; LLMA, Yang et al. 2023).

An index maps every n-gram, shortest to longest, to the places where it ended; a new token adds
one entry a length, so a step costs the same at token 100 and at token 10,000. The longest match
wins, then the most recent one; several different continuations are offered as a trie.

Needs no model: it works where text repeats itself and drafts nothing where it does not.
"""

from __future__ import annotations

from dataclasses import dataclass

from ..events import EMPTY, Draft, SettingsError
from ..tree import trie
from .base import Proposer, check_range


class NGram(Proposer):
    """Longest-suffix lookup, several candidates."""

    name = "ngram"
    summary = "drafts from earlier text"

    @dataclass(frozen=True, slots=True)
    class Options:
        """`shortest` and `longest` match in tokens; at most `candidates` continuations a pass."""

        shortest: int = 2
        longest: int = 6
        candidates: int = 2

        def __post_init__(self) -> None:
            check_range(self, shortest=(1, 32), longest=(1, 32), candidates=(1, 32))
            if self.shortest > self.longest:
                raise SettingsError("shortest", self.shortest, f"give at most longest ({self.longest}).")

    def __init__(self, means, options):
        super().__init__(means, options)
        self._ends: dict[tuple[int, ...], list[int]] = {}
        self._indexed = 0

    def start(self, context):
        self._index(context)

    def _index(self, context) -> None:
        """Enter every n-gram that ends before the last token: the last has no continuation yet."""
        for end in range(self._indexed + 1, len(context)):
            for n in range(self.options.shortest, min(self.options.longest, end) + 1):
                self._ends.setdefault(tuple(context[end - n : end]), []).append(end)
        self._indexed = max(self._indexed, len(context) - 1)

    def propose(self, context, room, pace):
        most = min(room, pace.deepest)  # looking costs next to nothing: what does not pay is trimmed
        if most < 1:
            return EMPTY
        self._index(context)
        found = self._candidates(context, most)
        tokens, parents, origins = trie([candidate for candidate, _ in found], rows=2 * most)
        chances = []
        for c, place in origins:
            matched = found[c][1] + place
            sure = matched / (matched + 1)  # the longer the match, the likelier its continuation
            branches_off = c > 0 and (place == 0 or origins[len(chances) - 1][0] != c)
            chances.append((1 - sure) / 2 if branches_off else sure)
        return pace.trim(Draft(tuple(tokens), tuple(parents), None, (self.name,) * len(tokens), tuple(chances)))

    def _candidates(self, context, most) -> list[tuple[tuple[int, ...], int]]:
        """Different continuations, best first, each with the length of the match that found it."""
        found: list[tuple[tuple[int, ...], int]] = []
        used = set()
        for n in range(min(self.options.longest, len(context)), self.options.shortest - 1, -1):
            for end in reversed(self._ends.get(tuple(context[-n:]), ())[-8:]):
                candidate = tuple(context[end : end + most])
                if end in used or any(held[: len(candidate)] == candidate for held, _ in found):
                    continue
                used.add(end)
                found.append((candidate, n))
                if len(found) == self.options.candidates:
                    return found
        return found
