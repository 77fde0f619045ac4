"""Draft length: recompute a recording with any draft length, and measure the speedup by draft length here."""

from ...server.state import ServerState
from ..parts import Follow, Opening, markup, split
from . import sweeps, whatif


def add(server: ServerState, follow: Follow) -> list[Opening]:
    """Add the section."""
    verdict = markup()
    left, right = split()
    return [whatif.add(server, verdict, left, right), sweeps.add(server, left, right)]
