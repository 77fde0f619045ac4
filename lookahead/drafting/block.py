"""block: one pass of a trained head drafts a whole block (DFlash, Chen et al. 2026; DSpark, DeepSpec 2026).

The slots of the block are filled from left to right: what the head's Markov part adds to a slot depends on the token that
was just drafted before it. The draft ends where one more token would no longer pay, as the confidence part has it.
"""

from __future__ import annotations

from .base import HEAD_TOKENS
from .draft import DraftModel


class Block(DraftModel):
    """A chain from the slots of a block."""

    name = "block"
    summary = "drafts a whole block in one pass"
    draft_model = "block"
    in_hybrid = False
    technique = None
    expected_tokens = HEAD_TOKENS
