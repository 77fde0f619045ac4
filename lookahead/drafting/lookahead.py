"""lookahead: a window of Jacobi iterations and a pool of n-grams from it (Fu et al. 2024, arXiv 2402.02057).

Every pass computes the next token of each trajectory in the window. Trajectory and token form an n-gram, which is added to a
pool. The same pass verifies the pool's n-grams that begin with the text's last token. Drafting costs rows, but needs no model.
"""

from dataclasses import dataclass

from ..core.events import EMPTY, Draft
from ..core.numbers import decimal
from ..core.policy import DraftCost
from ..core.tree import trie
from .base import Drafter, check_range
from .jacobi import JacobiWindow, NGramPool

MAX_COST = 1.6  # highest cost of a pass with an automatic window, in one-row passes
POOL = "pool"  # source of n-grams that are drafted without a window
POOL_CONFIDENCE = 0.5  # confidence of the newest n-gram
SHAPES = ((2, 3), (3, 3), (5, 3), (5, 4), (7, 5), (10, 5), (15, 5))  # (window = guesses, ngram), in order of rows


class Lookahead(Drafter):
    """A window and a pool; one pass computes both branches."""

    name = "lookahead"
    summary = "drafts with a Jacobi window and a pool of n-grams"
    candidate = False
    composite = True
    expected_tokens = 1.7  # a window produces few n-grams at first

    @dataclass(frozen=True, slots=True)
    class Options:
        """W `window` columns, N `ngram` tokens, G verified `guesses` per pass. 0 selects a value by this machine's costs.

        `seed_prompt` adds the n-grams of the prompt to the pool.
        """

        window: int = 0
        ngram: int = 0
        guesses: int = 0
        seed_prompt: bool = True

        def __post_init__(self) -> None:
            check_range(self, window=(0, 32), ngram=(0, 8), guesses=(0, 32))

    def __init__(self, resources, options):
        super().__init__(resources, options)
        columns, n = choose(self.pass_s)
        self._window = JacobiWindow(options.window or columns, max(2, options.ngram or n))
        self._pool = NGramPool(options.guesses or self._window.columns)
        self._pass = 0  # number of the pass, from 1
        self._passes_due = 0  # number of next passes that have a window, independent of the policy

    @classmethod
    def fitted(cls, deciding, measured):
        columns, n = choose(deciding.pass_s)
        window, (most, longest) = 1 + 2 * columns * (n - 1), SHAPES[-1]
        cost = decimal(measured.pass_s(window, 1 + columns) / measured.pass_s(1))
        return f"{cls.name}'s window", (
            f"W = {columns}, N = {n}, G = {columns}: {window} rows cost {cost} one-row passes. To gain time, a pass must emit "
            f"more tokens than that. If rows are nearly free, as on a large GPU: W = {most}, N = {longest}, G = {most}"
        )

    def sources(self):
        return {self.name: DraftCost(once_s=0.0, tokens=self.expected_tokens)}

    def start(self, context):
        self._window.start(context)
        if self.options.seed_prompt:
            for i in range(len(context) - self._window.n + 1):
                self._pool.add(tuple(context[i : i + self._window.n]))

    def propose(self, context, limit):
        self._pass += 1
        length = min(limit, self.policy.limit(self.name))
        looks_ahead = self._looks_ahead(length, limit)
        guesses = self._pool.after(context[-1])
        if not (looks_ahead or guesses):
            return EMPTY
        cut = [tokens[: length or limit] for tokens, _ in guesses]
        tokens, parents, origins = trie(cut, rows=len(guesses) * (self._window.n - 1))
        ngram_origins = [guesses[guess][1] for guess, _ in origins]
        if not looks_ahead:  # n-grams of earlier windows cost almost nothing
            sources, chances = (POOL,) * len(tokens), tuple(POOL_CONFIDENCE / (1 + guess) for guess, _ in origins)
            return Draft(tuple(tokens), tuple(parents), None, sources, chances, 0, tuple(ngram_origins))
        window_tokens, window_parents = self._window.rows(first=len(tokens))
        ngram_origins += [None] * len(window_tokens)
        tokens, parents = (*tokens, *window_tokens), (*parents, *window_parents)
        return Draft(tokens, parents, None, (self.name,) * len(tokens), (), len(window_tokens), tuple(ngram_origins))

    def _looks_ahead(self, length: int, limit: int) -> bool:
        """Return whether this pass has the window. It stays until it is full, because only a full window produces n-grams."""
        if length and not self._passes_due:
            self._passes_due = self._window.n
        self._passes_due = max(0, self._passes_due - 1)
        if limit < self._window.columns + self._window.n:  # its n-grams would come after the end of the text
            self._window.close()
            self._passes_due = 0
        if length or self._passes_due:
            return True
        self._window.shrink()
        return False

    def observe(self, draft, logits, context):
        if draft.window:
            predicted = logits[-self._window.columns :].argmax(-1).tolist()
            for column, ngram in enumerate(self._window.advance(predicted)):
                self._pool.add(ngram, (self._pass, column))


def choose(pass_s) -> tuple[int, int]:
    """Return the (window, ngram) with the most rows whose pass costs at most `MAX_COST` one-row passes."""
    best = SHAPES[0]
    for columns, n in SHAPES:
        rows = 1 + 2 * columns * (n - 1)  # window and guesses
        if pass_s(rows, 1 + columns) <= MAX_COST * pass_s(1, 1):
            best = (columns, n)
    return best
