"""From start to end of a server: the page launched, its addresses beside it, and an end that loses nobody's recording.

At SIGTERM and SIGINT nobody is let in any more, what runs is ended between two passes, its page gets what it has with
words, and the process is over within `END_S`, whatever hangs.

Knows Gradio's launch and signals. It does not know what is on the page.
"""

from __future__ import annotations

import os
import signal
import sys
import threading
from collections.abc import Callable
from time import monotonic, sleep
from typing import Any

import gradio as gr
from gradio import networking
from gradio.tunneling import CURRENT_TUNNELS
from gradio.utils import get_upload_folder

from .. import room
from ..cost import cores
from ..limits import Telling
from ..version import VERSION
from . import journal, ops
from .desk import desk
from .page import build, launch_options
from .stage import Stage
from .visitors import Iterators

END_S = 2.0
LAST_WORDS_S = 0.6  # for what was added last to reach the pages
SIGNALS = (signal.SIGTERM, signal.SIGINT)


def serve(stage: Stage, telling: Telling, **launch: Any) -> None:
    """Serve the page until a signal comes. Raises `OSError` where the port cannot be had."""
    stop = threading.Event()
    before = {number: signal.signal(number, lambda *_: stop.set()) for number in SIGNALS}
    try:
        page = build(stage, telling)
        desk.open(stage.limits)
        # What a public link needs would else be written into the working directory.
        networking.CERTIFICATE_PATH = os.path.join(get_upload_folder(), "certificate.pem")
        options = launch_options(stage.limits.max_waiting)
        options["app_kwargs"] |= {"routes": ops.routes(stage, telling)}
        app, _, _ = page.launch(prevent_thread_lock=True, **options, **launch)
        app.iterators = Iterators()
        room.release()
        if telling.log == "json":
            journal.adopt()
        journal.say(
            "started", version=VERSION, revision=telling.revision, models=stage.models.spec,
            exactness=stage.models.exactness, cores=cores(), port=page.server_port, **_limits(stage),
        )  # fmt: skip
        while not stop.wait(0.5):
            pass
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
    _end(page)


def _end(page: gr.Blocks) -> None:
    """Shut down: gently, and in any case in time."""
    late = threading.Timer(END_S, _leave)
    late.daemon = True
    late.start()
    busy, begun = not desk.idle(), monotonic()
    desk.close()
    while not desk.idle() and monotonic() - begun < END_S / 2:
        sleep(0.02)
    if busy:
        sleep(LAST_WORDS_S)
    for tunnel in CURRENT_TUNNELS:  # of --share: Gradio would kill them where it waits itself
        tunnel.kill()
    page.close(verbose=False)
    journal.say("ended", seconds=round(monotonic() - begun, 2))


def _leave(out: Callable[[int], Any] = os._exit) -> None:
    """A pass hangs, or a connection does not close: neither may keep the process."""
    journal.say("ended", seconds=END_S, waited_for="what hangs")
    sys.stdout.flush()
    out(0)


def _limits(stage: Stage) -> dict[str, Any]:
    return {name: getattr(stage.limits, name) for name in type(stage.limits).__slots__}
