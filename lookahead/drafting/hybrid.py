"""hybrid: what followed here before, where the text repeats itself; else a small model.

The policy knows each of the two by its own history, so what decides is which of them is expected
to write more tokens per second at this very place.

Knows the two drafters it is made of.
"""

from __future__ import annotations

from .base import Drafter
from .draft import DraftModel
from .suffix import Suffix


class Hybrid(Drafter):
    """Suffix matches first, a draft model otherwise."""

    name = "hybrid"
    summary = "drafts from earlier text where it repeats, else from a small model"
    needs_draft = True
    Options = Suffix.Options

    def __init__(self, resources, options):
        super().__init__(resources, options)
        self._suffix = Suffix(resources, options)
        self._model = DraftModel(resources, DraftModel.Options())

    def start(self, context):
        self._suffix.start(context)
        self._model.start(context)

    def propose(self, context, room, policy):
        draft = self._suffix.propose(context, room, policy)
        if len(draft) and policy.expected_speedup(draft) >= policy.recent_speedup(self._model.name):
            return draft
        return self._model.propose(context, room, policy) or draft
