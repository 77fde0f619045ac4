"""What the host of a server allows its visitors and has told, from environment variables; one table, `VARIABLES`, says all.

A value that cannot be read stops the server at its start with a clear error: a limit that is silently not in force is
worse than none.

Knows names and numbers. It does not know who asks.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass, fields
from typing import Any, TypeVar

from .events import SettingsError

T = TypeVar("T")
LOADING = ("any", "listed", "none")
PREFIX = "LOOKAHEAD_"
MARKS = ("<!-- limits -->", "<!-- /limits -->")
CHOICES = {"loading": LOADING, "log": ("text", "json")}
RANGES = {"max_lanes": (2, 4), "max_waiting": (1, 1000), "max_model_gb": (0, 10**9)}  # else from 1


@dataclass(frozen=True, slots=True)
class Limits:
    """Every field is the environment variable LOOKAHEAD_<NAME>; `VARIABLES` says what it means."""

    max_prompt_chars: int = 20_000
    max_new_tokens: int = 2_000
    max_lanes: int = 4
    max_run_s: float = 300.0
    max_waiting: int = 64
    loading: str = "any"
    max_model_gb: float = 0.0

    @classmethod
    def of(cls, environment: Mapping[str, str] = os.environ) -> Limits:
        """The limits that an environment sets. Raises `SettingsError` naming the variable."""
        return _given(cls, environment)

    def check(self, prompt: Any = "", max_new_tokens: Any = 0, lanes: int = 0) -> None:
        """Raise `SettingsError` for what is more than this host allows; what is wrong besides is the settings' business."""
        if isinstance(prompt, (str, list)) and len(prompt) > self.max_prompt_chars:
            raise SettingsError(
                "prompt",
                f"{len(prompt):,} characters",
                f"this server's limit is {self.max_prompt_chars:,}; shorten it.",
            )
        if isinstance(max_new_tokens, (int, float)) and max_new_tokens > self.max_new_tokens:
            raise SettingsError("max_new_tokens", max_new_tokens, f"this server's limit is {self.max_new_tokens:,}.")
        if lanes > self.max_lanes:
            raise SettingsError("lanes", lanes, f"this server's limit is {self.max_lanes}, naive included.")


@dataclass(frozen=True, slots=True)
class Telling:
    """What a server tells about itself, and to whom. Fields as those of `Limits`."""

    log: str = "text"
    log_prompts: bool = False
    metrics: bool = False
    revision: str = ""

    @classmethod
    def of(cls, environment: Mapping[str, str] = os.environ) -> Telling:
        """What an environment asks for. Raises `SettingsError` naming the variable."""
        return _given(cls, environment)


VARIABLES = {
    "max_prompt_chars": "longest prompt, characters",
    "max_new_tokens": "most new tokens in a lane",
    "max_lanes": "most lanes in a race, 2 to 4",
    "max_run_s": "seconds of computing after which a run is ended; what it found stays",
    "max_waiting": "most visitors waiting for their turn; the next is asked to come back later",
    "loading": "which models visitors may load: any, listed (the page's own suggestions), none",
    "max_model_gb": "largest family that may be loaded, GB in memory; 0: as much as fits",
    "log": "what is written to stderr: text (lines for people), json (an object a line)",
    "log_prompts": "1: the log may hold prompts and the words of errors; it never does otherwise",
    "metrics": "1: /metrics for Prometheus, where `prometheus_client` is installed",
    "revision": "the git revision that the page names, where there is no git folder to read it from",
}


def table() -> str:
    """`VARIABLES` as a Markdown table, with what holds when nothing is set."""
    defaults = {one.name: one.default for cls in (Limits, Telling) for one in fields(cls)}
    rows = [f"| `{PREFIX}{name.upper()}` | {_shown(defaults[name])} | {says} |" for name, says in VARIABLES.items()]
    return "\n".join(["| variable | unless set | what it does |", "|---|---|---|", *rows])


def _shown(default: Any) -> str:
    if isinstance(default, bool):
        return "0"
    return f"{default:,g}" if isinstance(default, (int, float)) else default


def _given(cls: type[T], environment: Mapping[str, str]) -> T:
    given = {}
    for one in fields(cls):
        name = PREFIX + one.name.upper()
        if (text := environment.get(name, "").strip()) != "":
            given[one.name] = _read(one.name, name, one.type, text)
    return cls(**given)


def _read(field: str, name: str, kind: str, text: str) -> Any:
    if kind == "str":
        if text not in CHOICES.get(field, (text,)):
            raise SettingsError(name, text, f"choose one of {', '.join(CHOICES[field])}.")
        return text
    if kind == "bool":
        if text not in ("0", "1"):
            raise SettingsError(name, text, "give 1 or 0.")
        return text == "1"
    try:
        value = int(text) if kind == "int" else float(text)
    except ValueError:
        raise SettingsError(name, text, f"give a {'whole ' if kind == 'int' else ''}number.") from None
    low, high = RANGES.get(field, (1, 10**9))
    if not low <= value <= high:
        raise SettingsError(name, text, f"give a number from {low} to {high:,}.")
    return value
