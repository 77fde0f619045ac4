"""Lookahead: see and measure speculative decoding.

import lookahead

models = lookahead.load("pocket")
for step in lookahead.decode(models, "Once upon a time", method="draft"):
    print(step.emitted, step.origins)

race = lookahead.race(models, "Once upon a time", methods=["naive", "draft"])
for lane_step in race:
    ...
print(race.result().verdict().sentence)

The import of the package is fast. torch and transformers are imported with the first name that needs them.
"""

from typing import Any

import lazy_loader

from .core.version import VERSION as __version__

_load, __dir__, _names = lazy_loader.attach_stub(__name__, __file__)
__all__ = ["METHODS", "__version__", *_names]


def __getattr__(name: str) -> Any:
    if name == "METHODS":  # not cached: a strategy may be registered later
        from .engine.methods import all_methods

        return all_methods()
    return _load(name)
