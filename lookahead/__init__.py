"""Lookahead: speculative decoding you can see, feel and measure.

import lookahead

models = lookahead.load("pocket")
for step in lookahead.decode(models, "Once upon a time", method="draft"):
    print(step.emitted, step.origins)

race = lookahead.race(models, "Once upon a time", methods=["naive", "draft"])
for lap in race:
    ...
print(race.result().verdict()["sentence"])

Importing the package is cheap: torch and transformers are imported with the first name that needs them.
"""

from importlib import import_module
from sys import modules
from types import ModuleType
from typing import Any

from .core.version import VERSION as __version__

_HOMES = {
    "core.costs": ("CostCurve", "PassCosts"),
    "core.events": (
        "Draft", "LookaheadError", "MethodError", "ModelError", "PromptError", "Settings", "SettingsError", "Step",
        "Test", "TraceError",
    ),
    "core.table": ("TableLM",),
    "family.exactness": ("Exactness",),
    "family.hub": ("load",),
    "family.models": ("Models",),
    "kernels": ("CachedLM",),
    "race.lane": ("decode",),
    "trace.race": ("Race", "race"),
    "trace.trace": ("Trace",),
    "trace.wire": ("Lap",),
}  # fmt: skip
_HOME = {name: home for home, names in _HOMES.items() for name in names}
__all__ = ["METHODS", "__version__", *_HOME]


def __getattr__(name: str) -> Any:
    if name == "METHODS":  # not kept: a strategy may be registered later
        return import_module(".race.methods", __name__).all_methods()
    if name not in _HOME:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    globals()[name] = value = getattr(import_module(f".{_HOME[name]}", __name__), name)
    return value


class _Package(ModuleType):
    """Keeps `race` a function when the folder of that name is imported."""

    def __setattr__(self, name: str, value: Any) -> None:
        if not (name in _HOME and isinstance(value, ModuleType)):
            super().__setattr__(name, value)


modules[__name__].__class__ = _Package
