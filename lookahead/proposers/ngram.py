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
from .base import Proposer


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
            for name in ("shortest", "longest", "candidates"):
                value = getattr(self, name)
                if isinstance(value, bool) or not isinstance(value, int) or not 1 <= value <= 32:
                    raise SettingsError(name, value, "give a whole number from 1 to 32.")
            if self.shortest > self.longest:
                raise SettingsError("shortest", self.shortest, f"give at most longest ({self.longest}).")

    def __init__(self, rule, draft, options):
        super().__init__(rule, draft, options)
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

    def propose(self, context, budget):
        if budget < 1:
            return EMPTY
        self._index(context)
        candidates, ends_used = [], set()
        for n in range(min(self.options.longest, len(context)), self.options.shortest - 1, -1):
            for end in reversed(self._ends.get(tuple(context[-n:]), ())[-8:]):
                candidate = tuple(context[end : end + budget])
                if end in ends_used or any(c[: len(candidate)] == candidate for c in candidates):
                    continue
                ends_used.add(end)
                candidates.append(candidate)
                if len(candidates) == self.options.candidates:
                    break
            if len(candidates) == self.options.candidates:
                break
        if not candidates:
            return EMPTY
        tokens, parents = trie(candidates, rows=2 * budget)
        return Draft(tuple(tokens), tuple(parents), None, (self.name,) * len(tokens))
