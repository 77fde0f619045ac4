"""Servers by name: where they are, what opens them, and what runs there.

An operator names them, `LOOKAHEAD_SERVERS="fast=https://..., plain=https://..."`, with a key for each in
`LOOKAHEAD_SERVER_KEY_<NAME>`. A key stands in no message and in no representation. Visitors choose names. What is to be asked
for besides stands in `LOOKAHEAD_SERVER_REQUEST_<NAME>`, a JSON object: so one server may go by two names, of which one switches
speculation off a request at a time.

Knows addresses. It does not know what is asked there.
"""

from __future__ import annotations

import json
import os
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any
from urllib.parse import urlsplit

from ...core.events import LookaheadError, SettingsError

SERVERS, KEY, REQUEST = "LOOKAHEAD_SERVERS", "LOOKAHEAD_SERVER_KEY_", "LOOKAHEAD_SERVER_REQUEST_"
NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9_-]{0,39}")
MOST_SERVERS = 32


class RemoteError(LookaheadError):
    """A server that cannot be reached, refuses, or answers what cannot be read. The message names it, not its address."""

    def __init__(self, name: str, sentence: str, status: int | None = None):
        super().__init__("server", name, sentence)
        self.status = status  # of a refusal


@dataclass(frozen=True, slots=True)
class Server:
    """Where a server is. `model` None is the first that it names, `request` what every text is asked for with besides."""

    name: str
    url: str = field(repr=False)
    key: str | None = field(default=None, repr=False)
    model: str | None = None
    request: Mapping[str, Any] = field(default_factory=dict, repr=False)

    @property
    def headers(self) -> dict[str, str]:
        """What opens it."""
        return {"Authorization": f"Bearer {self.key}"} if self.key else {}

    def hidden(self, text: str) -> str:
        """A text of the server's without its address and key."""
        for secret in filter(None, (self.key, self.url)):
            text = text.replace(secret, "...")
        return text


def server_at(url: str, name: str, environ: Mapping[str, str] = os.environ, variable: str = "url") -> Server:
    """A server at an address, `SettingsError` where that is none."""
    try:
        parts = urlsplit(url.strip())
        is_address = parts.scheme in ("http", "https") and parts.hostname and parts.port != 0
    except ValueError:  # a port above 65535, a bracket that is not closed
        is_address = False
    if not is_address or parts.query or parts.fragment:
        raise SettingsError(variable, name, "give an address such as http://localhost:8000.")
    if parts.username or parts.password:
        raise SettingsError(variable, name, f"put its key into {KEY}{_suffix(name)}, not into the address.")
    base = url.strip().rstrip("/").removesuffix("/v1")
    return Server(name, base, _key(name, environ), request=_request(name, environ))


def _key(name: str, environ: Mapping[str, str]) -> str | None:
    """A server's key, None if it has none; `SettingsError` for one that no HTTP header can hold."""
    variable = KEY + _suffix(name)
    key = environ.get(variable, "").strip()
    if not key.isascii() or not key.isprintable():
        raise SettingsError(variable, "...", "a key has printable ASCII characters only.")
    return key or None


def _request(name: str, environ: Mapping[str, str]) -> dict[str, Any]:
    """What a server's texts are asked for with besides; `SettingsError` where it is no JSON object."""
    variable = REQUEST + _suffix(name)
    try:
        request = json.loads(environ.get(variable) or "{}")
        json.dumps(request, ensure_ascii=False, allow_nan=False).encode()  # as it is sent
    except (ValueError, RecursionError):
        request = None
    if not isinstance(request, dict):
        raise SettingsError(variable, "...", 'give a JSON object: {"speculative.n_max": 0}')
    return request


def named(environ: Mapping[str, str] = os.environ) -> dict[str, Server]:
    """The servers that the operator has named, in that order; `SettingsError` where the variable cannot be read."""
    servers: dict[str, Server] = {}
    for entry in filter(None, map(str.strip, environ.get(SERVERS, "").split(","))):
        name, equals, url = (part.strip() for part in entry.partition("="))
        if not equals or not NAME.fullmatch(name) or name in servers:
            raise SettingsError(SERVERS, name, 'give names and addresses: "fast=https://..., plain=https://..."')
        servers[name] = server_at(url, name, environ, SERVERS)
    if len(servers) > MOST_SERVERS:
        raise SettingsError(SERVERS, len(servers), f"give at most {MOST_SERVERS}.")
    return servers


def both(baseline: str | None, speculative: str | None) -> dict[str, Server]:
    """The two servers of a comparison, each by address or by its name in the variable; `SettingsError` where one is missing."""
    names, given = named(), {"baseline": baseline, "speculative": speculative}
    for side, text in given.items():
        if not text:
            raise SettingsError(side, text, "give the addresses of both servers: --baseline URL --speculative URL.")
    return {side: names.get(text) or server_at(text, side, variable=side) for side, text in given.items()}


def _suffix(name: str) -> str:
    return name.upper().replace("-", "_")
