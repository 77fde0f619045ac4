"""The families that a server has loaded, side by side, and which of them a visitor has chosen.

The first is everybody's who has chosen none. Those that the server was started with stay; of the others, which visitors
have loaded, the least used are let go where memory is short. A race that has begun goes on with the models it began with.

Knows loaded models, what they are called and what they take. It does not know how they are brought.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from itertools import count

from ..core import memory
from ..core.events import ModelError
from ..family import sources
from ..family.models import Models
from ..measure.scenarios import USUAL
from ..model import layer_skip
from ..model.heads.shape import KINDS
from ..servers.addresses import is_servers, offered

MOST_CHOICES = 10_000  # that are remembered: who calls the API does not say when they have gone
WORDS = {USUAL: "pocket: instant", "smol": "SmolLM2: real answers"}


def bundled() -> list[str]:
    """The families that come with the app, the usual one first."""
    return sorted(sources.bundled(), key=lambda name: name != USUAL)


def described(spec: str) -> str:
    """What a family is called where one is chosen."""
    return WORDS.get(spec) or offered().get(spec) or spec


@dataclass(slots=True, eq=False)
class Family:
    """A loaded family. `licences` are those of its models by name, where they are known; `stays` is set if it is never
    unloaded."""

    models: Models
    licences: Mapping[str, str] = field(default_factory=dict)
    stays: bool = False
    used: int = 0  # the greater, the later


class Families:
    """Families by what they were loaded as."""

    def __init__(self, models: Iterable[Models]):
        self._loaded = {one.spec: Family(one, stays=True) for one in models}
        self._chosen: dict[str, str] = {}  # by visitor
        self._uses = count(1)

    def __contains__(self, spec: str) -> bool:
        return spec in self._loaded

    def __iter__(self):
        """Those that are loaded, the first one first."""
        return iter(list(self._loaded.values()))

    @property
    def first(self) -> Family:
        """Everybody's who has chosen none."""
        return next(iter(self._loaded.values()))

    @property
    def usual(self) -> Family:
        """The one that lessons were written with, and that links mean which name none; else the first."""
        return self.shown(USUAL)

    def shown(self, spec: str) -> Family:
        """The family of that name, as long as it is loaded; else the first."""
        return self._loaded.get(spec, self.first)

    def draft_models(self, spec: str) -> list[str]:
        """Names of a family's draft models, as far as it is loaded."""
        return self._loaded[spec].models.draft_models if spec in self else []

    def drafters(self, spec: str) -> set[str]:
        """Names of a family's draft models and trained heads: of one that is not loaded yet, those that lie beside it."""
        if spec in self:
            models = self._loaded[spec].models
            return {*models.drafts, *models.heads}
        if is_servers(spec):  # theirs is their owner's choice
            return {"draft", *KINDS}
        return {layer_skip.ROLE, *sources.places(spec)} - {"target"}

    def chats(self, spec: str) -> bool:
        """Whether its models answer a chat message rather than go on with a text."""
        return spec != USUAL and (spec not in self or bool(self._loaded[spec].models.tokenizer.chat_template))

    def named(self, spec: str) -> Family:
        """The family of that name; the first for the usual name where that is not loaded. Raises `ModelError`."""
        family = self._loaded.get(spec) or (self.first if spec in ("", USUAL) else None)
        if family is None:
            have = ", ".join(self._loaded)
            raise ModelError("family", spec, f"it is not loaded; choose one of {have}, or load it in the Models tab.")
        family.used = next(self._uses)
        return family

    def of(self, visitor: str | None) -> Family:
        """The family that a visitor has chosen, as long as it is loaded; else the first."""
        family = self.shown(self._chosen.get(visitor or "", ""))
        family.used = next(self._uses)
        return family

    def choose(self, visitor: str, spec: str) -> None:
        """A visitor's choice, which need not be loaded yet."""
        self._chosen.pop(visitor, None)
        self._chosen[visitor] = spec
        while len(self._chosen) > MOST_CHOICES:
            self._chosen.pop(next(iter(self._chosen)))

    def forget(self, visitor: str) -> None:
        """Whose choice is not needed any more."""
        self._chosen.pop(visitor, None)

    def add(self, models: Models, licences: Mapping[str, str]) -> None:
        """Another family, beside the others."""
        self._loaded[models.spec] = Family(models, licences, used=next(self._uses))

    def renew(self, models: Models) -> None:
        """The same family, measured again; one that has been let go meanwhile stays away."""
        if models.spec in self:
            self._loaded[models.spec].models = models

    @property
    def spare_bytes(self) -> int:
        """What those that may be let go take of memory."""
        return sum(one.models.nbytes for one in self if not one.stays)

    def make_room(self, nbytes: int) -> list[Models]:
        """Let the least used go until so much memory is free, or only those are left that stay; returns what has gone."""
        gone = []
        while memory.free() < nbytes and (going := [one for one in self if not one.stays]):
            least = min(going, key=lambda one: one.used)
            gone.append(self._loaded.pop(least.models.spec).models)
            del least, going
            memory.release()
        return gone
