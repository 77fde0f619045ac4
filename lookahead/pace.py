"""How much to draft: a fixed length, or whatever has been paying.

`Auto` weighs every drafted token: the chance that it will stand against what its row and its
drafting cost, in the tokens this run could have written in that time. Chances are the drafter's
own, corrected by how often tokens of that claim have stood in this run; costs are this machine's
measured passes, scaled to how this run's passes are going. A drafter whose rounds lose time is
left alone and tried again ever more rarely, so that a hopeless one costs nothing but those tries.

Knows counts and seconds. It does not know who drafts, or what.
"""

from __future__ import annotations

from bisect import bisect
from collections import deque
from collections.abc import Callable, Mapping
from functools import cache
from statistics import median

from .events import ACCEPTED, REJECTED, Draft, Step
from .tree import branch_count, depths

CLAIMS = (0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8, 0.9, 0.95, 0.98)  # tokens are counted by what was claimed of them
MIDDLES = (0.05, 0.15, 0.25, 0.35, 0.45, 0.55, 0.65, 0.75, 0.85, 0.925, 0.965, 0.99)
FADE = 0.97  # weight of the past against the newest step
FADE_ROUND = 0.95  # the same for what a drafter's rounds brought
BELIEF = 4.0  # tests that a drafter's own claim is worth
HOPE, HOPE_WEIGHT = 0.8, 2.0  # tokens a round is thought to win before any was tried
WORTH = 1.03  # what rounds must bring, in naive's tokens a second, to go on
RECENT = 9  # times are medians of so many: one slow pass must not stop the drafting
KNOWN = 3  # times that what was expected counts for
SLOWEST = 2.0  # times its expected length is the most that a round is blamed for
PROBE = 2  # tokens drafted to see whether things have changed
FIRST_WAIT, LONGEST_WAIT = 8, 128
CREDIT = 3.0  # passes won that are remembered in a drafter's favour
TRY_SHARE = 0.02  # of the passes until the next try: what a drafter may have lost


class Fixed:
    """Always the same draft length, whatever it costs."""

    def __init__(self, k: int):
        self.deepest = k  # as deep as a draft may be

    def limit(self, source: str) -> int:
        """The deepest draft worth beginning, for a drafter whose drafts cost time whatever comes of them."""
        return self.deepest

    def goes_on(self, source: str, reach: float) -> bool:
        """Whether a chain that will be reached with this chance deserves one more token."""
        return True

    def chance(self, source: str, claim: float) -> float:
        """The chance that a drafted token stands: what its drafter claims."""
        return claim

    def trim(self, draft: Draft) -> Draft:
        """The draft without the rows that are too deep."""
        return draft.pruned([row for row, depth in enumerate(depths(draft.parents)) if depth <= self.deepest])

    def promise(self, draft: Draft) -> float:
        """How good a draft is expected to be: tokens a pass."""
        return 1 + sum(reaches(draft, self.chance))

    def going(self, source: str) -> float:
        """How good this drafter's rounds are, in the same unit: half of what it drafts stands."""
        return 1 + self.deepest / 2

    def observe(self, step: Step) -> None:
        """Nothing to learn."""


class Auto:
    """The draft that maximises expected tokens per second.

    `pass_s(rows, branches)` is what a pass costs, in seconds; `most` bounds the depth. `token_s` is what a drafted
    token is known to take, by drafter, until the run has timed it.
    """

    def __init__(self, pass_s: Callable[[int, int], float], most: int, token_s: Mapping[str, float] | None = None):
        self._pass_s, self.deepest = cache(pass_s), most
        # Passes of this run against the measured curve: chains, and trees; and the medians of both.
        self._slower: tuple[deque[float], deque[float]] = deque(maxlen=RECENT), deque(maxlen=RECENT)
        self._chains = self._trees = 1.0
        self._drafters: dict[str, _Drafter] = {}
        self._token_s = token_s or {}
        self._last: str | None = None

    def _drafter(self, source: str) -> _Drafter:
        if source not in self._drafters:
            self._drafters[source] = _Drafter(self._pass_s(1, 1), self._token_s.get(source, 0.0))
        return self._drafters[source]

    def _seconds(self, rows: int, branches: int = 1) -> float:
        return (self._trees if branches > 1 else self._chains) * self._pass_s(rows, branches)

    def going(self, source: str) -> float:
        """Tokens per second of this drafter's rounds of late; never less than naive's."""
        return max(self._drafter(source).rate, 1 / self._seconds(1))

    def limit(self, source: str) -> int:
        """The deepest draft worth beginning: 0 for a drafter that loses time, but for rare tries."""
        drafter = self._drafter(source)
        if drafter.rate * self._seconds(1) > WORTH:
            return self.deepest
        return drafter.probe()

    def goes_on(self, source: str, reach: float) -> bool:
        """Whether a chain that will be reached with this chance deserves one more token."""
        drafter = self._drafter(source)
        row = (self._seconds(6) - self._seconds(1)) / 5
        return reach * drafter.acceptance > self.going(source) * (drafter.token_s + row)

    def trim(self, draft: Draft) -> Draft:
        """The rows that pay: the likeliest, for as long as they bring more than they cost."""
        if not len(draft):
            return draft
        chances = reaches(draft, self.chance)
        order = sorted(range(len(draft)), key=lambda row: (-chances[row], row))
        rate, won, best, kept = self.going(draft.sources[0]), 0.0, 0.0, 0
        for n, row in enumerate(order, start=1):
            won += chances[row]
            gain = won - rate * (self._seconds(1 + n) - self._seconds(1))
            if gain > best:
                best, kept = gain, n
        rows = sorted(order[:kept])
        chosen = draft.pruned(rows)
        if branch_count(chosen.parents) == 1:
            return chosen
        # Branches cost more than rows: are they worth it against the best chain alone?
        return max(chosen, draft.pruned(_best_chain(draft, chances, rows)), key=self.promise)

    def promise(self, draft: Draft) -> float:
        """Tokens per second that a pass with this draft is expected to bring."""
        seconds = self._seconds(1 + len(draft), branch_count(draft.parents))
        return (1 + sum(reaches(draft, self.chance))) / seconds

    def chance(self, source: str, claim: float) -> float:
        """The chance that a drafted token stands: its drafter's claim, corrected."""
        return self._drafter(source).chance(claim)

    def observe(self, step: Step) -> None:
        """Learn from a step."""
        rows, branches = 1 + len(step.draft), branch_count(step.draft.parents)
        self._slower[branches > 1].append(step.verify_s / self._pass_s(rows, branches))
        chains, trees = self._slower
        self._chains, self._trees = median(chains or trees), median(trees or chains)
        source = step.draft.sources[0] if step.draft.sources else None
        if source is not None:
            drafter = self._drafter(source)
            drafter.count(step, again=source == self._last)
            depth = max(depths(step.draft.parents))
            expected = self._seconds(rows, branches) + depth * drafter.token_s
            drafter.weigh(1 + step.accepted, expected, step.verify_s + step.propose_s, self._seconds(1))
        self._last = source


