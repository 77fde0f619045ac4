"""What a run has seen of one drafter: how far its confidence can be trusted, and what its drafts gain for their cost.

Old passes count less than new ones, so the counts follow a text that changes. `draft_length.AdaptiveLength` keeps one
`DrafterHistory` per drafter and run. No clock is read and nothing is kept for the next run, so a run can be repeated.
"""

from __future__ import annotations

from bisect import bisect
from collections.abc import Sequence

from ..core.events import ACCEPTED, REJECTED, Step
from ..model.chain import Ending

BIN_EDGES = (0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8, 0.9, 0.95, 0.98)  # tokens are counted by their confidence
BIN_MIDDLES = (0.05, 0.15, 0.25, 0.35, 0.45, 0.55, 0.65, 0.75, 0.85, 0.925, 0.965, 0.99)
CEILING = 0.99  # of a confidence, once corrected
NO_TESTS = (0.0,) * len(BIN_MIDDLES)
UNSTATED = 0.7  # confidence of a drafter that states none, and the acceptance expected before the first test
TEST_DECAY, DRAFT_DECAY = 0.97, 0.95  # weight of the past against the newest pass, of tests and of what drafts brought
PRIOR_TESTS = 4.0  # tests that the drafter's own confidence weighs
# The same for a correction of all its confidences alike. A few tokens that a match was right about say little of the next 28:
# over SmolLM2's 21 prompts `hybrid` rose from 2.34x to 2.38x on average as this did from 4 to 12 or 30, by passes and their prices.
PRIOR_CORRECTION = 16.0
PRIOR_TOKENS, PRIOR_DRAFTS = 1.8, 4.0  # tokens a pass that drafts are expected to bring, and drafts that this weighs
TREE_TOKENS = 2.2  # the same of a tree of a draft model, which also holds second choices of the target
HEADS_TOKENS = 2.4  # the same of a head, which was trained on this very target's hidden states
PRIOR_LENGTH = 2  # tokens of such a draft
PRIOR_GAIN = 0.2  # tokens that a lookup is expected to bring
LOOKUP_DECAY = 0.9  # weight of the past against the newest lookup
CHEAP = 0.03  # ordinary passes that a lookup may take whatever it brings
PROBE_TOKENS = 2  # drafted to see whether things have changed
FIRST_REST, LONGEST_REST = 8, 128  # passes until the next probe
LOOK_EVERY = 4  # passes after which it is asked again whether a drafter that rests would pay: passes may have changed
MOST_CREDIT = 3.0  # passes won that are remembered in a drafter's favour
LOSS_SHARE = 0.02  # of the passes until the next probe: what a drafter may lose by probes


class Confidence:
    """What a drafter's confidence means: of how many tested tokens of each confidence how many were accepted."""

    def __init__(self, tested: Sequence[float] = NO_TESTS, accepted: Sequence[float] = NO_TESTS):
        self._tested, self._accepted = list(tested), list(accepted)
        self._sum_up()

    def _sum_up(self) -> None:
        promised = sum(n * confidence for n, confidence in zip(self._tested, BIN_MIDDLES, strict=True))
        tested, accepted = sum(self._tested), sum(self._accepted)
        # Accepted, against what was promised.
        self._correction = (accepted + PRIOR_CORRECTION) / (promised + PRIOR_CORRECTION)
        self.acceptance = (accepted + UNSTATED * PRIOR_TESTS) / (tested + PRIOR_TESTS)  # share of the tested tokens
        counts = [(n + PRIOR_TESTS, ok) for n, ok in zip(self._tested, self._accepted, strict=True)]
        self._bases = [ok / n for n, ok in counts]
        self._slopes = [PRIOR_TESTS / n for n, _ in counts]

    def chance(self, confidence: float) -> float:
        """The calibrated confidence: corrected by what became of tokens with such a confidence."""
        i = bisect(BIN_EDGES, confidence)
        return self._bases[i] + self._slopes[i] * min(CEILING, self._correction * confidence)

    def ending(self, floors: Sequence[float]) -> Ending:
        """Where a chain ends whose chance must be above `floors`, of its tokens one after the other."""
        return Ending(BIN_EDGES, self._bases, self._slopes, self._correction, CEILING, floors)

    def count(self, step: Step, drafter: str) -> None:
        """Count a pass's tests of this drafter's rows."""
        self._tested = [TEST_DECAY * n for n in self._tested]
        self._accepted = [TEST_DECAY * n for n in self._accepted]
        confidences = step.draft.chances or (UNSTATED,) * len(step.draft)
        for source, confidence, status in zip(step.draft.sources, confidences, step.statuses, strict=True):
            if source == drafter and status in (ACCEPTED, REJECTED):
                i = bisect(BIN_EDGES, confidence)
                self._tested[i] += 1
                self._accepted[i] += status == ACCEPTED
        self._sum_up()


