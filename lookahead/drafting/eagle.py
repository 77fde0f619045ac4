"""eagle: one layer that reads the target's hidden states, and drafts token by token (EAGLE-3, Li et al. 2025).

It sees what the target made of the text at three depths, so one layer does for it where a draft model needs several. Of its
own tokens it has no such states and goes on from its own features.
"""

from __future__ import annotations

from .base import EAGLE, HEAD_TOKENS
from .draft import DraftModel


class Eagle(DraftModel):
    """A chain from an EAGLE-3 head."""

    name = "eagle"
    summary = "drafts token by token from the model's inner states"
    draft_model = "eagle"
    in_hybrid = True
    technique = EAGLE
    expected_tokens = HEAD_TOKENS
