"""What the host of a server allows its visitors, from environment variables; one table, `VARIABLES`, says all of them.

A value that cannot be read stops the server at its start with a clear error: a limit that is silently not in force is
worse than none.

Knows names and numbers. It does not know who asks.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass, fields

from .events import SettingsError

LOADING = ("any", "listed", "none")
PREFIX = "LOOKAHEAD_"


@dataclass(frozen=True, slots=True)
class Limits:
    """Every field is the environment variable LOOKAHEAD_<NAME>; `VARIABLES` says what it means."""

    max_prompt_chars: int = 20_000
    max_new_tokens: int = 2_000
    max_lanes: int = 4
    max_run_s: float = 120.0
    max_waiting: int = 64
    loading: str = "any"
    max_model_gb: float = 0.0

    @classmethod
    def of(cls, environment: Mapping[str, str] = os.environ) -> Limits:
        """The limits that an environment sets. Raises `SettingsError` naming the variable."""
        given = {}
        for one in fields(cls):
            name = PREFIX + one.name.upper()
            if (text := environment.get(name, "").strip()) != "":
                given[one.name] = _read(name, one.type, text)
        return cls(**given)


VARIABLES = {
    "max_prompt_chars": "longest prompt, characters",
    "max_new_tokens": "most new tokens in a lane",
    "max_lanes": "most lanes in a race, 2 to 4",
    "max_run_s": "seconds of computing after which a run is ended; what it found stays",
    "max_waiting": "most visitors waiting for their turn; the next is asked to come back later",
    "loading": "which models visitors may load: any, listed (the page's own suggestions), none",
    "max_model_gb": "largest family that may be loaded, GB in memory; 0: as much as fits",
}


def _read(name: str, kind: str, text: str) -> int | float | str:
    if kind == "str":
        if text not in LOADING:
            raise SettingsError(name, text, f"choose one of {', '.join(LOADING)}.")
        return text
    try:
        value = int(text) if kind == "int" else float(text)
    except ValueError:
        raise SettingsError(name, text, f"give a {'whole ' if kind == 'int' else ''}number.") from None
    low, high = (2, 4) if name.endswith("LANES") else (0, 10**9)
    if not low <= value <= high or (value == 0 and name != PREFIX + "MAX_MODEL_GB"):
        raise SettingsError(name, text, f"give a number from {max(low, 1)} to {high:,}.")
    return value