class _Drafter:
    """What a run has seen of one drafter."""

    def __init__(self, pass_s: float, token_s: float):
        self._tokens, self._seconds = (1 + HOPE) * HOPE_WEIGHT, pass_s * HOPE_WEIGHT  # of its rounds
        self._tested = [0.0] * len(MIDDLES)
        self._stood = [0.0] * len(MIDDLES)
        self._honesty = 1.0  # what stood of what was claimed
        self._times: deque[float] = deque([token_s] * KNOWN if token_s else [], maxlen=RECENT)
        self.token_s = token_s  # seconds a drafted token takes
        self.acceptance = 0.7  # share of tested tokens that stood
        self._dearer = deque([1.0] * KNOWN, maxlen=RECENT)  # rounds, for turning from model to model costs time too
        self._idle, self._wait = 0, FIRST_WAIT
        self._lost = 0.0  # passes that its rounds cost more than they brought

    @property
    def rate(self) -> float:
        """Tokens per second of its rounds, drafting and passes."""
        return self._tokens / self._seconds

    def chance(self, claim: float) -> float:
        """The drafter's claim, corrected by what became of such tokens."""
        i = bisect(CLAIMS, claim)
        prior = min(0.99, claim * self._honesty)
        return (self._stood[i] + prior * BELIEF) / (self._tested[i] + BELIEF)

    def probe(self) -> int:
        """What a drafter that loses time may draft: mostly nothing."""
        self._idle += 1
        if self._idle <= max(self._wait, self._lost / TRY_SHARE):
            return 0
        self._idle, self._wait = 0, min(2 * self._wait, LONGEST_WAIT)
        return PROBE

    def count(self, step: Step, again: bool) -> None:
        """Count a step's tests, and time its drafting."""
        self._tested = [FADE * n for n in self._tested]
        self._stood = [FADE * n for n in self._stood]
        claims = step.draft.chances or (0.7,) * len(step.draft)
        for claim, status in zip(claims, step.statuses, strict=True):
            if status in (ACCEPTED, REJECTED):
                i = bisect(CLAIMS, claim)
                self._tested[i] += 1
                self._stood[i] += status == ACCEPTED
        claimed = sum(t * m for t, m in zip(self._tested, MIDDLES, strict=True))
        stood = sum(self._stood)
        self._honesty = (stood + BELIEF) / (claimed + BELIEF)
        self.acceptance = (stood + 0.7 * BELIEF) / (sum(self._tested) + BELIEF)
        # The first draft after a pause also pays for what the drafter has not read yet.
        if again or not self._times:
            self._times.append(step.propose_s / max(depths(step.draft.parents)))
            self.token_s = median(self._times)

    def weigh(self, tokens: int, expected: float, took: float, plain: float) -> None:
        """Remember what a round brought, and what such rounds take: `took` seconds this time, rather than `expected`.

        What it lost, reading up included, is counted in passes of `plain` seconds.
        """
        self._dearer.append(took / expected)
        self._tokens = FADE_ROUND * self._tokens + tokens
        self._seconds = FADE_ROUND * self._seconds + median(self._dearer) * expected
        lost = min(took, SLOWEST * expected) / plain - tokens
        self._lost = max(-CREDIT, self._lost + lost)
        if lost < 0:
            self._wait = FIRST_WAIT


def reaches(draft: Draft, chance: Callable[[str, float], float]) -> list[float]:
    """The chance that each row is reached and stands: the product of the chances down to it."""
    out: list[float] = []
    for row, parent in enumerate(draft.parents[: draft.tested]):
        own = chance(draft.sources[row], draft.chances[row] if draft.chances else 0.7)
        out.append(own * (out[parent] if parent >= 0 else 1.0))
    return out


def _best_chain(draft: Draft, chances: list[float], rows: list[int]) -> list[int]:
    """Of these rows, the path from the root that follows the likeliest child."""
    path, node = [], -1
    while below := [row for row in rows if draft.parents[row] == node]:
        node = max(below, key=lambda row: chances[row])
        path.append(node)
    return path
