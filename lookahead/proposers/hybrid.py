"""hybrid: what followed here before, where the text repeats itself; else a small model.

Both drafters keep their own record with the pace, so what decides is which of the two is expected
to write more tokens per second at this very place.

Knows the two drafters it is made of.
"""

from __future__ import annotations

from ..events import EMPTY
from .base import Proposer
from .draft import DraftModel
from .suffix import Suffix


class Hybrid(Proposer):
    """Suffix matches first, a draft model otherwise."""

    name = "hybrid"
    summary = "drafts from earlier text where it repeats, else from a small model"
    needs_draft = True
    Options = Suffix.Options

    def __init__(self, means, options):
        super().__init__(means, options)
        self._suffix = Suffix(means, options)
        self._model = DraftModel(means, DraftModel.Options())

    def start(self, context):
        self._suffix.start(context)
        self._model.start(context)

    def propose(self, context, room, pace):
        found = self._suffix.propose(context, room, pace)
        if found is not EMPTY and len(found) and pace.promise(found) >= pace.going(self._model.name):
            return found
        return self._model.propose(context, room, pace) or found
