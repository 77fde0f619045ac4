"""The web server: one port and one application, from the first second to the end.

The port opens before torch and Gradio are imported. A browser whose connection is refused shows an error and does not try
again. During loading, `/` plays a recording, `/loading` reports the progress as JSON, and all other addresses
return 503. `serve_routes` replaces these routes between two requests. The loading page then reloads itself, with the same
address and playhead.
"""

import html
import signal
import socket
from collections.abc import Sequence
from contextlib import ExitStack
from functools import lru_cache
from typing import Any

import anyio
import uvicorn
from anyio.abc import SocketAttribute
from anyio.from_thread import start_blocking_portal
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import HTMLResponse, JSONResponse, PlainTextResponse
from starlette.routing import Mount, Route

from ..core.numbers import percent
from ..measure.scenarios import ALL_SCENARIOS
from ..trace import assets
from .runs import parse_pass, recording

BY_ID = {scenario.id: scenario for scenario in ALL_SCENARIOS}
FIRST_PORT, PORTS = 7860, 100  # as Gradio chooses, if none is set
CAPTION = "A recording from {cpu}, while this machine gets ready."
TITLE = "Lookahead: speculative decoding, seen and measured"
NO_ICON = '<link rel="icon" href="data:,">\n'  # else a browser requests one
SIGNALS = (signal.SIGTERM, signal.SIGINT)
CLOSING_S = 5  # for open connections to end
FRESH = {"Cache-Control": "no-store"}
RETRY = FRESH | {"Retry-After": "2"}


class WebServer:
    """Serve `app` in a separate thread. `set_progress` reports the progress of loading, `serve_routes` ends it.

    Without a `port`, it uses the first free one from 7860 on. Raises `OSError` if there is none.
    """

    def __init__(self, host: str, port: int | None):
        ports = range(port, port + 1) if port is not None else range(FIRST_PORT, FIRST_PORT + PORTS)
        with ExitStack() as running:
            self._portal = running.enter_context(start_blocking_portal(name="lookahead-web"))
            sockets = self._portal.call(_listening, host, ports)
            self._running = running.pop_all()
        self.host, self.port = host, sockets[0].getsockname()[1]
        self.url = f"http://{'localhost' if host == '0.0.0.0' else host}:{self.port}"  # from this machine
        self.text, self.share = "starting", 0.0
        progress = [Route(path, self._progress) for path in ("/loading", "/healthz")]
        self._while_loading = [Route("/", self._loading_page), *progress, Mount("", self._unavailable)]
        self.app = Starlette(routes=self._while_loading)
        # Without a configuration, uvicorn adds no handlers to the log. Its warnings are about requests that are not HTTP.
        config = uvicorn.Config(
            self.app, lifespan="off", log_level="error", log_config=None, server_header=False,
            timeout_graceful_shutdown=CLOSING_S,
        )  # fmt: skip
        self._server = uvicorn.Server(config)
        self._serving = self._portal.start_task_soon(self._server.serve, sockets)

    def set_progress(self, text: str, share: float) -> None:
        self.text, self.share = text, share

    def serve_routes(self, routes: Sequence[Route]) -> None:
        """Serve these routes, and those mounted on `app`, from now on. Runs the lifespan of `app`."""
        lifespan = self.app.router.lifespan_context(self.app)
        self._running.enter_context(self._portal.wrap_async_context_manager(lifespan))
        self.app.router.routes[: len(self._while_loading)] = routes  # one atomic step for the thread that reads them

    def close(self) -> None:
        """Close the port, and wait up to `CLOSING_S` for open connections to end."""
        self._server.should_exit = True
        self._serving.result()
        self._running.close()

    def _loading_page(self, request: Request) -> HTMLResponse:
        scenario = request.query_params.get("recording", "")
        at = parse_pass(request.query_params.get("pass", "")) if scenario else None
        return HTMLResponse(_page(scenario if scenario in BY_ID else ALL_SCENARIOS[0].id, at), headers=FRESH)

    async def _progress(self, request: Request) -> JSONResponse:
        progress = {"status": "loading", "ready": False, "text": self.text, "share": round(self.share, 2)}
        if request.scope["path"] == "/loading":
            return JSONResponse(progress, headers=FRESH)
        return JSONResponse(progress, 503, headers=RETRY)

    async def _unavailable(self, *connection: Any) -> None:
        text = f"Lookahead is loading: {self.text}, {percent(self.share)}. Try again in a few seconds.\n"
        await PlainTextResponse(text, 503, headers=RETRY)(*connection)


async def _listening(host: str, ports: range) -> list[socket.socket]:
    """Return sockets on the first free port, one for each address of the host. Raises `OSError` if none is free."""
    if not 0 <= ports[0] < 1 << 16:
        raise OSError("a port is a number from 0 to 65535")
    for port in ports:
        try:
            opened = await anyio.create_tcp_listener(local_host=host.strip("[]") or None, local_port=port, backlog=512)
            return [listener.extra(SocketAttribute.raw_socket) for listener in opened.listeners]
        except OSError:
            if port == ports[-1]:
                raise


@lru_cache(maxsize=len(ALL_SCENARIOS))
def _page(scenario: str, at: int | None) -> str:
    allowed = "connect-src 'self'; img-src data:; "
    prompt, batch = html.escape(BY_ID[scenario].prompt), recording(scenario, at, CAPTION)
    return assets.document("waiting", TITLE, head=NO_ICON, allowed=allowed, prompt=prompt, batch=batch)
