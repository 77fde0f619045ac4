"""Strategies with a trained head that reads the target's hidden states. They extend `draft.py` and `tree.py`."""

from .base import EAGLE, HEAD_TOKENS
from .draft import DraftModel
from .tree import Tree


class Medusa(DraftModel):
    """A chain with one token from each head (Cai et al. 2024). A head does not read the tokens of earlier heads."""

    name = "medusa"
    summary = "drafts with one small head per token"
    candidate = False
    draft_model = "medusa"
    technique = None
    expected_tokens = HEAD_TOKENS


class Mtp(DraftModel):
    """A chain from one decoder layer that reads the target's last hidden state, then its own (DeepSeek-V3, 2024)."""

    name = "mtp"
    summary = "drafts token by token from the target's last hidden state"
    draft_model = "mtp"
    technique = None
    expected_tokens = HEAD_TOKENS


class Eagle(DraftModel):
    """A chain from one layer that reads hidden states at three depths, then its own features (EAGLE-3, Li et al. 2025)."""

    name = "eagle"
    summary = "drafts token by token from the target's hidden states"
    draft_model = "eagle"
    technique = EAGLE
    expected_tokens = HEAD_TOKENS


class EagleTree(Tree):
    """A top-b tree from an EAGLE-3 head (EAGLE-2's dynamic tree, Li et al. 2024)."""

    name = "eagle-tree"
    summary = "drafts a tree of an EAGLE head's likeliest tokens"
    draft_model = "eagle"
    expected_tokens = HEAD_TOKENS


class Block(DraftModel):
    """A chain from the slots of a block that is drafted in one pass (DFlash, Chen et al. 2026; DSpark, DeepSpec 2026).

    Slots are filled from left to right. The head's Markov part adds a bias that depends on the previous token.
    """

    name = "block"
    summary = "drafts a whole block in one pass"
    draft_model = "block"
    in_hybrid = False
    technique = None
    expected_tokens = HEAD_TOKENS


class BlockTree(Tree):
    """A top-b tree from the slots of a block (JetSpec 2026). The Markov part adds a bias for each path."""

    name = "block-tree"
    summary = "drafts a tree of a block's likeliest tokens"
    candidate = True
    draft_model = "block"
    in_hybrid = True
    expected_tokens = HEAD_TOKENS
