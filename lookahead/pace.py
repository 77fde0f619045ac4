"""How much to draft next: a fixed number, or whatever has been paying lately.

`Auto` maximises expected tokens per second from three measurements: how often drafts were
accepted in this run (recent ones count more), what a drafted token cost, and what this machine
asks for a pass of so many rows (scaled to how its passes are going in this run). It may answer 0; then it asks again rarely, and less and less
often, so that a hopeless draft costs nothing but those probes.

Knows counts and seconds. It does not know who drafts, or what.
"""

from __future__ import annotations

from collections.abc import Callable

from .events import REJECTED, Step
from .theory import expected_tokens
from .tree import depths

MEMORY = 0.9  # weight of the past against the newest step
PRIOR, PRIOR_WEIGHT = 0.7, 2.0  # hopeful at first: a draft must be tried to be measured; fades like any step
PROBE = 2
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
        self._draft_s: float | None = None
        self._slower = 1.0  # passes of this run against the measured curve
        self._drafted_before = False
        self._idle, self._wait = 0, FIRST_WAIT

    @property
    def acceptance(self) -> float:
        """Estimated chance that a tested draft token is accepted."""
        return self._passed / self._tested

    def _rate(self, k: int) -> float:
        """Expected tokens per second when k tokens are drafted."""
        drafting = k * (self._draft_s or 0.0)
        return expected_tokens(self.acceptance, k) / (self._slower * self._pass_s(1 + k) + drafting)

    def budget(self) -> int:
        """Tokens to draft in the next pass."""
        best = max(range(self._most + 1), key=self._rate)
        if best:
            return best
        self._idle += 1
        if self._idle <= self._wait:
            return 0
        self._idle, self._wait = 0, min(2 * self._wait, LONGEST_WAIT)
        return PROBE

    def observe(self, step: Step) -> None:
        """Learn from a step."""
        ratio = step.verify_s / self._pass_s(1 + len(step.draft))
        self._slower = ratio if step.index == 1 else MEMORY * self._slower + (1 - MEMORY) * ratio
        if not len(step.draft):
            self._drafted_before = False
            return
        refused = REJECTED in step.statuses
        self._passed = MEMORY * self._passed + step.accepted
        self._tested = MEMORY * self._tested + step.accepted + refused
        if step.accepted:
            self._wait = FIRST_WAIT
        # The first draft after a pause also pays for what the drafter has not read yet.
        if self._drafted_before or self._draft_s is None:
            cost = step.propose_s / max(depths(step.draft.parents))
            self._draft_s = cost if self._draft_s is None else MEMORY * self._draft_s + (1 - MEMORY) * cost
        self._drafted_before = True
