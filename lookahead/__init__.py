"""Lookahead: speculative decoding you can see, feel and measure.

import lookahead

models = lookahead.load("pocket")
for step in lookahead.decode(models, "Once upon a time", method="draft"):
    print(step.emitted, step.origins)

race = lookahead.race(models, "Once upon a time", methods=["naive", "draft"])
for lap in race:
    ...
print(race.result().verdict()["sentence"])
"""

from .cost import CostCurve, Exactness
from .events import (
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
from .hub import load
from .lane import decode
from .lm import CachedLM
from .methods import METHODS
from .models import Models
from .race import Lap, Race, race
from .table import TableLM
from .trace import Trace
from .version import VERSION as __version__

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
