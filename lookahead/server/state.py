"""State that all visitors of a server share: the loaded families, the host's limits, and the stored runs.

Families are loaded and unloaded while the server runs, so callers read models from here each time. A race keeps its models.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from itertools import count
from threading import Lock
from typing import Any

from ..core import memory
from ..core.events import ModelError
from ..family import sources
from ..family.models import Models
from ..measure.scenarios import DEFAULT_FAMILY
from ..model import layer_skip
from ..model.heads.shape import KINDS
from ..servers.addresses import is_servers, offered
from .limits import Limits
from .runs import Runs

MAX_CHOICES = 10_000  # of visitors to store; API clients do not report that they disconnect
TITLES = {DEFAULT_FAMILY: "pocket: instant", "smol": "SmolLM2: real answers"}


def bundled() -> list[str]:
    """Return the names of the bundled families, the default first."""
    return sorted(sources.bundled(), key=lambda name: name != DEFAULT_FAMILY)


def family_title(spec: str) -> str:
    """Return a family's title in a list of choices."""
    return TITLES.get(spec) or offered().get(spec) or spec


@dataclass(slots=True, eq=False)
class Family:
    """A loaded family, with the known licenses of its models by name. If `stays` is set, it is never unloaded."""

    models: Models
    licenses: Mapping[str, str] = field(default_factory=dict)
    stays: bool = False
    used: int = 0  # a larger number is a later use


class Families:
    """The loaded families by spec, and each visitor's choice. The first family is the default."""

    def __init__(self, models: Iterable[Models]):
        self._loaded = {loaded.spec: Family(loaded, stays=True) for loaded in models}
        self._chosen: dict[str, str] = {}  # by visitor
        self._uses = count(1)

    def __contains__(self, spec: str) -> bool:
        return spec in self._loaded

    def __iter__(self):
        return iter(list(self._loaded.values()))

    @property
    def first(self) -> Family:
        return next(iter(self))

    @property
    def default(self) -> Family:
        """The family of the lessons and of links that name no family; if it is not loaded, the first."""
        return self.shown(DEFAULT_FAMILY)

    def shown(self, spec: str) -> Family:
        """Return the family of that name if it is loaded, else the first."""
        return self._loaded.get(spec, self.first)

    def draft_models(self, spec: str) -> list[str]:
        return self._loaded[spec].models.draft_models if spec in self else []

    def drafters(self, spec: str) -> set[str]:
        """Return the names of a family's draft models and trained heads, from its files if it is not loaded."""
        if spec in self:
            models = self._loaded[spec].models
            return {*models.drafts, *models.heads}
        if is_servers(spec):  # the server may have any of them
            return {"draft", *KINDS}
        return {layer_skip.ROLE, *sources.locations(spec)} - {"target"}

    def chats(self, spec: str) -> bool:
        """Return whether a family's models reply to a chat message, instead of continuing a text."""
        return spec != DEFAULT_FAMILY and (spec not in self or bool(self._loaded[spec].models.tokenizer.chat_template))

    def named(self, spec: str) -> Family:
        """Return the family of that name, or the first for the default name. Raises `ModelError` if it is not loaded."""
        family = self._loaded.get(spec) or (self.first if spec in ("", DEFAULT_FAMILY) else None)
        if family is None:
            loaded = ", ".join(self._loaded)
            raise ModelError("family", spec, f"it is not loaded; choose one of {loaded}, or load it in the Models tab.")
        family.used = next(self._uses)
        return family

    def chosen_by(self, visitor: str | None) -> Family:
        """Return the family that a visitor has chosen if it is loaded, else the first."""
        family = self.shown(self._chosen.get(visitor or "", ""))
        family.used = next(self._uses)
        return family

    def choose(self, visitor: str, spec: str) -> None:
        self._chosen.pop(visitor, None)
        self._chosen[visitor] = spec
        while len(self._chosen) > MAX_CHOICES:
            self._chosen.pop(next(iter(self._chosen)))

    def forget(self, visitor: str) -> None:
        self._chosen.pop(visitor, None)

    def add(self, models: Models, licenses: Mapping[str, str]) -> None:
        self._loaded[models.spec] = Family(models, licenses, used=next(self._uses))

    def replace_models(self, models: Models) -> None:
        """Replace the models of a family that was measured again, unless it has been unloaded."""
        if models.spec in self:
            self._loaded[models.spec].models = models

    @property
    def spare_bytes(self) -> int:
        """Memory of the families that may be unloaded."""
        return sum(family.models.nbytes for family in self if not family.stays)

    def free_memory(self, nbytes: int) -> list[Models]:
        """Unload the least recently used families until `nbytes` of memory are free, and return their models."""
        unloaded = []
        while memory.free() < nbytes and (candidates := [family for family in self if not family.stays]):
            oldest = min(candidates, key=lambda family: family.used)
            unloaded.append(self._loaded.pop(oldest.models.spec).models)
            del oldest, candidates
            memory.release()
        return unloaded


class ServerState:
    """The state of a server. A visitor's load holds the lock `changing`. `drafters` has each visitor's `Drafter`."""

    def __init__(self, models: Models, limits: Limits | None = None, further: tuple[Models, ...] = ()):
        self.families = Families([models, *further])
        self.limits = limits or Limits.from_environment()
        self.runs = Runs()
        self.changing = Lock()
        self.drafters: dict[str, Any] = {}

    @property
    def models(self) -> Models:
        return self.families.first.models

    def models_for(self, visitor: str | None, family: str | None = None) -> Models:
        """Return the models of a loaded family, or of the visitor's choice, with the head that the visitor has kept."""
        models = (self.families.chosen_by(visitor) if family is None else self.families.named(family)).models
        drafter = self.drafters.get(visitor or "")
        return drafter.kept if drafter and drafter.kept and drafter.models is models else models

    def free_memory(self, nbytes: int) -> None:
        """Unload families, and the heads trained for them, until `nbytes` of memory are free."""
        for unloaded in self.families.free_memory(nbytes):
            for visitor, drafter in list(self.drafters.items()):
                if drafter.models is unloaded:
                    self.drafters.pop(visitor, None)

    def forget(self, visitor: str) -> None:
        self.drafters.pop(visitor, None)
        self.families.forget(visitor)
