"""What all visitors of one server share: the models in use, the host's limits, and the runs that a page may ask for again.

The models can be changed while the server runs, so whoever needs them takes them from here each time and keeps
nothing. A race that has begun goes on with the models it began with.

Knows what is shared. It does not know pages.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from threading import Lock
from typing import Any

from ..drafting.history import Learned, learned
from ..family.models import Models
from ..hardware import memory
from ..model import layer_skip
from .limits import Limits
from .runs import Runs


@dataclass(slots=True)
class ServerState:
    """`models` is read anew for every run; `licences` are those of its models by name, where they are known.

    Whoever changes the models holds `changing` meanwhile. `learned` is what `auto` found, by visitor, prompt and method;
    `drafters` are what visitors have grown beside these models, by visitor (`growing_job.Drafter`).
    """

    models: Models
    limits: Limits = field(default_factory=Limits.of)
    runs: Runs = field(default_factory=Runs)
    licences: Mapping[str, str] = field(default_factory=dict)
    changing: Lock = field(default_factory=Lock)
    learned: Learned = field(default_factory=learned)
    drafters: dict[str, Any] = field(default_factory=dict)

    def models_for(self, visitor: str | None) -> Models:
        """The models in use, with the head that this visitor keeps."""
        return getattr(self.drafters.get(visitor or ""), "kept", None) or self.models

    def forget(self, visitor: str) -> None:
        """What a visitor has grown, once the visitor has gone."""
        self.drafters.pop(visitor, None)

    @property
    def drafts(self) -> list[str]:
        """Names of the draft models that were loaded (the target's own first layers are not one of them)."""
        return [name for name in self.models.drafts if name != layer_skip.ROLE]

    def change(self, models: Models, licences: Mapping[str, str]) -> None:
        """Put other models on; the ones before are given back as soon as no race runs with them."""
        self.models, self.licences, self.learned, self.drafters = models, licences, learned(), {}
        memory.release()
