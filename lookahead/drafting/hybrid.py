"""hybrid: what followed here before, where the text repeats itself; else a small model, or a trained head.

The policy knows each of the two by its own history, so what decides is which of them is expected
to write more tokens per second at this very place.

Knows the two drafters it is made of.
"""

from __future__ import annotations

from ..model.heads.head import CachedHead
from .base import Drafter
from .block import Block
from .draft import DraftModel
from .eagle import Eagle
from .medusa import Medusa
from .suffix import Suffix

OF_HEADS = {drafter.draft_model: drafter for drafter in (Block, Eagle, Medusa)}


class Hybrid(Drafter):
    """Suffix matches first, a draft model or a trained head otherwise."""

    name = "hybrid"
    summary = "drafts from earlier text where it repeats, else from a small model"
    needs_draft = heads_too = True
    Options = Suffix.Options

    def __init__(self, resources, options):
        super().__init__(resources, options)
        self._suffix = Suffix(resources, options)
        of = OF_HEADS[self.lm.shape.kind] if isinstance(self.lm, CachedHead) else DraftModel
        self._model = of(resources, of.Options())

    def start(self, context):
        self._suffix.start(context)
        self._model.start(context)

    def propose(self, context, room, policy):
        draft = self._suffix.propose(context, room, policy)
        if len(draft) and policy.expected_speedup(draft) >= policy.recent_speedup(self._model.name):
            return draft
        return self._model.propose(context, room, policy) or draft
