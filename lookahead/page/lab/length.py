"""Draft length: recompute a recording with any draft length, and measure the speedup by draft length here."""

from ...server.state import ServerState
from ..parts import Follow, Opening, answer_html, markup, split
from . import sweeps, whatif

VERDICT = "A longer draft saves passes only as long as its tokens are accepted; each further row costs time."


def add(server: ServerState, follow: Follow) -> list[Opening]:
    """Add the section."""
    markup(answer_html(VERDICT))
    left, right = split()
    return [whatif.add(server, left, right), sweeps.add(server, left, right)]
