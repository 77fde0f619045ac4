"""The draft length policy: how much to draft in a pass.

`FixedLength` drafts a given number of tokens. `AdaptiveLength` maximizes expected tokens per second. It compares the chance
that a drafted token is accepted with the cost of its row and of its drafting. The chance is the drafter's confidence,
calibrated by the tokens accepted so far in this run. Costs are seconds measured before the run. The run's own clock is never
read, so the same run always drafts the same tokens. A drafter whose drafts lose time pauses and is probed less and less often.

Both have the same methods, and both return the value of drafting as a speedup: tokens per time of an ordinary pass. A
drafter is identified by its name in `Draft.sources`.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from itertools import accumulate
from operator import truediv

from ..core.events import Draft, Step
from ..core.tree import branch_count, depths
from ..model.chain import Ending
from .history import PRIOR_LENGTH, PRIOR_TOKENS, UNSTATED, DrafterHistory, Lookups

LEAST_SPEEDUP = 1.03  # what a drafter's recent drafts must have brought to go on
SLOPE_ROWS = 4  # over so many further rows at most the price of a row is taken
PRICED = 8  # drafted tokens behind which the price of another is its own
LOOKUP_S = 30e-6  # seconds of a lookup: the same at token 100 and at token 10,000, and much the same on all processors


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

    def draft_s(self, draft: Draft) -> float:
        """Expected seconds of drafting it: not counted at a fixed length."""
        return 0.0

    def observe(self, step: Step) -> None:
        """Learn from a pass: nothing."""


class AdaptiveLength:
    """The draft length that maximizes expected tokens per second.

    `pass_s(rows, branches)` returns the seconds of a target pass, and `longest` limits the depth of a draft. By drafter,
    `token_s` holds the seconds of each drafted token and `once_s` the further seconds of a draft of any length; a drafter
    that is in neither looks its drafts up. First drafts are expected to emit `prior_tokens` per pass.
    """

    def __init__(
        self, pass_s: Callable[[int, int], float], longest: int, token_s: Mapping[str, float] | None = None,
        once_s: Mapping[str, float] | None = None, prior_tokens: float = PRIOR_TOKENS,
    ):  # fmt: skip
        self._pass_s, self.longest = pass_s, longest
        self._prices: tuple[tuple[float, float], list[float]] = (0.0, 0.0), []  # of rows, and of which passes they are
        self._histories: dict[str, DrafterHistory] = {}
        self._prior_tokens = prior_tokens
        self._token_s, self._once_s = token_s or {}, once_s or {}
        self._lookups: dict[str, Lookups] = {}
        self._looked_up: str | None = None  # the drafter that has looked something up in this pass

    def limit(self, drafter: str) -> int:
        """The longest draft worth beginning: 0 for a drafter that loses time, but for rare probes."""
        history = self._history(drafter)
        if history.rests:
            return history.probe()
        history.loses = history.rate * self._pass_s(1, 1) <= LEAST_SPEEDUP
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
        history = self._history(drafter)
        rate = self._rate(drafter) / history.confidence.acceptance
        return [rate * (history.token_s + row_s) for row_s in self._rows_s()]

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
        seconds = [self._pass_s(1 + count, 1) for count in range(len(tokens))]
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
        return (1 + sum(reaches(draft, self.chance))) / seconds * self._pass_s(1, 1)

    def recent_speedup(self, drafter: str) -> float:
        """What this drafter's drafts have been bringing; never less than naive decoding."""
        return self._rate(drafter) * self._pass_s(1, 1)

    def adds(self, draft: Draft, drafter: str) -> bool:
        """Whether this drafter's draft is worth its time beside that of another, which costs nothing: where the other fails
        at once, it brings what it has been bringing."""
        failing = 1 - self.chance(draft.sources[0], draft.chances[0] if draft.chances else UNSTATED)
        cost = self._history(drafter).first_s / self._pass_s(1, 1)
        return failing * (self.recent_speedup(drafter) - 1) > cost

    def draft_s(self, draft: Draft) -> float:
        """Expected seconds of drafting it."""
        took = max((self._history(name).draft_s(max(depths(draft.parents))) for name in {*draft.sources}), default=0.0)
        return took or LOOKUP_S

    def observe(self, step: Step) -> None:
        """Learn from a pass: which tokens were accepted, and what its draft gained for its expected time."""
        rows, branches = 1 + len(step.draft), branch_count(step.draft.parents)
        drafters = [*dict.fromkeys(step.draft.sources)]
        if self._looked_up and drafters in ([], [self._looked_up]):
            added = self._pass_s(rows, branches) / self._pass_s(1, 1) - 1
            self._lookups[self._looked_up].count(step.accepted - added, LOOKUP_S / self._pass_s(1, 1))
        self._looked_up = None
        for drafter in drafters:
            self._history(drafter).confidence.count(step, drafter)
        # If two have drafted, the pass counts for the one whose drafts take time.
        if drafter := max(drafters, key=lambda name: self._history(name).first_s, default=None):
            history = self._history(drafter)
            seconds = self._pass_s(rows, branches) + history.draft_s(max(depths(step.draft.parents)))
            history.count(1 + step.accepted, seconds, self._pass_s(1, 1))

    def _history(self, drafter: str) -> DrafterHistory:
        if drafter not in self._histories:
            token_s, once_s = self._token_s.get(drafter, 0.0), self._once_s.get(drafter, 0.0)
            plain_s, pass_s = self._pass_s(1, 1), self._pass_s(1 + PRIOR_LENGTH, 1)
            self._histories[drafter] = DrafterHistory(plain_s, pass_s, self._prior_tokens, token_s, once_s)
        return self._histories[drafter]

    def _rows_s(self) -> list[float]:
        """Seconds that a further row adds to a pass with 1 to `PRICED` drafted: the least mean of the next few, since
        where rows are computed in groups one may be dear and those behind it cheap."""
        as_priced = self._pass_s(1, 1), self._pass_s(1 + PRICED, 1)  # in a batch they change
        if as_priced != self._prices[0]:
            pass_s = [self._pass_s(1 + drafted, 1) for drafted in range(PRICED + SLOPE_ROWS + 1)]
            further = range(1, SLOPE_ROWS + 1)
            prices = [min((pass_s[n + more] - pass_s[n]) / more for more in further) for n in range(1, PRICED + 1)]
            self._prices = as_priced, prices
        return self._prices[1]

    def _rate(self, drafter: str) -> float:
        """Tokens per second of this drafter's recent drafts; never less than naive's."""
        return max(self._history(drafter).rate, 1 / self._pass_s(1, 1))


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
