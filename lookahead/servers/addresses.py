"""Addresses and keys of servers, and the names with which visitors choose them.

The operator sets `LOOKAHEAD_SERVERS="fast=https://..., plain=https://..."`, and a key for each in
`LOOKAHEAD_SERVER_KEY_<NAME>`. `LOOKAHEAD_SERVER_REQUEST_<NAME>` is a JSON object whose fields are added to every request, so one
server can have two names, one of them without speculation. No message and no `repr` contains a key or an address.

In forms, links and traces, a visitor's choice has the form `servers:plain,fast`, in place of a family. It has names only.
"""

import json
import os
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any
from urllib.parse import urlsplit

from ..core.events import LookaheadError, SettingsError

SERVERS, KEY, REQUEST = "LOOKAHEAD_SERVERS", "LOOKAHEAD_SERVER_KEY_", "LOOKAHEAD_SERVER_REQUEST_"
NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9_-]{0,39}")
MAX_SERVERS = 32
PREFIX = "servers:"


class RemoteError(LookaheadError):
    """A server cannot be reached, refuses a request, or sends an invalid response. The message has its name, not its address."""

    def __init__(self, name: str, hint: str, status: int | None = None):
        super().__init__("server", name, hint)
        self.status = status  # HTTP status of a refused request


@dataclass(frozen=True, slots=True)
class Server:
    """The address of a server. The fields of `request` are added to every request."""

    name: str
    url: str = field(repr=False)
    key: str | None = field(default=None, repr=False)
    request: Mapping[str, Any] = field(default_factory=dict, repr=False)

    def redact(self, text: str) -> str:
        """Return a text from the server without its address and key."""
        for secret in filter(None, (self.key, self.url)):
            text = text.replace(secret, "...")
        return text


def server_at(url: str, name: str, environ: Mapping[str, str] = os.environ, variable: str = "url") -> Server:
    """Return the server at an address. Raises `SettingsError` if the address is malformed."""
    try:
        parts = urlsplit(url.strip())
        is_address = parts.scheme in ("http", "https") and parts.hostname and parts.port != 0
    except ValueError:  # a port above 65535, or an unclosed bracket
        is_address = False
    if not is_address or parts.query or parts.fragment:
        raise SettingsError(variable, name, "give an address such as http://localhost:8000.")
    suffix = name.upper().replace("-", "_")
    if parts.username or parts.password:
        raise SettingsError(variable, name, f"put its key into {KEY}{suffix} instead of the address.")
    base = url.strip().rstrip("/").removesuffix("/v1")
    key = environ.get(KEY + suffix, "").strip()
    if not key.isascii() or not key.isprintable():
        raise SettingsError(KEY + suffix, "...", "a key must have printable ASCII characters only.")
    return Server(name, base, key or None, _request(REQUEST + suffix, environ))


def _request(variable: str, environ: Mapping[str, str]) -> dict[str, Any]:
    try:
        request = json.loads(environ.get(variable) or "{}")
        json.dumps(request, ensure_ascii=False, allow_nan=False).encode()  # as in a request
    except (ValueError, RecursionError):
        request = None
    if not isinstance(request, dict):
        raise SettingsError(variable, "...", 'give a JSON object: {"speculative.n_max": 0}')
    return request


def named(environ: Mapping[str, str] = os.environ) -> dict[str, Server]:
    """Return name -> server from `LOOKAHEAD_SERVERS`, in order. Raises `SettingsError` if the variable is malformed."""
    servers: dict[str, Server] = {}
    for entry in filter(None, map(str.strip, environ.get(SERVERS, "").split(","))):
        name, equals, url = (part.strip() for part in entry.partition("="))
        if not equals or not NAME.fullmatch(name) or name in servers:
            raise SettingsError(SERVERS, name, 'give names and addresses: "fast=https://..., plain=https://..."')
        servers[name] = server_at(url, name, environ, SERVERS)
    if len(servers) > MAX_SERVERS:
        raise SettingsError(SERVERS, len(servers), f"give at most {MAX_SERVERS}.")
    return servers


def compared_servers(baseline: str | None, speculative: str | None) -> dict[str, Server]:
    """Return the two servers of a comparison, each by address or name. Raises `SettingsError` if one is missing."""
    servers, sides = named(), {"baseline": baseline, "speculative": speculative}
    for side, text in sides.items():
        if not text:
            raise SettingsError(side, text, "give the addresses of both servers: --baseline URL --speculative URL.")
    return {side: servers.get(text) or server_at(text, side, variable=side) for side, text in sides.items()}


def offered() -> dict[str, str]:
    """Return the pairs that visitors can choose, with labels: each further server with the first one."""
    first, *others = named() or [""]
    return {f"{PREFIX}{first},{other}": f"{other} vs {first}" for other in others}


def is_servers(spec: str) -> bool:
    """Return whether a family's name is a choice of servers."""
    return spec.startswith(PREFIX)


def servers_of(spec: str) -> list[Server]:
    """Return the servers of a choice. Raises `RemoteError` for an unknown name."""
    servers, names = named(), spec.removeprefix(PREFIX).split(",")
    for name in names:
        if name not in servers:
            raise RemoteError(name[:80], f"it is not one of this app's servers: {', '.join(servers) or 'none'}.")
    return [servers[name] for name in names]
