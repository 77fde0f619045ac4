"""A batch: several texts share every pass.

The loop is the same as in `decode`. Every text has its own drafter, draft length, rule and end. Its tokens are the same
as without a batch. A pass with many rows is compute-bound, so drafts compete for rows. The likeliest rows stay while
they increase the tokens per second of the batch.
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
from .draft_length import DEFAULT_CONFIDENCE, PRIOR_LENGTH, AdaptiveLength
from .lane import Lane

MAX_TEXTS = 256
PROBE_BUDGET = 0.02  # share of the time that may be lost with unprofitable drafts
DECAY = 0.9  # weight of earlier passes with drafts, relative to the newest
LONGEST_PAUSE = 128  # passes until the next probe
PassSeconds = Callable[[int, int, int], float]  # of a pass, by all rows, branches, and the most rows of one text


@dataclass(frozen=True, slots=True)
class Pass:
    """One pass of a batch: its seconds, and the step of each text by number. A step's `verify_s` is the share of its text."""

    steps: Mapping[int, Step]
    seconds: float

    @property
    def tokens(self) -> int:
        return sum(len(step.emitted) for step in self.steps.values())

    @property
    def rows(self) -> int:
        return sum(1 + len(step.draft) for step in self.steps.values())


class SharedCost:
    """The cost of a text's rows in a shared pass: its share of a pass without drafts, plus the full cost of extra rows.

    Optimizing each text on this marginal cost optimizes the batch.
    """

    def __init__(self, pass_s: PassSeconds):
        self._pass_s, self._cached = pass_s, lru_cache(maxsize=512)(self._seconds)
        self.texts, self._others = 1, 0

    def share(self, texts: int, rows: int) -> None:
        """Set the number of texts per pass, and the `rows` of the last pass: at least one per text."""
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
    """Decide whether a batch drafts: always if recent drafts gained time, else in probes that lose `PROBE_BUDGET` of the time.

    It counts expected seconds, so a batch drafts the same tokens in every run.
    """

    def __init__(self, pass_s: PassSeconds):
        self._pass_s, self._paused = pass_s, 0  # passes since the last one with drafts
        self._lost = 0.0  # time that passes with drafts lost, in passes without
        self._weight, self._prior = 0.0, 1.0  # weight of these passes, and of the initial estimate

    def due(self, texts: int) -> bool:
        """Return whether to draft in the next pass of `texts` texts. A single text pauses by its own policy."""
        expected = self._pass_s(texts * (1 + PRIOR_LENGTH), 1, 1) / self._pass_s(texts, 1, 1) - EXPECTED_TOKENS
        lost = (self._lost + self._prior * expected) / (self._weight + self._prior)
        self._paused += 1
        if texts > 1 and self._paused <= min(lost / PROBE_BUDGET, LONGEST_PAUSE):
            return False
        self._paused = 0
        return True

    def count(self, texts: int, passed: Pass, drafting_s: float) -> None:
        """Count a pass with drafts. `drafting_s` is the expected time of drafting."""
        lost = (drafting_s + self._pass_s(passed.rows, 1, 1)) / self._pass_s(texts, 1, 1) - passed.tokens / texts
        self._lost, self._weight = DECAY * self._lost + lost, DECAY * self._weight + 1
        self._prior *= DECAY


