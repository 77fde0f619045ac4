"""The draft length policy of `auto`, which maximizes expected tokens per second.

`AdaptiveLength` compares the chance that a drafted token is accepted with the cost of its row and of drafting it. The chance
is the drafter's confidence, corrected by the acceptance so far at the same position of a draft. Costs are measured before
the run, so a repeated run drafts the same tokens. A source that loses time is paused, and probed less and less often.
"""

from collections.abc import Callable, Mapping
from itertools import accumulate
from operator import truediv

from ..core.events import ACCEPTED, REJECTED, Draft, Step
from ..core.policy import DEFAULT_CONFIDENCE, DraftCost, DraftPolicy, StopRule, reach_probabilities
from ..core.tree import branch_count, depths

CEILING = 0.99  # highest corrected confidence
POSITIONS = 8  # positions of a draft that are counted; the last one includes all deeper tokens
PRIOR_TESTS = 16.0  # weight of the drafter's confidence in tests
PRIOR_AT_POSITION = 4.0  # weight of the overall acceptance in tests
TEST_DECAY, PASS_DECAY = 0.97, 0.95  # weight of earlier passes relative to the newest
PRIOR_PASSES, PRIOR_LENGTH = 4.0, 2  # weight of `DraftCost.tokens` in passes, and the length of their drafts
MIN_SPEEDUP = 1.03  # a source with a lower recent speedup is paused
CHEAP = 0.03  # drafting that costs less, in passes, is not paused, because trimming is enough
FIRST_PAUSE, LONGEST_PAUSE = 8, 128  # passes until the next probe
PROBE_TOKENS = 2
LOSS_SHARE, MAX_GAINED = 0.02, 3.0  # share of the time that probes may lose; most gained passes that offset losses
SLOPE_ROWS = 4  # rows over which the cost of a row is averaged, because some processors compute rows in groups
PassSeconds = Callable[[int, int], float]  # of a target pass, by rows and branches


class SourceHistory:
    """The history of one source: corrections of its confidence, and its speedup. A source with `cost` None is a lookup."""

    def __init__(self, cost: DraftCost | None, pass_s: PassSeconds):
        self.cost, self._looked_up, self._pass_s = cost or DraftCost(), cost is None, pass_s
        self._accepted, self._expected, self._tested = [0.0] * POSITIONS, [0.0] * POSITIONS, 0.0
        prior_s = pass_s(1 + PRIOR_LENGTH, 1) + self.cost.draft_s(PRIOR_LENGTH)
        self._tokens, self._seconds = PRIOR_PASSES * self.cost.tokens, PRIOR_PASSES * prior_s
        self._skipped, self._pause = 0, FIRST_PAUSE
        # Time that drafts lost, in passes without a draft.
        self._lost = max(0.0, prior_s / self.naive_s - self.cost.tokens)
        self._correct()

    @property
    def naive_s(self) -> float:
        """Seconds of a pass without a draft."""
        return self._pass_s(1, 1)

    @property
    def rate(self) -> float:
        """Tokens per second of passes with its drafts."""
        return self._tokens / self._seconds

    @property
    def costs_time(self) -> bool:
        """Whether a pause saves time. A lookup is nearly free unless many texts share a pass."""
        return not self._looked_up or self.cost.draft_s(1) > CHEAP * self.naive_s

    @property
    def unprofitable(self) -> bool:
        """Whether passes with its drafts are no faster than passes without."""
        return self.costs_time and self.rate * self.naive_s <= MIN_SPEEDUP

    def chance(self, confidence: float, depth: int) -> float:
        """Return the chance that a token at this depth is accepted if its parent is."""
        return min(CEILING, self.corrections[min(depth, POSITIONS) - 1] * confidence)

    def should_pause(self) -> bool:
        """Return whether to draft nothing in this pass, because drafts lose time and no probe is due."""
        if not self.unprofitable:
            return False
        self._skipped += 1
        if self._skipped <= max(self._pause, self._lost / LOSS_SHARE):
            return True
        self._skipped, self._pause = 0, min(2 * self._pause, LONGEST_PAUSE)
        return False

    def count_tests(self, step: Step, source: str) -> None:
        """Update the acceptance with the tested tokens of this source in a pass."""
        for counts in (self._accepted, self._expected):
            counts[:] = [TEST_DECAY * count for count in counts]
        self._tested *= TEST_DECAY
        draft = step.draft
        for row, depth in enumerate(depths(draft.parents[: draft.tested])):
            if draft.sources[row] == source and step.statuses[row] in (ACCEPTED, REJECTED):
                position = min(depth, POSITIONS) - 1
                self._accepted[position] += step.statuses[row] == ACCEPTED
                self._expected[position] += draft.chances[row] if draft.chances else DEFAULT_CONFIDENCE
                self._tested += 1
        self._correct()

    def _correct(self) -> None:
        """Update the ratios of accepted tokens to the sum of their confidences: overall, and at each position."""
        accepted, expected = sum(self._accepted), sum(self._expected)
        overall = (accepted + PRIOR_TESTS) / (expected + PRIOR_TESTS)
        by_position = zip(self._accepted, self._expected, strict=True)
        self.corrections = [(a + PRIOR_AT_POSITION * overall) / (e + PRIOR_AT_POSITION) for a, e in by_position]
        self.acceptance = (accepted + DEFAULT_CONFIDENCE * PRIOR_AT_POSITION) / (self._tested + PRIOR_AT_POSITION)

    def count_pass(self, tokens: int, seconds: float) -> None:
        """Update the rate and the lost time with a pass that emitted `tokens` tokens in `seconds`."""
        self._tokens = PASS_DECAY * self._tokens + tokens
        self._seconds = PASS_DECAY * self._seconds + seconds
        lost = seconds / self.naive_s - tokens
        self._lost = max(-MAX_GAINED, self._lost + lost)
        if lost < 0:
            self._pause = FIRST_PAUSE


