"""What all visitors of one server share: the loaded families, the host's limits, and the runs that a page may request again.

Families come and go while the server runs, so callers take models from here each time. A race keeps its models.
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
from ..measure.scenarios import USUAL
from ..model import layer_skip
from ..model.heads.shape import KINDS
from ..servers.addresses import is_servers, offered
from .limits import Limits
from .runs import Runs

MOST_CHOICES = 10_000  # remembered: callers of the API do not sign off
WORDS = {USUAL: "pocket: instant", "smol": "SmolLM2: real answers"}


def bundled() -> list[str]:
    """The families that come with the app, the usual one first."""
    return sorted(sources.bundled(), key=lambda name: name != USUAL)


def described(spec: str) -> str:
    """A family's title in a list of choices."""
    return WORDS.get(spec) or offered().get(spec) or spec


@dataclass(slots=True, eq=False)
class Family:
    """A loaded family, with its models' known licences by name. One that `stays` is never unloaded."""

    models: Models
    licences: Mapping[str, str] = field(default_factory=dict)
    stays: bool = False
    used: int = 0  # the greater, the later


class Families:
    """The loaded families by spec, and each visitor's choice. The first is for visitors who have not chosen."""

    def __init__(self, models: Iterable[Models]):
        self._loaded = {one.spec: Family(one, stays=True) for one in models}
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
    def usual(self) -> Family:
        """The family for which lessons were written, and of links that name none; if it is not loaded, the first."""
        return self.shown(USUAL)

    def shown(self, spec: str) -> Family:
        """The family of that name if it is loaded, else the first."""
        return self._loaded.get(spec, self.first)

    def draft_models(self, spec: str) -> list[str]:
        return self._loaded[spec].models.draft_models if spec in self else []

    def drafters(self, spec: str) -> set[str]:
        """Names of a family's draft models and trained heads, or those of the bundled files if it is not loaded."""
        if spec in self:
            models = self._loaded[spec].models
            return {*models.drafts, *models.heads}
        if is_servers(spec):  # the servers' owner chooses
            return {"draft", *KINDS}
        return {layer_skip.ROLE, *sources.locations(spec)} - {"target"}

    def chats(self, spec: str) -> bool:
        """Whether its models answer a chat message, instead of continuing a text."""
        return spec != USUAL and (spec not in self or bool(self._loaded[spec].models.tokenizer.chat_template))

    def named(self, spec: str) -> Family:
        """The family of that name; the first for the usual name if that is not loaded. Raises `ModelError`."""
        family = self._loaded.get(spec) or (self.first if spec in ("", USUAL) else None)
        if family is None:
            have = ", ".join(self._loaded)
            raise ModelError("family", spec, f"it is not loaded; choose one of {have}, or load it in the Models tab.")
        family.used = next(self._uses)
        return family

    def of(self, visitor: str | None) -> Family:
        """The family that a visitor has chosen if it is loaded, else the first."""
        family = self.shown(self._chosen.get(visitor or "", ""))
        family.used = next(self._uses)
        return family

    def choose(self, visitor: str, spec: str) -> None:
        self._chosen.pop(visitor, None)
        self._chosen[visitor] = spec
        while len(self._chosen) > MOST_CHOICES:
            self._chosen.pop(next(iter(self._chosen)))

    def forget(self, visitor: str) -> None:
        self._chosen.pop(visitor, None)

    def add(self, models: Models, licences: Mapping[str, str]) -> None:
        self._loaded[models.spec] = Family(models, licences, used=next(self._uses))

    def renew(self, models: Models) -> None:
        """Replace a family that has been measured again, unless it was unloaded meanwhile."""
        if models.spec in self:
            self._loaded[models.spec].models = models

    @property
    def spare_bytes(self) -> int:
        """Memory of the families that may be unloaded."""
        return sum(one.models.nbytes for one in self if not one.stays)

    def make_room(self, nbytes: int) -> list[Models]:
        """Unload the least recently used until so much memory is free, and return what was unloaded."""
        gone = []
        while memory.free() < nbytes and (going := [one for one in self if not one.stays]):
            least = min(going, key=lambda one: one.used)
            gone.append(self._loaded.pop(least.models.spec).models)
            del least, going
            memory.release()
        return gone


class ServerState:
    """`families` begin with `models` and `further` ones. A visitor's load holds `changing`. `drafters` are by visitor
    (`growing_job.Drafter`)."""

    def __init__(self, models: Models, limits: Limits | None = None, further: tuple[Models, ...] = ()):
        self.families = Families([models, *further])
        self.limits = limits or Limits.of()
        self.runs = Runs()
        self.changing = Lock()
        self.drafters: dict[str, Any] = {}

    @property
    def models(self) -> Models:
        return self.families.first.models

    def models_for(self, visitor: str | None, family: str | None = None) -> Models:
        """The models of a family, or of the visitor's choice, with the head that the visitor has trained and kept for them.
        Raises `ModelError` for a family that is not loaded."""
        models = (self.families.of(visitor) if family is None else self.families.named(family)).models
        drafter = self.drafters.get(visitor or "")
        return drafter.kept if drafter and drafter.kept and drafter.models is models else models

    def make_room(self, nbytes: int) -> None:
        """Unload families, and the heads trained for them, until so much memory is free."""
        for gone in self.families.make_room(nbytes):
            for visitor, drafter in list(self.drafters.items()):
                if drafter.models is gone:
                    self.drafters.pop(visitor, None)

    def forget(self, visitor: str) -> None:
        self.drafters.pop(visitor, None)
        self.families.forget(visitor)
