"""A recorded race, and what it can be turned into: a table of its passes, a page that plays it.

Knows records and their exports. It does not know models, clocks or the running app.
"""

from __future__ import annotations

from . import export
from .schema import RaceRecord


class Trace(RaceRecord):
    """A whole race."""

    def to_csv(self) -> str:
        """One row a pass of every lane; see `export.to_csv`."""
        return export.to_csv(self)

    def replay_html(self, caption: str | None = None) -> str:
        """One self-contained page that plays the race, offline; see `export.replay_html`."""
        return export.replay_html(self, caption)
