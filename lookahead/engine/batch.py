"""A batch: several texts advance together, with one pass for the rows of all of them.

It is the loop of `decode` for all texts that have not ended. Every text has its own drafter, draft length, rule and end,
and gets the tokens that it would get alone. A pass with many rows is compute-bound, so drafts compete for rows: the
likeliest stay, as long as they bring more tokens than time.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from math import ceil
from time import perf_counter

from ..core.events import Draft, SettingsError, Step, whole_number
from ..core.parallel import balanced, map_parallel, workers
from ..core.policy import EXPECTED_TOKENS
from ..core.tree import branch_count, depths
from .decode import Request
from .draft_length import PRIOR_LENGTH, UNSTATED, AdaptiveLength
from .lane import Lane

MOST_TEXTS = 256
PROBE_BUDGET = 0.02  # share of the time that unprofitable drafts may take
FADING = 0.9  # weight of earlier passes with drafts against the newest
LONGEST_REST = 128  # passes until texts are asked again
PassSeconds = Callable[[int, int, int], float]  # of so many rows in so many branches, the most of them one text's


@dataclass(frozen=True, slots=True)
class Pass:
    """One pass of a batch: the step of each text in it, by number, and its seconds. A step's `verify_s` is the text's share."""

    steps: Mapping[int, Step]
    seconds: float

    @property
    def tokens(self) -> int:
        return sum(len(step.emitted) for step in self.steps.values())

    @property
    def rows(self) -> int:
        return sum(1 + len(step.draft) for step in self.steps.values())


class SharedCost:
    """What rows cost one of `texts` that share a pass: its part of a pass without drafts, and all that further rows add.

    Optimizing each text on this marginal cost optimizes the batch.
    """

    def __init__(self, pass_s: PassSeconds):
        self._pass_s, self._cached = pass_s, lru_cache(maxsize=512)(self._seconds)
        self.texts, self._others = 1, 0

    def share(self, texts: int, rows: int) -> None:
        """Set how many texts share a pass, which last had so many rows, at least one each."""
        others = round(rows * (texts - 1) / texts)
        if (texts, others) != (self.texts, self._others):
            self.texts, self._others = texts, others
            self._cached.cache_clear()

    def __call__(self, rows: int, branches: int = 1) -> float:
        return self._cached(rows, branches)

    def _seconds(self, rows: int, branches: int) -> float:
        without = self._pass_s(self._others + 1, 1, 1)
        return without / self.texts + self._pass_s(self._others + rows, branches, rows) - without


class DraftGate:
    """Whether to ask the texts of a batch for drafts: always if recent passes gained by it, else for `PROBE_BUDGET` of the time.

    All is counted in expected seconds, so a batch drafts the same tokens every time.
    """

    def __init__(self, pass_s: PassSeconds):
        self._pass_s, self._rested = pass_s, 0
        self._lost = 0.0  # ordinary passes, by those in which texts were asked
        self._weight, self._prior = 0.0, 1.0  # of these, and of the one that is expected

    def due(self, texts: int) -> bool:
        """Whether to ask so many texts now. A single text pauses by its own policy."""
        expected = self._pass_s(texts * (1 + PRIOR_LENGTH), 1, 1) / self._pass_s(texts, 1, 1) - EXPECTED_TOKENS
        lost = (self._lost + self._prior * expected) / (self._weight + self._prior)
        self._rested += 1
        if texts > 1 and self._rested <= min(lost / PROBE_BUDGET, LONGEST_REST):
            return False
        self._rested = 0
        return True

    def count(self, texts: int, passed: Pass, asking_s: float) -> None:
        """Count a pass with drafts, whose drafting is expected to take `asking_s`."""
        lost = (asking_s + self._pass_s(passed.rows, 1, 1)) / self._pass_s(texts, 1, 1) - passed.tokens / texts
        self._lost, self._weight = FADING * self._lost + lost, FADING * self._weight + 1
        self._prior *= FADING


class Batch:
    """Lanes of one family, whose texts are written together, `at_once` of them (None: all); when one ends, the next begins.

    Iterate for passes; reading a prompt is a pass of one text. May be closed at any pass. Raises `SettingsError` for none,
    too many, and for a lane that runs a loop of its own.
    """

    def __init__(self, lanes: Sequence[Lane], at_once: int | None = None):
        self._at_once = len(lanes) if at_once is None else at_once
        whole_number("texts", self._at_once, 1, MOST_TEXTS)
        for lane in lanes:
            if not lane.reports_drafts:
                hint = "it runs a loop of its own, which writes one text at a time."
                raise SettingsError("method", lane.method, hint)
        self._lanes, self._batches = lanes, lanes[0].models.target.batches
        self._drafting = workers(self._at_once) if self._batches and any(lane.draft for lane in lanes) else 1
        self._cost = SharedCost(self.pass_s)
        self._gate = DraftGate(self.pass_s)

    def pass_s(self, rows: int, branches: int = 1, longest: int = 1) -> float:
        """Seconds of a pass: those of the core with most rows. A text has at most `longest` rows and is on one core."""
        on_one = max(longest, ceil(rows / workers(self._cost.texts))) if self._batches else rows
        return self._lanes[0].costs.pass_s(on_one, branches)

    def __iter__(self) -> Iterator[Pass]:
        waiting, texts, rows = list(enumerate(self._lanes)), {}, 1
        while waiting or texts:
            while waiting and len(texts) < self._at_once:
                number, lane = waiting.pop(0)
                text = texts[number] = lane.text(self._cost, self._drafting)
                step = text.read()
                yield Pass({number: step}, step.seconds)
            self._cost.share(len(texts), max(rows, len(texts)))
            passed = self._pass(texts)
            rows = passed.rows
            texts = {number: text for number, text in texts.items() if text.finish is None}
            yield passed

    def _propose(self, texts: Sequence[Request]) -> None:
        """Draft for the texts, with models on all cores; a text's seconds are then its share of what that took."""
        if min(len(texts), self._drafting) == 1:
            for text in texts:
                text.propose()
            return
        begin = perf_counter()
        map_parallel(lambda group: [texts[number].propose() for number in group], balanced([1] * len(texts)))
        share = (perf_counter() - begin) / sum(text.propose_s for text in texts)
        for text in texts:
            text.propose_s *= share

    def _pass(self, by_number: Mapping[int, Request]) -> Pass:
        begin, texts = perf_counter(), [*by_number.values()]
        adaptive = [text for text in texts if isinstance(text.policy, AdaptiveLength)]
        asks = len(adaptive) < len(texts) or self._gate.due(len(texts))
        if asks:
            self._propose(texts)
            drafting_s = sum(text.policy.draft_s(text.draft) for text in texts)
            if len(texts) > 1:
                compete([text for text in adaptive if not text.draft.window], len(texts), self.pass_s)
        else:
            for text in texts:
                text.skip_drafting()
        proposed = perf_counter()
        target = self._lanes[0].models.target
        logits = target.together([text.target for text in texts], [text.rows for text in texts])
        verified = perf_counter()
        costs = [self._cost(1 + len(text.draft), branch_count(text.draft.parents)) for text in texts]
        second = (verified - proposed) / sum(costs)
        answered = zip(by_number.items(), logits, costs, strict=True)
        steps = {number: text.verify_and_commit(part, second * cost) for (number, text), part, cost in answered}
        passed = Pass(steps, perf_counter() - begin)
        if asks:
            self._gate.count(len(texts), passed, drafting_s)
        return passed


