"""naive: drafts nothing. The baseline is the same loop with an empty draft, so both lanes have the same overhead."""

from ..core.events import EMPTY
from .base import NO_DRAFT, Drafter


class Naive(Drafter):
    """One token per pass."""

    name = "naive"
    summary = "no drafting: one token per pass"
    candidate = False
    technique = NO_DRAFT

    def propose(self, context, limit):
        return EMPTY
