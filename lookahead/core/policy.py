"""The protocol of the draft length policy, and what it gets from a drafter."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Protocol

from .events import Draft, Step
from .tree import depths

LOOKUP_S = 30e-6  # seconds of a lookup: about the same at token 100 and at token 10,000, on every processor
UNSTATED = 0.7  # confidence of a drafter that states none, and the acceptance expected before the first test
EXPECTED_TOKENS = 1.8  # tokens that a pass is expected to emit before its drafter has been seen


@dataclass(frozen=True, slots=True)
class DraftCost:
    """Seconds of drafting: `once_s` per draft, `token_s` per token or level. `tokens` are expected of a pass at first."""

    token_s: float = 0.0
    once_s: float = LOOKUP_S
    tokens: float = EXPECTED_TOKENS

    def draft_s(self, depth: int) -> float:
        """Seconds of a draft of `depth` tokens, or levels of a tree."""
        return self.once_s + depth * self.token_s


@dataclass(frozen=True, slots=True)
class StopRule:
    """When a draft model stops: after n tokens if `reach`, the product of their confidences, is not above `floors[n - 1]`.

    The last floor holds for all longer drafts. The default never stops.
    """

    floors: Sequence[float] = (-1.0,)

    def stops(self, reach: float, drafted: int) -> bool:
        return reach <= self.floors[min(drafted, len(self.floors)) - 1]

    def after(self, drafted: int) -> StopRule:
        """The rule for the tokens that follow the first `drafted` ones; `reach` still counts from the first."""
        return StopRule(self.floors[drafted:] or self.floors[-1:])


class DraftPolicy(Protocol):
    """How much to draft. A source is a drafter's name in `Draft.sources`. A drafter calls the first four methods, the loop all."""

    def limit(self, source: str) -> int:
        """The longest draft worth proposing in this pass, in tokens; 0 pauses the source."""

    def stop_rule(self, source: str) -> StopRule:
        """When a draft model with confidences stops before the limit."""

    def expected_speedup(self, draft: Draft) -> float:
        """Speedup over naive decoding that a pass with this draft is expected to bring, drafting excluded."""

    def recent_speedup(self, source: str) -> float:
        """Speedup over naive decoding that recent drafts of this source brought, drafting included; at least 1."""

    def trim(self, draft: Draft) -> Draft:
        """The rows of a draft that are worth verifying."""

    def draft_s(self, draft: Draft) -> float:
        """Expected seconds of drafting it."""

    def observe(self, step: Step) -> None:
        """Learn from a pass."""


def reach_probabilities(draft: Draft, chance: Callable[[str, float, int], float]) -> list[float]:
    """The chance that each tested row is reached and accepted: the product of `chance(source, confidence, depth)` down to it."""
    reach: list[float] = []
    for row, depth in enumerate(depths(draft.parents[: draft.tested])):
        accepted = chance(draft.sources[row], draft.chances[row] if draft.chances else UNSTATED, depth)
        reach.append(accepted * (reach[draft.parents[row]] if draft.parents[row] >= 0 else 1.0))
    return reach
