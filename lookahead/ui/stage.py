"""What all visitors of one server share: the models in use, the host's limits, and the runs that a page may ask for again.

The models can be changed while the server runs, so whoever needs them asks the stage when it needs them and keeps
nothing. A race that has begun goes on with the models it began with.

Knows what is shared. It does not know pages.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from .. import skip
from ..limits import Limits
from ..models import Models
from .runs import Runs


@dataclass(slots=True)
class Stage:
    """`models` is read anew for every run."""

    models: Models
    limits: Limits = field(default_factory=Limits.of)
    runs: Runs = field(default_factory=Runs)

    @property
    def drafts(self) -> list[str]:
        """Names of the draft models that were loaded (the target's own first layers are not one of them)."""
        return [name for name in self.models.drafts if name != skip.ROLE]
