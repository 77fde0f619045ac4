"""The page before the page: it answers from the first second on, while torch, the models and Gradio are still to come.

Those take seconds to import and more to measure, and a browser that is refused shows an error and does not come back.
So the port is opened first, by the standard library alone. Until the app is there, `/` plays the bundled recording
beside a Race button that says how far loading is; `/loading` says it as JSON; everything else, `/healthz` too, is
answered 503. Then `hand_over` gives the listening sockets away, open: whoever connects meanwhile waits in the system's
queue and is answered by the app. The page notices, keeps the address and the playhead, and reloads itself.

Knows sockets, HTTP, recordings and the page's files. It does not know Gradio or torch, nor what takes the time.
"""

from __future__ import annotations

import errno
import html
import json
import os
import signal
import socket
import threading
from contextlib import suppress
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any
from urllib.parse import parse_qs

from ..core.numbers import percent
from ..measure.scenarios import EVERY
from ..trace import assets
from . import logging
from .recording import passed, recording

FIRST_PORT, PORTS = 7860, 100  # as Gradio chooses, where none is given
IDLE_S = 10.0  # a browser opens connections ahead of requests
AGAIN_S = "2"
CAPTION = "A recording from {cpu}, while this machine gets ready."
TITLE = "Lookahead: speculative decoding, seen and measured"
NO_ICON = '<link rel="icon" href="data:,">\n'  # else a browser requests one
NO_SUCH_ADDRESS = (errno.EADDRNOTAVAIL, errno.EAFNOSUPPORT)
SIGNALS = (signal.SIGTERM, signal.SIGINT)


class Waiting:
    """Listens at once; `tell` says how far loading is, `hand_over` and `close` end it.

    Raises `OSError` where the port cannot be had. `port` None: the first free one from 7860 on.
    """

    def __init__(self, host: str, port: int | None):
        ports = [port] if port is not None else range(FIRST_PORT, FIRST_PORT + PORTS)
        self.sockets = _listening(host, ports)
        self.host, self.port = host, self.sockets[0].getsockname()[1]
        self.text, self.share = "starting", 0.0
        self._pages: dict[tuple[str, int | None], bytes] = {}
        self._servers = [_Server(one, self) for one in self.sockets]
        for server in self._servers:
            threading.Thread(target=server.serve_forever, args=(0.02,), daemon=True, name="lookahead-waiting").start()

    def tell(self, text: str, share: float) -> None:
        """What is being done, and how much of all of it is, from 0 to 1."""
        self.text, self.share = text, share

    def hand_over(self) -> list[socket.socket]:
        """Stop answering; the sockets go on listening and are the caller's now."""
        for server in self._servers:
            server.end()
        return self.sockets

    def close(self) -> None:
        """Stop answering and listening."""
        for one in self.hand_over():
            one.close()

    def page(self, query: str) -> bytes:
        """The page for an address with that query."""
        fields = {name: values[-1] for name, values in parse_qs(query).items()}
        scenario = next((one for one in EVERY if one.id == fields.get("recording")), EVERY[0])
        key = scenario.id, passed(fields.get("pass", "")) if "recording" in fields else None
        if key not in self._pages and len(self._pages) < len(EVERY):  # whatever a link says, not many are kept
            self._pages[key] = _page(*key, scenario.prompt)
        return self._pages.get(key) or _page(*key, scenario.prompt)


def end_at_signals() -> None:
    """Have SIGTERM and SIGINT end the process at once: nothing that is being loaded needs an end of its own."""
    for number in SIGNALS:
        signal.signal(number, lambda *_: os._exit(0))


def _listening(host: str, ports: range | list[int]) -> list[socket.socket]:
    """Sockets on the first of these ports that is free, one for each address of the host."""
    *others, last = ports
    for port in others:
        with suppress(OSError):
            return _bound(host, port)
    return _bound(host, last)


def _bound(host: str, port: int) -> list[socket.socket]:
    if not 0 <= port < 1 << 16:
        raise OSError("a port is a number from 0 to 65535")
    addresses = socket.getaddrinfo(host.strip("[]") or None, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE)
    sockets: list[socket.socket] = []
    for family, *_, address in dict.fromkeys(addresses):
        if port == 0 and sockets:  # one that the system chose is free for one address
            break
        try:
            sockets.append(socket.create_server(address, family=family, backlog=512))
        except OSError as error:
            if error.errno in NO_SUCH_ADDRESS and family == socket.AF_INET6 and len(addresses) > 1:
                continue  # a machine without IPv6 that has the name "localhost" for it
            for one in sockets:
                one.close()
            raise
        sockets[-1].setblocking(False)
    if not sockets:
        raise OSError(f"{host} has no address on this machine")
    return sockets


class _Server(ThreadingHTTPServer):
    """One socket's server, which can let go of the socket without closing it."""

    def __init__(self, listening: socket.socket, waiting: Waiting):
        super().__init__(listening.getsockname()[:2], _Handler, bind_and_activate=False)
        self.socket.close()
        self.socket, self.waiting, self.ended = listening, waiting, False

    def handle_error(self, *_: Any) -> None:
        """A request that cannot be answered is a line in the log, without its traceback."""
        logging.failed("request")

    def end(self) -> None:
        """Take no more connections; requests on those that were opened ahead are redirected to the app."""
        self.ended = True
        self.shutdown()


class _Handler(BaseHTTPRequestHandler):
    """One request, one answer, and the connection is closed."""

    server: _Server
    server_version, sys_version, timeout = "Lookahead", "", IDLE_S

    def do_GET(self) -> None:
        """The page, how far loading is, or "not yet"."""
        waiting, (path, _, query) = self.server.waiting, self.path.partition("?")
        progress = {"status": "loading", "ready": False, "text": waiting.text, "share": round(waiting.share, 2)}
        if self.server.ended:  # a new connection reaches the app
            self._answer(307, "text/plain", b"", Location="/" + self.path.lstrip("/"))
        elif path == "/":
            self._answer(200, "text/html; charset=utf-8", waiting.page(query))
        elif path in ("/loading", "/healthz"):
            self._answer(200 if path == "/loading" else 503, "application/json", json.dumps(progress).encode())
        else:
            text = f"Lookahead is loading: {waiting.text}, {percent(waiting.share)}. Try again in a few seconds.\n"
            self._answer(503, "text/plain; charset=utf-8", text.encode())

    do_HEAD = do_POST = do_GET

    def _answer(self, status: int, kind: str, body: bytes, **headers: str) -> None:
        self.send_response(status)
        headers |= {"Content-Type": kind, "Content-Length": str(len(body)), "Cache-Control": "no-store"}
        headers |= {"Retry-After": AGAIN_S} if status == 503 else {}
        for name, value in headers.items():
            self.send_header(name, value)
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(body)

    def log_message(self, *_: object) -> None:
        """Nothing is logged of a visitor."""

    def handle(self) -> None:
        with suppress(OSError):  # a visitor who did not wait for the answer
            super().handle()


def _page(scenario: str, at: int | None, prompt: str) -> bytes:
    """One self-contained page; its policy lets it ask this server alone."""
    return assets.document(
        "waiting",
        TITLE,
        head=NO_ICON,
        allowed="connect-src 'self'; img-src data:; ",
        prompt=html.escape(prompt),
        batch=recording(scenario, at, CAPTION),
    ).encode()
