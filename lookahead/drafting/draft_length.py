"""The draft length policy: how much to draft in a pass.

`FixedLength` drafts a given number of tokens. `AdaptiveLength` maximises expected tokens per second: it weighs the chance
that a drafted token is accepted against what its row and its drafting cost. Chances are the drafter's confidence,
calibrated by what was accepted in this run; costs are this machine's measured passes, scaled to the passes of this run.
A drafter whose drafts lose time rests, and is probed ever more rarely.

Both have the same methods, and both give the worth of drafting as a speedup: tokens per ordinary pass's time. A drafter
is known by the name that stands in `Draft.sources`.

Knows counts and seconds. It does not know who drafts, or what.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Mapping
from itertools import accumulate
from operator import truediv

from ..core.events import Draft, Step
from ..core.tree import branch_count, depths
from ..model.chain import Ending
from .history import PRIOR_LENGTH, PRIOR_TOKENS, RECENT, UNSTATED, Confidence, DrafterHistory, Lookups, middle

LEAST_SPEEDUP = 1.03  # what a drafter's recent drafts must have brought to go on
SLOPE_ROWS = 4  # over so many further rows at most the price of a row is taken
PRICED = 8  # drafted tokens behind which the price of another is its own


class FixedLength:
    """Always the same draft length, every pass counted as an ordinary one."""

    def __init__(self, k: int):
        self.longest = k  # tokens from the root to the deepest row

    def limit(self, drafter: str) -> int:
        """The longest draft worth beginning, for a drafter whose drafts take time whatever comes of them."""
        return self.longest

    def lookup(self, drafter: str) -> int:
        """The longest draft worth looking up, which costs next to nothing: what does not pay is trimmed."""
        return self.longest

    def extends(self, drafter: str, reach: float, drafted: int) -> bool:
        """Whether one more token is worth drafting, where all of so many is accepted with the chance `reach`."""
        return True

    def ending(self, drafter: str) -> Ending:
        """Where a chain ends, of which each further token is asked for only if `extends`."""
        return Ending()

    def chance(self, drafter: str, confidence: float) -> float:
        """The calibrated confidence: the chance that a drafted token is accepted where its parent is."""
        return confidence

    def trim(self, draft: Draft) -> Draft:
        """The draft's rows that are worth verifying."""
        return draft.pruned([row for row, depth in enumerate(depths(draft.parents)) if depth <= self.longest])

    def expected_speedup(self, draft: Draft) -> float:
        """What a pass with this draft should bring."""
        return 1 + sum(reaches(draft, self.chance))

    def recent_speedup(self, drafter: str) -> float:
        """What this drafter's drafts have been bringing: as if half of every draft were accepted."""
        return 1 + self.longest / 2

    def adds(self, draft: Draft, drafter: str) -> bool:
        """Whether this drafter's draft is worth its time beside that of another, which costs nothing."""
        return False

    def observe(self, step: Step) -> None:
        """Learn from a pass: nothing."""


