"""self: the target's own first layers as the draft model (Zhang et al. 2024, Draft & Verify; Elhoushi et
al. 2024, LayerSkip).

It needs no second model and no second vocabulary: the layers are shared, the drafter has a cache of its own. `model/layer_skip.py`
says how many layers.
"""

from __future__ import annotations

from .draft import DraftModel


class SelfDraft(DraftModel):
    """Autoregressive drafting with a part of the target."""

    name = "self"
    summary = "drafts with the model's own first layers"
    draft_model = "self"
    in_hybrid = False