def compete(texts: Sequence[Request], roots: int, pass_s: PassSeconds) -> None:
    """Cut the drafts of some texts to the rows that pay in a pass of so many roots: the likeliest of all."""
    chances = [_chances(text.draft, text.policy) for text in texts]
    offers = sorted(
        (-chance, number, row) for number, by_row in enumerate(chances) for row, chance in enumerate(by_row)
    )
    branches = max((branch_count(text.draft.parents) for text in texts), default=1)
    tokens, best, stay, longest = float(roots), roots / pass_s(roots, 1, 1), 0, 1
    of_text = [1] * len(texts)
    for count, (chance, number, _) in enumerate(offers, start=1):
        tokens -= chance
        of_text[number] += 1
        longest = max(longest, of_text[number])
        rate = tokens / pass_s(roots + count, branches, longest)
        if rate > best:
            best, stay = rate, count
    rows: list[list[int]] = [[] for _ in texts]
    for _, number, row in offers[:stay]:
        rows[number].append(row)
    for text, kept in zip(texts, rows, strict=True):
        if len(kept) < len(text.draft):
            text.draft = text.draft.pruned(sorted(kept))


def _chances(draft: Draft, policy: AdaptiveLength) -> list[float]:
    """The chance that each row is accepted."""
    if draft.q is None:
        return policy.reaches(draft)
    # Sampled rows are judged by their depth alone: a row dropped because of what was drawn would change the distribution.
    return [UNSTATED**depth for depth in depths(draft.parents[: draft.tested])]
