"""A recorded race, with its exports."""

from . import export
from .schema import RaceRecord


class Trace(RaceRecord):
    """A recorded race, with its exports."""

    def to_csv(self) -> str:
        """Return one row per pass of every lane; see `export.to_csv`."""
        return export.to_csv(self)

    def replay_html(self, caption: str | None = None) -> str:
        """Return one self-contained page that plays the race; see `export.replay_html`."""
        return export.replay_html(self, caption)
