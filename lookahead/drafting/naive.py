"""naive: the baseline without drafts. It runs in the same loop, so all lanes have the same overhead."""

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
