"""naive: drafts nothing. The baseline is the same loop with an empty draft, so that both lanes pay
the same overhead and a speedup can come from nothing but drafting.
"""

from __future__ import annotations

from ..core.events import EMPTY
from .base import NO_DRAFT, Drafter


class Naive(Drafter):
    """One token a pass."""

    name = "naive"
    summary = "no drafting: one token a pass"
    technique = NO_DRAFT

    def propose(self, context, limit):
        return EMPTY
