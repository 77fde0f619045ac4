"""Races between the servers that the operator has named: what a visitor can choose, and how such a race is made.

A choice is written like a family, `servers:plain,fast`, so that forms, links and traces carry it. It holds names alone:
addresses and keys stay in the environment.

Knows names, limits and forms. It does not know HTTP.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from ..core.events import SettingsError
from ..measure.attach.race import ServerRace
from ..measure.attach.servers import RemoteError, Server, named
from .form import options

PREFIX = "servers:"
UNCHANGED = {"top_k": 0, "top_p": 1, "repetition_penalty": 1, "stop": ()}


def offered() -> dict[str, str]:
    """What can be chosen, and how it is called: each server beside the first that is named."""
    first, *others = named() or [""]
    return {f"{PREFIX}{first},{other}": f"{other} beside {first}" for other in others}


def is_servers(spec: str) -> bool:
    """Whether a family's name means servers."""
    return spec.startswith(PREFIX)


def servers_of(spec: str) -> list[Server]:
    """The servers of a choice. Raises `RemoteError` for a name that the operator has not given."""
    known = named()
    names = spec.removeprefix(PREFIX).split(",")
    for name in names:
        if name not in known:
            raise RemoteError(name[:80], f"it is not one of this app's: {', '.join(known) or 'it has none'}.")
    return [known[name] for name in names]


def race(spec: str, prompt: Any, fields: Mapping[str, Any]) -> ServerRace:
    """The race of a form. Raises a `LookaheadError` for what servers are not asked here, and where they cannot be reached."""
    given = options(fields)
    if given.get("temperature"):
        raise SettingsError("temperature", given["temperature"], "servers are raced at temperature 0.")
    for name, usual in UNCHANGED.items():
        if given.get(name, usual) != usual:
            raise SettingsError(name, given[name], "servers are raced without; leave it as it was.")
    return ServerRace(servers_of(spec), prompt, given.get("max_new_tokens", 128), bool(given.get("chat")))
