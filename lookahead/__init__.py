"""Lookahead: speculative decoding you can see, feel and measure.

import lookahead

models = lookahead.load("pocket")
for step in lookahead.decode(models, "Once upon a time", method="draft"):
    print(step.emitted, step.origins)

race = lookahead.race(models, "Once upon a time", methods=["naive", "draft"])
for lap in race:
    ...
print(race.result().verdict()["sentence"])

Importing this costs nothing: torch and transformers are imported with the first name that needs them, so whoever wants
limits, recordings or a version (the page that is shown while the rest loads) does not wait for them.
"""

from importlib import import_module
from sys import modules
from types import ModuleType
from typing import TYPE_CHECKING, Any

from .core.version import VERSION as __version__

if TYPE_CHECKING:
    from .core.costs import CostCurve, PassCosts
    from .core.events import (
        Draft,
        LookaheadError,
        MethodError,
        ModelError,
        PromptError,
        Settings,
        SettingsError,
        Step,
        Test,
        TraceError,
    )
    from .core.table import TableLM
    from .family.exactness import Exactness
    from .family.hub import load
    from .family.models import Models
    from .kernels import CachedLM
    from .race.lane import decode
    from .race.methods import METHODS
    from .trace.race import Race, race
    from .trace.trace import Trace
    from .trace.wire import Lap

__all__ = [
    "METHODS",
    "CachedLM",
    "CostCurve",
    "Draft",
    "Exactness",
    "Lap",
    "LookaheadError",
    "MethodError",
    "ModelError",
    "Models",
    "PassCosts",
    "PromptError",
    "Race",
    "Settings",
    "SettingsError",
    "Step",
    "TableLM",
    "Test",
    "Trace",
    "TraceError",
    "__version__",
    "decode",
    "load",
    "race",
]

_HOMES = {
    "core.costs": ("CostCurve", "PassCosts"),
    "core.events": (
        "Draft", "LookaheadError", "MethodError", "ModelError", "PromptError", "Settings", "SettingsError", "Step",
        "Test", "TraceError",
    ),
    "family.exactness": ("Exactness",),
    "family.hub": ("load",),
    "race.lane": ("decode",),
    "kernels": ("CachedLM",),
    "race.methods": ("METHODS",),
    "family.models": ("Models",),
    "trace.race": ("Race", "race"),
    "core.table": ("TableLM",),
    "trace.trace": ("Trace",),
    "trace.wire": ("Lap",),
}  # fmt: skip
_HOME = {name: home for home, names in _HOMES.items() for name in names}


def __getattr__(name: str) -> Any:
    if name not in _HOME:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    value = getattr(import_module(f".{_HOME[name]}", __name__), name)
    if name != "METHODS":  # follows the registry of strategies
        globals()[name] = value
    return value


class _Package(ModuleType):
    """`race` is a function here and a room too: importing the room must not replace the function."""

    def __setattr__(self, name: str, value: Any) -> None:
        if not (name in _HOME and isinstance(value, ModuleType)):
            super().__setattr__(name, value)


modules[__name__].__class__ = _Package
