"""Strategies without a second language model: trained heads that read the target's hidden states, and its own first layers."""

from __future__ import annotations

from .base import EAGLE, HEAD_TOKENS
from .draft import DraftModel
from .tree import Tree


class Medusa(DraftModel):
    """A token of each head, as a chain (Cai et al. 2024). A head does not read the tokens that earlier heads drafted."""

    name = "medusa"
    summary = "drafts with one small head a token"
    candidate = False
    draft_model = "medusa"
    technique = None
    expected_tokens = HEAD_TOKENS


class Eagle(DraftModel):
    """A chain from one layer that reads hidden states at three depths, then its own features (EAGLE-3, Li et al. 2025)."""

    name = "eagle"
    summary = "drafts token by token from the model's inner states"
    draft_model = "eagle"
    technique = EAGLE
    expected_tokens = HEAD_TOKENS


class EagleTree(Tree):
    """A top-b tree from an EAGLE-3 head (EAGLE-2's dynamic tree, Li et al. 2024)."""

    name = "eagle-tree"
    summary = "drafts a tree of an EAGLE head's favourites"
    draft_model = "eagle"
    expected_tokens = HEAD_TOKENS


class Block(DraftModel):
    """A chain from the slots of a block, which is drafted in one pass (DFlash, Chen et al. 2026; DSpark, DeepSpec 2026).

    Slots are filled from left to right: the head's Markov part adds a bias that depends on the token before.
    """

    name = "block"
    summary = "drafts a whole block in one pass"
    draft_model = "block"
    in_hybrid = False
    technique = None
    expected_tokens = HEAD_TOKENS


class BlockTree(Tree):
    """A top-b tree from the slots of a block (JetSpec 2026). Each path has the Markov part's bias for its own tokens."""

    name = "block-tree"
    summary = "drafts a tree of a block's favourites"
    candidate = True
    draft_model = "block"
    in_hybrid = True
    expected_tokens = HEAD_TOKENS


class SelfDraft(DraftModel):
    """A chain from the target's first layers (Draft & Verify, Zhang et al. 2024; LayerSkip, Elhoushi et al. 2024).

    The layers are shared, the cache is not. `model/layer_skip.py` chooses how many layers.
    """

    name = "self"
    summary = "drafts with the model's own first layers"
    candidate = False
    draft_model = "self"
    in_hybrid = False
    technique = None
