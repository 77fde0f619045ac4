"""lookahead: Jacobi iterations in a window, and the n-grams they find (Fu et al. 2024, arXiv 2402.02057).

The window holds `ngram - 1` levels of `window` guesses. Level 0 continues the text as a chain, and
below its column i hangs one guess a level: the trajectory of the Jacobi iteration at that column.
Every pass computes the next token of each trajectory; trajectory and token form an n-gram, which
goes into a pool under its first token. The oldest level then leaves the window and the new tokens
enter it. Beside the window, in the same pass, up to `guesses` n-grams from the pool that begin with
the text's last token are verified. No draft model, no earlier text needed: the model drafts for
itself, and pays for it in rows.

Knows the target only by what it said at the window's rows.
"""

from __future__ import annotations

import random
from dataclasses import dataclass

from ..events import Draft
from ..tree import trie
from .base import Proposer, check_range

BEARABLE = 1.6  # passes that a pass with a window of our own choosing may cost
POOL, POOLED = "pool", 0.5  # n-grams drafted without a window: under a name of their own, and the chance they are given
SHAPES = ((2, 3), (3, 3), (5, 3), (5, 4), (7, 5), (10, 5), (15, 5))  # (window = guesses, ngram), by rows


class Lookahead(Proposer):
    """Window, pool, and both branches in one pass."""

    name = "lookahead"
    summary = "drafts with a Jacobi window and a pool of n-grams"

    @dataclass(frozen=True, slots=True)
    class Options:
        """W `window` columns, N `ngram` tokens, G `guesses` verified a pass; 0 leaves it to this machine's costs.

        `seed_prompt` puts the prompt's own n-grams into the pool.
        """

        window: int = 0
        ngram: int = 0
        guesses: int = 0
        seed_prompt: bool = True

        def __post_init__(self) -> None:
            check_range(self, window=(0, 32), ngram=(0, 8), guesses=(0, 32))

    def __init__(self, means, options):
        super().__init__(means, options)
        columns, levels = choose(self.pass_s)
        self._columns, self._n = options.window or columns, max(2, options.ngram or levels)
        self._most = options.guesses or self._columns
        self._levels: list[list[int]] = []
        self._pool: dict[int, dict[tuple[int, ...], tuple[int, int] | None]] = {}
        self._step, self._filling = 0, 0

    def start(self, context):
        draws = random.Random(len(context))
        self._levels = [[draws.choice(context) for _ in range(self._columns)]]
        if self.options.seed_prompt:
            for i in range(len(context) - self._n + 1):
                self._remember(tuple(context[i : i + self._n]), None)

    def _remember(self, found: tuple[int, ...], birth: tuple[int, int] | None) -> None:
        """Newest last; at most `guesses` under one first token."""
        known = self._pool.setdefault(found[0], {})
        known[found[1:]] = known.pop(found[1:], birth)
        if len(known) > self._most:
            del known[next(iter(known))]

    def propose(self, context, room, pace):
        self._step += 1
        most = min(room, pace.limit(self.name))
        if most >= 1 and self._filling == 0:
            self._filling = self._n  # a window says nothing before it is full
        self._filling = max(0, self._filling - 1)
        if room < self._columns + self._n:  # what a window would find now comes too late
            self._levels, self._filling = [], 0
        idle = not (most or self._filling)  # a window would lose time; what it has found costs next to nothing
        known = list(reversed(self._pool.get(context[-1], {}).items())) if room > 0 else []
        guesses = [tokens[: min(room, most or room)] for tokens, _ in known]
        tokens, parents, origins = trie(guesses, rows=len(guesses) * (self._n - 1))
        births = [known[c][1] for c, _ in origins]
        verified = len(tokens)
        if idle:
            self._levels = self._levels[:1]
            chances = tuple(POOLED / (1 + c) for c, _ in origins)
            return pace.trim(Draft(tuple(tokens), tuple(parents), None, (POOL,) * verified, chances, 0, tuple(births)))
        for level, guess in enumerate(self._levels):
            for column, token in enumerate(guess):
                first = -1 if column == 0 else verified + column - 1
                parents.append(first if level == 0 else verified + (level - 1) * self._columns + column)
                tokens.append(token)
        rows, window = len(tokens), len(tokens) - verified
        births += [None] * window
        return Draft(tuple(tokens), tuple(parents), None, (self.name,) * rows, (), window, tuple(births))

    def observe(self, draft, logits, context):
        if not draft.window:
            return
        said = logits[-self._columns :].argmax(-1).tolist()
        if len(self._levels) == self._n - 1:
            for column, token in enumerate(said):
                trajectory = tuple(level[column] for level in self._levels)
                self._remember((*trajectory, token), (self._step, column))
            self._levels.pop(0)
        self._levels.append(said)


def choose(pass_s, bearable: float = BEARABLE) -> tuple[int, int]:
    """(window, ngram) with the most rows whose pass this machine bears: a small one on a CPU, a large one on a GPU."""
    best = SHAPES[0]
    for columns, n in SHAPES:
        rows = 1 + 2 * columns * (n - 1)  # window and guesses
        if pass_s(rows, 1 + columns) <= bearable * pass_s(1, 1):
            best = (columns, n)
    return best
