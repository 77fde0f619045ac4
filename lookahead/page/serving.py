"""From start to end of a server: the page launched, its addresses beside it, and an end that loses nobody's recording.

At SIGTERM and SIGINT nobody is let in any more, what runs is ended between two passes, its page gets what it has with
words, and the process is over within `END_S`, whatever hangs.

Knows signals and the page that answered before. It does not know what is on the page.
"""

from __future__ import annotations

import os
import signal
import sys
import threading
from time import monotonic, sleep
from typing import Any

import gradio as gr

from ..core import memory, processor
from ..core.version import VERSION
from ..server import health, logging
from ..server.limits import Telling
from ..server.measuring_job import WhenQuiet
from ..server.queue import queue
from ..server.state import ServerState
from ..server.waiting import SIGNALS, Waiting
from . import api, gradio_internals
from .page import build, launch_options

END_S = 2.0
LOOK_S = 0.5
LAST_WORDS_S = 0.6  # for what was added last to reach the pages


def serve(server: ServerState, telling: Telling, waiting: Waiting, **launch: Any) -> None:
    """Serve the page where `waiting` listens, until a signal comes."""
    stop = threading.Event()
    before = {number: signal.signal(number, lambda *_: stop.set()) for number in SIGNALS}
    try:
        page = build(server, telling)
        queue.open(server.limits)
        options = launch_options(server.limits.max_waiting)
        options["app_kwargs"] |= {"routes": health.routes(server, telling)}
        gradio_internals.launch(page, waiting.host, waiting.port, waiting.hand_over, api.PERSONAL, **options, **launch)
        memory.release()
        logging.serving()
        logging.event(
            "started", version=VERSION, revision=telling.revision, models=",".join(family.models.spec for family in server.families),
            exactness=server.models.exactness, cores=processor.cores(), port=page.server_port, **server.limits.model_dump(),
        )  # fmt: skip
        quiet = WhenQuiet(server)
        while not stop.wait(LOOK_S):
            quiet.tick(LOOK_S)
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
    _end(page)


def _end(page: gr.Blocks) -> None:
    """Shut down: gently, and in any case in time."""
    late = threading.Timer(END_S, _leave)
    late.daemon = True
    late.start()
    busy, begun = not queue.idle(), monotonic()
    queue.close()
    while not queue.idle() and monotonic() - begun < END_S / 2:
        sleep(0.02)
    if busy:
        sleep(LAST_WORDS_S)
    gradio_internals.close(page)
    logging.event("ended", seconds=round(monotonic() - begun, 2))


def _leave() -> None:
    """A pass hangs, or a connection does not close: neither may keep the process."""
    logging.event("ended", seconds=END_S, waited_for="what hangs")
    sys.stdout.flush()
    os._exit(0)
