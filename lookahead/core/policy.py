"""The protocol of the draft length policy, and the data that it gets from a drafter."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Protocol

from .events import Draft, Step
from .tree import depths

LOOKUP_S = 30e-6  # seconds of a lookup: about the same for short and long texts, on every CPU
DEFAULT_CONFIDENCE = (
    0.7  # default confidence if a drafter reports none, and the expected acceptance before the first test
)
EXPECTED_TOKENS = 1.8  # expected tokens per pass before the first draft


@dataclass(frozen=True, slots=True)
class DraftCost:
    """Seconds of drafting: `once_s` per draft, `token_s` per token or level. `tokens` is the initial estimate per pass."""

    token_s: float = 0.0
    once_s: float = LOOKUP_S
    tokens: float = EXPECTED_TOKENS

    def draft_s(self, depth: int) -> float:
        """Return the seconds of a draft of `depth` tokens, or levels of a tree."""
        return self.once_s + depth * self.token_s


@dataclass(frozen=True, slots=True)
class StopRule:
    """Stop a draft model after n tokens if `reach`, the product of their confidences, is not above `floors[n - 1]`.

    The last floor is valid for all longer drafts. The default never stops.
    """

    floors: Sequence[float] = (-1.0,)

    def stops(self, reach: float, drafted: int) -> bool:
        return reach <= self.floors[min(drafted, len(self.floors)) - 1]

    def after(self, drafted: int) -> StopRule:
        """Return the rule for the tokens after the first `drafted` ones. `reach` is still the product of all confidences."""
        return StopRule(self.floors[drafted:] or self.floors[-1:])


class DraftPolicy(Protocol):
    """Decide how much to draft. A source is a drafter's name in `Draft.sources`. Drafters use only the first four methods."""

    def limit(self, source: str) -> int:
        """Return the longest draft for this pass in tokens; 0 pauses the source."""

    def stop_rule(self, source: str) -> StopRule:
        """Return the rule by which a draft model with confidences stops before the limit."""

    def expected_speedup(self, draft: Draft) -> float:
        """Return the expected speedup of a pass with this draft over naive decoding, without the time of drafting."""

    def recent_speedup(self, source: str) -> float:
        """Return the speedup of this source's recent drafts over naive decoding, with the time of drafting; at least 1."""

    def trim(self, draft: Draft) -> Draft:
        """Return the draft with only those rows that are worth their cost."""

    def draft_s(self, draft: Draft) -> float:
        """Return the expected seconds to draft this draft."""

    def observe(self, step: Step) -> None:
        """Update the estimates with a pass."""


def reach_probabilities(draft: Draft, chance: Callable[[str, float, int], float]) -> list[float]:
    """Return the chance that each row is accepted: the product of `chance(source, confidence, depth)` along its path."""
    reach: list[float] = []
    for row, depth in enumerate(depths(draft.parents[: draft.tested])):
        accepted = chance(draft.sources[row], draft.chances[row] if draft.chances else DEFAULT_CONFIDENCE, depth)
        reach.append(accepted * (reach[draft.parents[row]] if draft.parents[row] >= 0 else 1.0))
    return reach
