"""What all visitors of one server share: the families in use, the host's limits, and the runs that a page may ask for again.

Families come and go while the server runs, so whoever needs models takes them from here each time and keeps nothing.

Knows what is shared. It does not know pages.
"""

from __future__ import annotations

from threading import Lock
from typing import Any

from ..family.models import Models
from .families import Families
from .limits import Limits
from .runs import Runs


class ServerState:
    """`families` begin with the `models` that the server is started with and `further` ones.

    Whoever loads a family holds `changing` meanwhile. `drafters` are what visitors have grown beside a family, by visitor
    (`growing_job.Drafter`).
    """

    def __init__(self, models: Models, limits: Limits | None = None, further: tuple[Models, ...] = ()):
        self.families = Families([models, *further])
        self.limits = limits or Limits.of()
        self.runs = Runs()
        self.changing = Lock()
        self.drafters: dict[str, Any] = {}

    @property
    def models(self) -> Models:
        """Those of the first family."""
        return self.families.first.models

    def models_for(self, visitor: str | None, family: str | None = None) -> Models:
        """The models of a family, or of the one that this visitor has chosen, with the head that the visitor keeps beside
        them. Raises `ModelError` for a family that is not loaded."""
        models = (self.families.of(visitor) if family is None else self.families.named(family)).models
        drafter = self.drafters.get(visitor or "")
        return drafter.kept if drafter and drafter.kept and drafter.models is models else models

    def make_room(self, nbytes: int) -> None:
        """Let families go, and what was grown beside them, until so much memory is free; those at the start stay."""
        for gone in self.families.make_room(nbytes):
            for visitor, drafter in list(self.drafters.items()):
                if drafter.models is gone:
                    self.drafters.pop(visitor, None)

    def forget(self, visitor: str) -> None:
        """What a visitor has chosen and grown, once the visitor has gone."""
        self.drafters.pop(visitor, None)
        self.families.forget(visitor)