class AdaptiveLength:
    """The draft length that maximises expected tokens per second.

    `pass_s(rows, branches)` are the seconds of a pass; `longest` bounds the depth of a draft. `token_s` has the seconds
    of a drafted token by drafter, as far as they are known before the run has timed it, and `once_s` those of a draft of any
    length beside its tokens. First drafts are expected to bring `prior_tokens` a pass. `learned` is what an earlier run has
    found the drafters' confidence to mean, and will hold what this one finds.
    """

    def __init__(
        self, pass_s: Callable[[int, int], float], longest: int, token_s: Mapping[str, float] | None = None,
        learned: dict[str, Confidence] | None = None, once_s: Mapping[str, float] | None = None,
        prior_tokens: float = PRIOR_TOKENS,
    ):  # fmt: skip
        self._calibrated_s, self.longest = pass_s, longest
        # This run's passes against the calibrated ones: of chains, and of trees.
        self._slowdowns: tuple[deque[float], deque[float]] = deque(maxlen=RECENT), deque(maxlen=RECENT)
        self._medians: tuple[float, float] | None = None  # of both, where they are known
        self._prices: tuple[tuple[float, float], list[float]] = (0.0, 0.0), []  # of rows, and of which passes they are
        self._histories: dict[str, DrafterHistory] = {}
        self._prior_tokens = prior_tokens
        self._token_s, self._once_s, self._learned = token_s or {}, once_s or {}, {} if learned is None else learned
        self._lookups: dict[str, Lookups] = {}
        self._looked_up: str | None = None  # the drafter that has looked something up in this pass
        self._last_drafter: str | None = None

    def limit(self, drafter: str) -> int:
        """The longest draft worth beginning: 0 for a drafter that loses time, but for rare probes."""
        history = self._history(drafter)
        if history.rests:
            return history.probe()
        history.loses = history.rate(self._slowdown()) * self._pass_s(1) <= LEAST_SPEEDUP
        return history.probe() if history.loses else self.longest

    def lookup(self, drafter: str) -> int:
        """The longest draft worth looking up: 0 where that takes more time than it saves, but for rare probes."""
        self._looked_up = drafter if self._lookups.setdefault(drafter, Lookups()).due() else None
        return self.longest if self._looked_up else 0

    def extends(self, drafter: str, reach: float, drafted: int) -> bool:
        """Whether one more token is worth drafting, where all of so many is accepted with the chance `reach`."""
        return reach > self._floors(drafter)[min(drafted, PRICED) - 1]

    def ending(self, drafter: str) -> Ending:
        """Where a chain ends, of which each further token is asked for only if `extends`."""
        return self._history(drafter).confidence.ending(self._floors(drafter))

    def _floors(self, drafter: str) -> list[float]:
        """The least chance of a draft's end behind which one more token pays: behind 1 to `PRICED` tokens."""
        history, slowdown = self._history(drafter), self._slowdown()
        rate = self._rate(drafter) / history.confidence.acceptance
        return [rate * (history.token_s + slowdown * row_s) for row_s in self._rows_s()]

    def chance(self, drafter: str, confidence: float) -> float:
        """The calibrated confidence: the chance that a drafted token is accepted where its parent is."""
        return self._history(drafter).confidence.chance(confidence)

    def trim(self, draft: Draft) -> Draft:
        """The draft's rows that are worth verifying: the likeliest, for as long as they bring more than they cost."""
        if not len(draft):
            return draft
        chances = reaches(draft, self.chance)
        likeliest = sorted(range(len(draft)), key=lambda row: (-chances[row], row))
        # Of a pass, by how many of them it has.
        tokens = [*accumulate((chances[row] for row in likeliest), initial=1.0)]
        seconds = [self._pass_s(1 + count) for count in range(len(tokens))]
        # What time is worth: what recent drafts brought or, where this one promises more, what it does, since the next will
        # be like it. Where a text repeats itself, a long draft brings nothing that two short ones do not, and risks more.
        rate = max(self._rate(draft.sources[0]), *map(truediv, tokens, seconds))
        gains = [brought - rate * taken for brought, taken in zip(tokens, seconds, strict=True)]
        rows = sorted(likeliest[: gains.index(max(gains))])
        trimmed = draft.pruned(rows)
        if branch_count(trimmed.parents) == 1:
            return trimmed
        # Branches cost more than rows: they stay if they are worth more than the best chain alone.
        return max(trimmed, draft.pruned(_best_chain(draft, chances, rows)), key=self.expected_speedup)

    def expected_speedup(self, draft: Draft) -> float:
        """What a pass with this draft should bring."""
        seconds = self._pass_s(1 + len(draft), branch_count(draft.parents))
        return (1 + sum(reaches(draft, self.chance))) / seconds * self._pass_s(1)

    def recent_speedup(self, drafter: str) -> float:
        """What this drafter's drafts have been bringing; never less than naive decoding."""
        return self._rate(drafter) * self._pass_s(1)

    def adds(self, draft: Draft, drafter: str) -> bool:
        """Whether this drafter's draft is worth its time beside that of another, which costs nothing: where the other fails
        at once, it brings what it has been bringing."""
        failing = 1 - self.chance(draft.sources[0], draft.chances[0] if draft.chances else UNSTATED)
        cost = self._history(drafter).first_s / self._pass_s(1)
        return failing * (self.recent_speedup(drafter) - 1) > cost

    def observe(self, step: Step) -> None:
        """Learn from a pass: how slow it was, what was accepted, and what the draft brought for its time."""
        rows, branches = 1 + len(step.draft), branch_count(step.draft.parents)
        self._slowdowns[branches > 1].append(step.verify_s / self._calibrated_s(rows, branches))
        self._medians = None
        if rows == 1 and not self._looked_up:
            self._last_drafter = None
            return
        drafters = [*dict.fromkeys(step.draft.sources)]
        if self._looked_up and drafters in ([], [self._looked_up]):
            dearer = self._pass_s(rows, branches) / self._pass_s(1) - 1
            self._lookups[self._looked_up].count(step.accepted - dearer, step.propose_s / self._pass_s(1))
        self._looked_up = None
        for drafter in drafters:
            self._history(drafter).confidence.count(step, drafter)
        # Where two have drafted, time and worth are those of the one whose drafts take time.
        drafter = max(drafters, key=lambda name: self._history(name).first_s, default=None)
        if drafter is not None:
            history = self._history(drafter)
            history.time(step, again=drafter == self._last_drafter)
            drafting_s = history.once_s + max(depths(step.draft.parents)) * history.token_s
            expected_s = self._pass_s(rows, branches) + drafting_s
            history.weigh(1 + step.accepted, expected_s, step.verify_s + step.propose_s, self._pass_s(1))
        self._last_drafter = drafter

    def _history(self, drafter: str) -> DrafterHistory:
        if drafter not in self._histories:
            confidence = self._learned.get(drafter, Confidence()).faded()
            self._learned[drafter] = confidence
            token_s, once_s = self._token_s.get(drafter, 0.0), self._once_s.get(drafter, 0.0)
            plain_s, pass_s = self._calibrated_s(1, 1), self._calibrated_s(1 + PRIOR_LENGTH, 1)
            self._histories[drafter] = DrafterHistory(plain_s, pass_s, self._prior_tokens, token_s, confidence, once_s)
        return self._histories[drafter]

    def _slowdown(self, branches: int = 1) -> float:
        """How many times as long as calibrated this run's passes take: chains, or trees."""
        if self._medians is None:
            chains, trees = self._slowdowns
            of_chains = middle(chains or trees) if chains or trees else 1.0
            self._medians = of_chains, middle(trees) if trees else of_chains
        return self._medians[branches > 1]

    def _pass_s(self, rows: int, branches: int = 1) -> float:
        """Seconds of a pass as this run's passes go."""
        return self._slowdown(branches) * self._calibrated_s(rows, branches)

    def _rows_s(self) -> list[float]:
        """Calibrated seconds that a further row adds to a pass with 1 to `PRICED` drafted: the least mean of the next few, since
        where rows are computed in groups one may be dear and those behind it cheap."""
        as_priced = self._calibrated_s(1, 1), self._calibrated_s(1 + PRICED, 1)  # in a batch they change
        if as_priced != self._prices[0]:
            pass_s = [self._calibrated_s(1 + drafted, 1) for drafted in range(PRICED + SLOPE_ROWS + 1)]
            further = range(1, SLOPE_ROWS + 1)
            prices = [min((pass_s[n + more] - pass_s[n]) / more for more in further) for n in range(1, PRICED + 1)]
            self._prices = as_priced, prices
        return self._prices[1]

    def _rate(self, drafter: str) -> float:
        """Tokens per second of this drafter's recent drafts; never less than naive's."""
        return max(self._history(drafter).rate(self._slowdown()), 1 / self._pass_s(1))


DraftLength = FixedLength | AdaptiveLength


def reaches(draft: Draft, chance: Callable[[str, float], float]) -> list[float]:
    """The chance that each row is reached and accepted: the product of the chances down to it."""
    reach: list[float] = []
    for row, parent in enumerate(draft.parents[: draft.tested]):
        accepted = chance(draft.sources[row], draft.chances[row] if draft.chances else UNSTATED)
        reach.append(accepted * (reach[parent] if parent >= 0 else 1.0))
    return reach


def _best_chain(draft: Draft, chances: list[float], rows: list[int]) -> list[int]:
    """Of these rows, the path from the root that follows the likeliest child."""
    path, node = [], -1
    while below := [row for row in rows if draft.parents[row] == node]:
        node = max(below, key=lambda row: chances[row])
        path.append(node)
    return path