class Lookups:
    """What looking up brings in a run, and takes: tokens, and time in ordinary passes. Where passes are shared by many texts,
    it may take more than it brings."""

    def __init__(self) -> None:
        self._gain, self._cost = PRIOR_GAIN, 0.0
        self._rested, self._rest = 0, FIRST_REST

    def due(self) -> bool:
        """Whether to look up in this pass: always where it costs next to nothing, or has paid; else ever more rarely."""
        if self._cost < CHEAP or self._gain >= self._cost:
            return True
        self._rested += 1
        if self._rested <= self._rest:
            return False
        self._rested, self._rest = 0, min(2 * self._rest, LONGEST_REST)
        return True

    def count(self, gain: float, cost: float) -> None:
        """Remember what it brought and took in a pass."""
        self._gain, self._cost = (
            LOOKUP_DECAY * past + (1 - LOOKUP_DECAY) * new for past, new in ((self._gain, gain), (self._cost, cost))
        )
        if gain > cost:
            self._rest = FIRST_REST


class DrafterHistory:
    """Counts of one drafter.

    `plain_s` are the seconds of a pass without a draft, and `pass_s` of one with `PRIOR_LENGTH` drafted tokens, which is
    expected to emit `tokens`. A drafted token takes `token_s`, and a draft of any length `once_s` more; 0 for lookups.
    """

    def __init__(self, plain_s: float, pass_s: float, tokens: float, token_s: float, once_s: float = 0.0):
        self.confidence, self.token_s, self._once_s = Confidence(), token_s, once_s
        self._prior_s, self._prior_tokens = pass_s + self.draft_s(PRIOR_LENGTH), tokens  # of a pass that is expected
        self._prior = PRIOR_DRAFTS  # weight of such passes
        self._tokens = self._seconds = 0.0  # of passes with its drafts
        self._rested, self._rest = 0, FIRST_REST
        self.loses = False  # at the last look
        # Ordinary passes that its drafts cost more than they gained: at first, what a probe is expected to lose.
        self._lost = max(0.0, self._prior_s / plain_s - tokens)

    def draft_s(self, depth: int) -> float:
        """Seconds of a draft of so many tokens, or levels of a tree."""
        return self._once_s + depth * self.token_s

    @property
    def first_s(self) -> float:
        """Seconds of a draft of one token."""
        return self.draft_s(1)

    @property
    def rate(self) -> float:
        """Tokens per second of the passes with its drafts, drafting included. Until drafts have been seen, of expected ones."""
        return (self._tokens + self._prior * self._prior_tokens) / (self._seconds + self._prior * self._prior_s)

    @property
    def rests(self) -> bool:
        """Whether it lost time at the last look, and it is too early for another."""
        return self.loses and self._rested % LOOK_EVERY > 0

    def probe(self) -> int:
        """How much a drafter that loses time may draft in this pass: mostly nothing."""
        self._rested += 1
        if self._rested <= max(self._rest, self._lost / LOSS_SHARE):
            return 0
        self._rested, self._rest = 0, min(2 * self._rest, LONGEST_REST)
        return PROBE_TOKENS

    def count(self, tokens: int, seconds: float, pass_s: float) -> None:
        """Count a pass with its draft that emitted so many tokens and should have taken `seconds`, where one without a draft
        takes `pass_s`."""
        self.loses = False
        self._prior *= DRAFT_DECAY
        self._tokens = DRAFT_DECAY * self._tokens + tokens
        self._seconds = DRAFT_DECAY * self._seconds + seconds
        lost = seconds / pass_s - tokens
        self._lost = max(-MOST_CREDIT, self._lost + lost)
        if lost < 0:
            self._rest = FIRST_REST
