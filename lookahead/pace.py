"""How much to draft next: a fixed number, or whatever has been paying lately.

`Auto` maximises expected tokens per second from three measurements: how often drafts were
accepted in this run (recent ones count more), what a drafted token cost, and what this machine
asks for a pass of so many rows (scaled to how its passes are going in this run). It may answer 0; then it asks again rarely, and less and less
often, so that a hopeless draft costs nothing but those probes.

Knows counts and seconds. It does not know who drafts, or what.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from statistics import median

from .events import REJECTED, Step
from .theory import expected_tokens
from .tree import depths

MEMORY = 0.95  # weight of the past against the newest step
RECENT = 9  # times are medians of so many: one slow pass must not stop the drafting
PRIOR, PRIOR_WEIGHT = 0.7, 2.0  # hopeful at first: a draft must be tried to be measured; fades like any step
FIRST, PROBE = 4, 2  # tokens drafted before anything is measured, and to see whether things have changed
FIRST_WAIT, LONGEST_WAIT = 8, 128


class Fixed:
    """Always the same draft length."""

    def __init__(self, k: int):
        self.k = k

    def budget(self) -> int:
        """Tokens to draft in the next pass."""
        return self.k

    def observe(self, step: Step) -> None:
        """Nothing to learn."""


class Auto:
    """The draft length that maximises expected tokens per second; `pass_s(rows)` is in seconds."""

    def __init__(self, pass_s: Callable[[int], float], most: int):
        self._pass_s, self._most = pass_s, most
        self._tested, self._passed = PRIOR_WEIGHT, PRIOR * PRIOR_WEIGHT
        self._draft_s: deque[float] = deque(maxlen=RECENT)  # seconds a drafted token
        self._slower: deque[float] = deque(maxlen=RECENT)  # passes of this run against the measured curve
        self._drafted_before = False
        self._idle, self._wait = 0, FIRST_WAIT

    @property
    def acceptance(self) -> float:
        """Estimated chance that a tested draft token is accepted."""
        return self._passed / self._tested

    def _best(self) -> int:
        """The length with the most expected tokens per second; the shorter of equals."""
        if not self._slower:
            return FIRST if self._pass_s(1 + FIRST) < 2 * self._pass_s(1) else 0
        draft_s = median(self._draft_s) if self._draft_s else 0.0
        slower = median(self._slower)
        alpha = self.acceptance

        def rate(k: int) -> float:
            return expected_tokens(alpha, k) / (slower * self._pass_s(1 + k) + k * draft_s)

        return max(range(self._most + 1), key=rate)

    def budget(self) -> int:
        """Tokens to draft in the next pass."""
        best = self._best()
        if best:
            return best
        self._idle += 1
        if self._idle <= self._wait:
            return 0
        self._idle, self._wait = 0, min(2 * self._wait, LONGEST_WAIT)
        return PROBE

    def observe(self, step: Step) -> None:
        """Learn from a step."""
        self._slower.append(step.verify_s / self._pass_s(1 + len(step.draft)))
        if not len(step.draft):
            self._drafted_before = False
            return
        refused = REJECTED in step.statuses
        self._passed = MEMORY * self._passed + step.accepted
        self._tested = MEMORY * self._tested + step.accepted + refused
        if step.accepted:
            self._wait = FIRST_WAIT
        # The first draft after a pause also pays for what the drafter has not read yet.
        if self._drafted_before or not self._draft_s:
            self._draft_s.append(step.propose_s / max(depths(step.draft.parents)))
        self._drafted_before = True
