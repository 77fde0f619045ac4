"""Start the app: the port opens and a recording plays immediately. Then Gradio and the models load."""

from __future__ import annotations

import argparse
import gc
import os
import signal
import sys
from functools import partial
from importlib import import_module

from ..server.writable import use_writable_folders

VARIABLES = {
    "GRADIO_ANALYTICS_ENABLED": "False",
    "HF_HUB_DISABLE_TELEMETRY": "1",
    # Gradio recomputes a table of statistics after every run, which this page does not show.
    "GRADIO_ANALYTICS_MAX_EVENTS": "1",
    "GRADIO_ANALYTICS_CACHE_FREQUENCY": "1000000000",
}
# The share of loading that is done when each part starts, if the costs of the models are known.
TORCH, TRANSFORMERS, GRADIO, MODELS, PAGE = 0.02, 0.15, 0.25, 0.55, 0.92


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the options of `lookahead serve`. Their defaults come from the environment."""
    env = os.environ.get
    parser.add_argument("--host", default=env("HOST") or env("GRADIO_SERVER_NAME") or "127.0.0.1")
    parser.add_argument("--port", type=int, default=env("PORT") or env("GRADIO_SERVER_PORT"))
    parser.add_argument("--models", default=env("LOOKAHEAD_MODELS") or "pocket", help='as "pocket,smol,target+draft"')
    parser.add_argument("--dtype", help="bfloat16, float32, or auto: measured (LOOKAHEAD_DTYPE)")
    parser.add_argument("--share", action="store_true", help="a public link, through Gradio's servers")


def main(argv: list[str] | None = None) -> int:
    """Parse the command line and serve. Returns the exit status."""
    parser = argparse.ArgumentParser(description="Speculative decoding you can see, feel and measure.")
    add_arguments(parser)
    return serve(parser.parse_args(argv))


def serve(arguments: argparse.Namespace) -> int:
    """Serve the app until it is interrupted. Returns the exit status."""
    gc.disable()  # garbage collection takes a fifth of the import time and frees nothing
    try:
        return _serve(arguments)
    finally:
        gc.enable()


def _serve(arguments: argparse.Namespace) -> int:
    for name, value in VARIABLES.items():
        os.environ.setdefault(name, value)
    if arguments.dtype:  # also for models that visitors load
        os.environ["LOOKAHEAD_DTYPE"] = arguments.dtype
    try:
        use_writable_folders()  # before the imports below, some of which read the variables
    except OSError as error:
        return _failed(error)

    from ..core import compilers
    from ..core.events import LookaheadError
    from ..core.numbers import percent
    from ..core.streams import tolerate_any_text
    from ..core.version import revision
    from ..server import logging
    from ..server.limits import Limits, LogSettings
    from ..server.queue import queue
    from ..server.web import SIGNALS, WebServer
    from ..servers.addresses import named

    tolerate_any_text()
    try:
        limits, log_settings = Limits.from_environment(), LogSettings.from_environment()
        named()
    except LookaheadError as error:
        return _failed(error)
    log_settings = log_settings.model_copy(update={"revision": revision()})
    logging.configure(log_settings.log == "json", log_settings.log_prompts)
    try:
        web = WebServer(arguments.host, arguments.port)
    except OSError as error:
        cause = str(error.strerror or error).partition(" (while")[0]
        return _failed(f"port {arguments.port or ''} at {arguments.host}: {cause}. Choose another with --port.")
    for number in SIGNALS:
        signal.signal(number, lambda *_: os._exit(0))  # immediately, while it loads

    printed = None

    def progress(text: str, share: float) -> None:
        nonlocal printed
        if (line := (text.partition(":")[0], percent(share))) != printed:  # a download reports ten times per second
            printed = line
            print(f"{percent(share):>4}  {text}", flush=True)
        web.set_progress(text[0].lower() + text[1:], MODELS + share * (PAGE - MODELS))

    try:
        web.set_progress("importing torch", TORCH)
        compilers.start_if_first()
        if os.environ.get("SPACES_ZERO_GPU"):  # `spaces` must be imported before any module checks torch for a GPU
            import_module("lookahead.server.zero")
        import_module("torch")
        web.set_progress("importing transformers", TRANSFORMERS)
        from transformers.utils.logging import disable_progress_bar

        from .. import kernels
        from ..core import memory
        from ..drafting.hybrid import Hybrid
        from ..engine.methods import DRAFT, drafter_for
        from ..family import number_format, sources
        from ..family.hub import load
        from ..family.spec import families as families_of

        disable_progress_bar()
        specs = families_of(arguments.models)
        # The drafter of the default method is compiled first.
        first = {spec: {drafter_for(Hybrid.name, DRAFT, sources.locations(spec))} for spec in specs}
        if (device := memory.device()).type == "cpu" and specs[0] in sources.bundled():
            dtype = number_format.requested() or number_format.default(device, compiled=True)
            kernels.begin(dtype, first[specs[0]])
        web.set_progress("importing Gradio", GRADIO)
        from ..server.state import ServerState
        from . import serve as serve_page

        families = [
            queue.call(
                partial(load, spec, first=first[spec]),
                lambda text, share, i=i: progress(text, (i + share) / len(specs)),
            )
            for i, spec in enumerate(specs)
        ]
        compilers.stop()  # models that are not compiled leave them unused
    except LookaheadError as error:
        web.close()
        return _failed(error)
    web.set_progress("the models are ready; building the page", PAGE)
    gc.freeze()  # imported objects stay alive, so later collections skip them
    gc.enable()
    serve_page(ServerState(families[0], limits, tuple(families[1:])), log_settings, web, share=arguments.share)
    return 0


def _failed(error: object) -> int:
    print(f"lookahead: {error}", file=sys.stderr)
    return 2
