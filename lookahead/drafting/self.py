"""The target's own first layers as the draft model."""

from .draft import DraftModel


class SelfDraft(DraftModel):
    """A chain from the target's first layers (Draft & Verify, Zhang et al. 2024; LayerSkip, Elhoushi et al. 2024).

    The layers are shared with the target, the cache is not. `model/layer_skip.py` chooses the number of layers.
    """

    name = "self"
    summary = "drafts with the target's own first layers"
    candidate = False
    draft_model = "self"
    in_hybrid = False
    technique = None
    expected_tokens = 1.5  # the first layers are not trained to predict tokens
