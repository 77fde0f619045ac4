"""Kinds of tokens: what is easy to guess, and what is not, tells more than one rate for all.

Knows pieces of text. It does not know tokenizers: a piece that begins with a letter goes on with the word before it.
"""

from __future__ import annotations

from ..core.events import ACCEPTED, CORRECTION
from .schema import LaneRecord

KINDS = ("start of a word", "inside a word", "name", "digits", "punctuation", "code", "space")
CODE = set("{}[]()<>=+*/\\_|&^%$#@~`")


def kind(piece: str, before: str) -> str:
    """The kind of a piece that follows the text `before`."""
    text = piece.strip()
    if not text:
        return "space"
    if any(character in CODE for character in text):
        return "code"
    if any(character.isdigit() for character in text):
        return "digits"
    if not any(character.isalnum() for character in text):
        return "punctuation"
    if before and piece[0].isalnum() and before[-1].isalnum():
        return "inside a word"
    begins = before.rstrip(" ")[-1:]  # a capital at the beginning of a sentence is no name
    return "name" if text[0].isupper() and begins not in ("", ".", "!", "?", "\n", '"', ":") else "start of a word"


def by_kind(lane: LaneRecord) -> dict[str, tuple[int, int]]:
    """For every kind of token that was drafted for and tested: how many of how many were accepted. The kind is that of the token
    that was written: of a refused one, of what stands there instead."""
    before, counts = "", {name: [0, 0] for name in KINDS}
    for step in lane.verified:
        for piece, origin in zip(step.pieces, step.origins, strict=True):
            if origin in (ACCEPTED, CORRECTION):
                count = counts[kind(piece, before)]
                count[0] += origin == ACCEPTED
                count[1] += 1
            before = (before + piece)[-8:]
    return {name: (accepted, tested) for name, (accepted, tested) in counts.items() if tested}
