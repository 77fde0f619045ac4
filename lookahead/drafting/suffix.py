"""suffix: the text so far as a suffix automaton with counts (SuffixDecoding, Oliaro et al. 2024).

The continuations of the longest suffix that occurred before are drafted as a tree, the most frequent first. A longer match
gives a deeper draft. Earlier outputs can be added (`earlier`).
"""

from dataclasses import dataclass
from typing import Any

from ..core.events import EMPTY, Draft, SettingsError
from ..core.numbers import count
from .automaton import SuffixAutomaton
from .base import LOOKUP, Drafter, check_range, rows_looked_up


class Suffix(Drafter):
    """Frequent continuations of the longest match."""

    name = "suffix"
    summary = "drafts what followed the longest match, by frequency"
    technique = LOOKUP

    @dataclass(frozen=True, slots=True)
    class Options:
        """A match has at least `shortest` tokens. Its draft is at most `reach` times as deep. A row has at most `candidates`
        children. `earlier` has texts (lists of token ids) that are searched as if they were written before."""

        shortest: int = 2
        reach: int = 4
        candidates: int = 2
        earlier: tuple[tuple[int, ...], ...] = ()

        def __post_init__(self) -> None:
            check_range(self, shortest=(1, 64), reach=(1, 64), candidates=(1, 32))
            object.__setattr__(self, "earlier", _texts(self.earlier))

    def __init__(self, resources, options):
        super().__init__(resources, options)
        self._automaton = SuffixAutomaton()
        for text in options.earlier:
            self._automaton.extend(text)
            self._automaton.break_off()
        self._read = 0

    def start(self, context):
        self._automaton.extend(context[self._read :])
        self._read = len(context)

    def propose(self, context, limit):
        self.start(context)
        options, rows = self.options, rows_looked_up(limit)
        tree = self._automaton.continuations(options.shortest, options.reach, limit, rows, options.candidates)
        if not tree:
            return EMPTY
        tokens, parents, chances = tree
        return Draft(tuple(tokens), tuple(parents), None, (self.name,) * len(tokens), tuple(chances))


def _texts(value: Any) -> tuple[tuple[int, ...], ...]:
    """Return `value` as tuples of token ids. Raises `SettingsError` if it is not a list of lists of ids."""
    try:
        texts = tuple(tuple(text) for text in value)
    except TypeError:
        texts = None
    if texts is None or not all(isinstance(t, int) and not isinstance(t, bool) and t >= 0 for x in texts for t in x):
        raise SettingsError("earlier", value, "give a list of texts, each a list of token ids.")
    if sum(map(len, texts)) > 1_000_000:
        raise SettingsError("earlier", f"{count(sum(map(len, texts)))} tokens", "give at most a million tokens.")
    return texts
