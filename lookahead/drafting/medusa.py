"""medusa: several tokens at once, each from a head of its own on the target's last hidden state (Cai et al. 2024).

Every head looks further ahead than the one before and knows nothing of what that one drafted, so its later tokens are
seldom right; what it costs is next to nothing.
"""

from __future__ import annotations

from .base import HEAD_TOKENS
from .draft import DraftModel


class Medusa(DraftModel):
    """A token of each head, as a chain."""

    name = "medusa"
    summary = "drafts with one small head a token"
    draft_model = "medusa"
    in_hybrid = True
    technique = None
    expected_tokens = HEAD_TOKENS