class AdaptiveLength(DraftPolicy):
    """Draft the length that maximizes expected tokens per second, up to `longest`. A source without `costs` is a lookup."""

    def __init__(self, pass_s: PassSeconds, longest: int, costs: Mapping[str, DraftCost] | None = None):
        self._pass_s, self.longest, self._costs = pass_s, longest, costs or {}
        self._histories: dict[str, SourceHistory] = {}
        self._eligible: set[str] = set()  # sources that may draft in this pass

    def limit(self, source):
        history = self._history(source)
        if history.should_pause():
            return 0
        self._eligible.add(source)
        return PROBE_TOKENS if history.unprofitable else self.longest

    def stop_rule(self, source):
        # One more token must gain more than the cost of its row and of drafting it.
        history = self._history(source)
        needed_rate = self._rate(source) / history.acceptance
        floors, correction = [], 1.0
        for drafted, factor in enumerate(history.corrections, start=1):
            correction *= factor
            floors.append(needed_rate * (history.cost.token_s + self._row_s(drafted)) / correction)
        return StopRule(floors)

    def expected_speedup(self, draft):
        return self._speedup(self.trim(draft))

    def recent_speedup(self, source):
        return self._rate(source) * self._pass_s(1, 1)

    def trim(self, draft):
        # The likeliest rows stay while they gain more than they cost. Sampled tokens all stay, because a choice by the
        # sampled token would change the distribution of the text.
        if not draft.tested or draft.window or draft.q is not None:
            return draft
        chances = self.reaches(draft)
        likeliest = sorted(range(len(draft)), key=lambda row: (-chances[row], row))
        tokens = [*accumulate((chances[row] for row in likeliest), initial=1.0)]  # expected per pass, by drafted rows
        seconds = [self._pass_s(1 + count, 1) for count in range(len(tokens))]
        # A second is valued at the rate of recent drafts. For a lookup, the rate of this draft counts if it is higher.
        rate = self._rate(draft.sources[0])
        if draft.sources[0] not in self._costs:
            rate = max(rate, *map(truediv, tokens, seconds))
        gains = [count - rate * pass_s for count, pass_s in zip(tokens, seconds, strict=True)]
        rows = sorted(likeliest[: gains.index(max(gains))])
        trimmed = draft.pruned(rows)
        if branch_count(trimmed.parents) == 1:
            return trimmed
        # Branches have an extra cost. They stay if the tree is faster than the best chain alone.
        return max(trimmed, draft.pruned(_best_chain(draft, chances, rows)), key=self._speedup)

    def reaches(self, draft: Draft) -> list[float]:
        """Return the chance of each row to be accepted together with its ancestors."""
        return reach_probabilities(draft, lambda source, p, depth: self._history(source).chance(p, depth))

    def draft_s(self, draft):
        # A draft that was trimmed to nothing takes time too.
        depth, used = max(depths(draft.parents), default=0), {*draft.sources}
        tried = {source: self._history(source).cost for source in used | self._eligible}
        return max((cost.draft_s(depth if source in used else 1) for source, cost in tried.items()), default=0.0)

    def observe(self, step):
        draft, histories = step.draft, {source: self._history(source) for source in {*step.draft.sources}}
        for source, history in histories.items():
            history.count_tests(step, source)
        # The pass counts for the source whose drafts take the most time, even if it proposed nothing.
        idle = {source: self._history(source) for source in self._eligible}
        counted = histories or {source: history for source, history in idle.items() if history.costs_time}
        if counted:
            _, history = max(counted.items(), key=lambda item: (item[1].cost.draft_s(1), item[0]))
            draft_s = history.cost.draft_s(max(depths(draft.parents), default=0))
            history.count_pass(1 + step.accepted, self._verify_s(draft) + draft_s)
        self._eligible.clear()

    def _history(self, source: str) -> SourceHistory:
        if source not in self._histories:
            self._histories[source] = SourceHistory(self._costs.get(source), self._pass_s)
        return self._histories[source]

    def _rate(self, source: str) -> float:
        """Return the tokens per second of recent drafts, or of naive decoding if that is faster."""
        return max(self._history(source).rate, 1 / self._pass_s(1, 1))

    def _speedup(self, draft: Draft) -> float:
        return (1 + sum(self.reaches(draft))) / self._verify_s(draft) * self._pass_s(1, 1)

    def _verify_s(self, draft: Draft) -> float:
        return self._pass_s(1 + len(draft), branch_count(draft.parents))

    def _row_s(self, drafted: int) -> float:
        """Return the seconds that one more row adds to a pass with `drafted` drafted rows."""
        extra = range(1, SLOPE_ROWS + 1)
        return min((self._pass_s(1 + drafted + n, 1) - self._pass_s(1 + drafted, 1)) / n for n in extra)


def _best_chain(draft: Draft, chances: list[float], rows: list[int]) -> list[int]:
    """Return the path from the root through these rows that follows the likeliest child."""
    path, node = [], -1
    while below := [row for row in rows if draft.parents[row] == node]:
        node = max(below, key=lambda row: chances[row])
        path.append(node)
    return path