class Batch:
    """Lanes of one family that share every pass, `at_once` of them at a time (None: all). When a text ends, the next begins.

    Iterate over the passes. Reading a prompt is a pass of one text. Iteration may be closed at any pass. Raises
    `SettingsError` for no lanes, for too many, and for an external generator.
    """

    def __init__(self, lanes: Sequence[Lane], at_once: int | None = None):
        self._at_once = len(lanes) if at_once is None else at_once
        whole_number("texts", self._at_once, 1, MAX_TEXTS)
        for lane in lanes:
            if not lane.reports_drafts:
                hint = "it runs its own loop, which writes one text at a time."
                raise SettingsError("method", lane.method, hint)
        self._lanes, self._batches = lanes, lanes[0].models.target.batches
        self._drafting = workers(self._at_once) if self._batches and any(lane.draft for lane in lanes) else 1
        self._cost = SharedCost(self.pass_s)
        self._gate = DraftGate(self.pass_s)

    def pass_s(self, rows: int, branches: int = 1, longest: int = 1) -> float:
        """Return the seconds of a pass: those of the core with most rows. A text has at most `longest` rows, all on one core."""
        core_rows = max(longest, ceil(rows / workers(self._cost.texts))) if self._batches else rows
        return self._lanes[0].costs.pass_s(core_rows, branches)

    def __iter__(self) -> Iterator[Pass]:
        waiting, requests, rows = list(enumerate(self._lanes)), {}, 1
        while waiting or requests:
            while waiting and len(requests) < self._at_once:
                number, lane = waiting.pop(0)
                request = requests[number] = lane.request(self._cost, self._drafting)
                step = request.prefill()
                yield Pass({number: step}, step.seconds)
            self._cost.share(len(requests), max(rows, len(requests)))
            passed = self._pass(requests)
            rows = passed.rows
            requests = {number: request for number, request in requests.items() if request.finish is None}
            yield passed

    def _propose(self, requests: Sequence[Request]) -> None:
        """Draft for the texts, with models on all cores. The seconds of a text are its share of the total time."""
        if min(len(requests), self._drafting) == 1:
            for request in requests:
                request.propose()
            return
        begin = perf_counter()
        map_parallel(lambda group: [requests[number].propose() for number in group], balanced([1] * len(requests)))
        share = (perf_counter() - begin) / sum(request.propose_s for request in requests)
        for request in requests:
            request.propose_s *= share

    def _pass(self, by_number: Mapping[int, Request]) -> Pass:
        begin, requests = perf_counter(), [*by_number.values()]
        adaptive = [request for request in requests if isinstance(request.policy, AdaptiveLength)]
        drafts = len(adaptive) < len(requests) or self._gate.due(len(requests))
        if drafts:
            self._propose(requests)
            drafting_s = sum(request.policy.draft_s(request.draft) for request in requests)
            if len(requests) > 1:
                compete([request for request in adaptive if not request.draft.window], len(requests), self.pass_s)
        else:
            for request in requests:
                request.skip_drafting()
        proposed = perf_counter()
        target = self._lanes[0].models.target
        logits = target.forward_batch([request.target for request in requests], [request.rows for request in requests])
        verified = perf_counter()
        costs = [self._cost(1 + len(request.draft), branch_count(request.draft.parents)) for request in requests]
        scale = (verified - proposed) / sum(costs)
        results = zip(by_number.items(), logits, costs, strict=True)
        steps = {number: request.verify_and_commit(part, scale * cost) for (number, request), part, cost in results}
        passed = Pass(steps, perf_counter() - begin)
        if drafts:
            self._gate.count(len(requests), passed, drafting_s)
        return passed


def compete(requests: Sequence[Request], roots: int, pass_s: PassSeconds) -> None:
    """Reduce the drafts to the likeliest rows of all texts that gain time in a pass with `roots` roots."""
    chances = [_chances(request.draft, request.policy) for request in requests]
    offers = sorted((-chance, text, row) for text, by_row in enumerate(chances) for row, chance in enumerate(by_row))
    branches = max((branch_count(request.draft.parents) for request in requests), default=1)
    tokens, best, kept_rows, longest = float(roots), roots / pass_s(roots, 1, 1), 0, 1
    request_rows = [1] * len(requests)
    for count, (chance, number, _) in enumerate(offers, start=1):
        tokens -= chance
        request_rows[number] += 1
        longest = max(longest, request_rows[number])
        rate = tokens / pass_s(roots + count, branches, longest)
        if rate > best:
            best, kept_rows = rate, count
    rows: list[list[int]] = [[] for _ in requests]
    for _, number, row in offers[:kept_rows]:
        rows[number].append(row)
    for request, kept in zip(requests, rows, strict=True):
        if len(kept) < len(request.draft):
            request.draft = request.draft.pruned(sorted(kept))


def _chances(draft: Draft, policy: AdaptiveLength) -> list[float]:
    """Return the chance that each row is accepted."""
    if draft.q is None:
        return policy.reaches(draft)
    # The chance of a sampled row depends only on its depth. A choice by the sampled token would change the distribution.
    return [DEFAULT_CONFIDENCE**depth for depth in depths(draft.parents[: draft.tested])]
