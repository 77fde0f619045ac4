"""Serve the page and the other addresses until a signal comes.

At SIGTERM and SIGINT the queue refuses new jobs and ends the others between two passes. Their pages keep the results so far
with a sentence. The process ends within `END_S`, even if a pass hangs.
"""

import os
import signal
import sys
import threading
from time import monotonic, sleep

import gradio as gr

from ..core import compilers, memory, processor
from ..core.version import VERSION
from ..server import health, logging, votes, zero
from ..server.limits import LogSettings
from ..server.loading_job import finish_loading
from ..server.queue import queue
from ..server.state import ServerState
from ..server.web import SIGNALS, WebServer
from . import api, gradio_internals
from .learn.questions import questions
from .page import build, mount_options, teaching_routes

END_S = 2.0
POLL_S = 0.5
FLUSH_S = 0.6  # for the last events to reach the pages


def serve(server: ServerState, log_settings: LogSettings, web: WebServer, *, share: bool = False) -> None:
    """Serve the page on `web` until a signal comes."""
    stop = threading.Event()
    handlers = {number: signal.signal(number, lambda *_: stop.set()) for number in SIGNALS}
    try:
        page = build(server, log_settings)
        queue.open(server.limits)
        gradio_internals.mount(page, web, personal=api.PERSONAL, **mount_options(server.limits.max_waiting))
        zero.report()
        class_votes = votes.Votes(lambda: questions(server.families.default.models))
        web.serve_routes([*health.routes(server, log_settings), *votes.routes(class_votes), *teaching_routes()])
        _announce(page, web, share)
        memory.release()
        logging.serving()
        logging.event(
            "started", version=VERSION, revision=log_settings.revision, models=",".join(family.models.spec for family in server.families),
            exactness=server.models.exactness, cores=processor.cores(), port=web.port, **server.limits.model_dump(),
        )  # fmt: skip
        for family in server.families:
            if family.models.estimated:
                finish_loading(server, family.models.spec)
        while not stop.wait(POLL_S):  # a wait without a timeout is not interrupted on every system
            pass
    finally:
        for number, handler in handlers.items():
            signal.signal(number, handler)
    _end(page, web)


def _announce(page: gr.Blocks, web: WebServer, share: bool) -> None:
    print(f"* Running on local URL:  http://{web.host}:{web.port}")
    if share and not page.space_id:  # a Space has a public address
        try:
            print(f"* Running on public URL: {gradio_internals.share(page, web)}")
        except Exception as error:  # the network, Gradio's servers, or the downloaded program of the tunnel
            print(f"* No public URL ({error or type(error).__name__}); the page is served at the local one.")
    if page.mcp_server:
        print(f"* MCP server: {page.share_url or web.url}/gradio_api/mcp/")
    sys.stdout.flush()


def _end(page: gr.Blocks, web: WebServer) -> None:
    late = threading.Timer(END_S, _leave)
    late.daemon = True
    late.start()
    busy, closed_at = not queue.idle(), monotonic()
    queue.close()
    while not queue.idle() and monotonic() - closed_at < END_S / 2:
        sleep(0.02)
    if busy:
        sleep(FLUSH_S)
    compilers.stop()
    gradio_internals.close(page)
    web.close()
    logging.event("ended", seconds=round(monotonic() - closed_at, 2))


def _leave() -> None:
    compilers.stop()
    logging.event("ended", seconds=END_S, waited_for="a pass that hangs")
    sys.stdout.flush()
    os._exit(0)
