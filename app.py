"""Start Lookahead: `python app.py [--host H] [--port P] [--models SPEC] [--dtype FORMAT] [--share]`.

The order is that of what a visitor can do: the port is open and a page plays at once, the models come next, and Gradio
last.
"""

from __future__ import annotations

import argparse
import gc
import os
import sys
from importlib import import_module

import places

os.environ.setdefault("GRADIO_ANALYTICS_ENABLED", "False")
os.environ.setdefault("HF_HUB_DISABLE_TELEMETRY", "1")
# Gradio keeps statistics of its own, with a table recomputed at the end of every run; nobody sees them here.
os.environ.setdefault("GRADIO_ANALYTICS_MAX_EVENTS", "1")
os.environ.setdefault("GRADIO_ANALYTICS_CACHE_FREQUENCY", "1000000000")

# How far loading is when a part of it begins: about its share of a second start, in which the models are known.
TORCH, TRANSFORMERS, MODELS, GRADIO, PAGE = 0.02, 0.15, 0.35, 0.65, 0.92


def main(argv: list[str] | None = None) -> int:
    """Answer at once, load the models, build the page, serve it until interrupted."""
    env = os.environ.get
    parser = argparse.ArgumentParser(description="Speculative decoding you can see, feel and measure.")
    parser.add_argument("--host", default=env("HOST") or env("GRADIO_SERVER_NAME") or "127.0.0.1")
    parser.add_argument("--port", type=int, default=env("PORT") or env("GRADIO_SERVER_PORT"))
    parser.add_argument(
        "--models", default=env("LOOKAHEAD_MODELS") or "pocket", help='families, as "pocket,smol,target+draft"'
    )
    parser.add_argument("--dtype", help="bfloat16, float32, or auto: measured (LOOKAHEAD_DTYPE)")
    parser.add_argument("--share", action="store_true", help="a public link, through Gradio's servers")
    arguments = parser.parse_args(argv)
    if arguments.dtype:  # for models that visitors load, too
        os.environ["LOOKAHEAD_DTYPE"] = arguments.dtype

    try:
        places.settle()  # before anything below remembers another place
    except OSError as error:
        return _refused(error)
    from lookahead import LookaheadError
    from lookahead.core.numbers import percent
    from lookahead.core.streams import tolerate_any_text
    from lookahead.core.version import revision
    from lookahead.server import logging
    from lookahead.server.limits import Limits, Telling
    from lookahead.server.queue import queue
    from lookahead.server.web import WebServer, end_at_signals
    from lookahead.servers.addresses import named

    tolerate_any_text()
    try:
        limits, telling = Limits.of(), Telling.of()
        named()
    except LookaheadError as error:
        return _refused(error)
    telling = telling.model_copy(update={"revision": revision()})
    logging.configure(telling.log == "json", telling.log_prompts)
    try:
        web = WebServer(arguments.host, arguments.port)
    except OSError as error:
        words = str(error.strerror or error).partition(" (while")[0]
        return _refused(f"port {arguments.port or ''} at {arguments.host}: {words}. Choose another with --port.")
    end_at_signals()

    printed = None

    def progress(text: str, share: float) -> None:
        nonlocal printed
        if (line := (text.partition(":")[0], percent(share))) != printed:  # a download reports ten times per second
            printed = line
            print(f"{percent(share):>4}  {text}", flush=True)
        web.tell(text[0].lower() + text[1:], MODELS + share * (GRADIO - MODELS))

    try:
        web.tell("reading torch", TORCH)
        if os.environ.get("SPACES_ZERO_GPU"):  # `spaces` must come before anything that asks torch for a GPU
            import_module("lookahead.server.zero")
        import_module("torch")
        web.tell("reading transformers", TRANSFORMERS)
        from transformers.utils.logging import disable_progress_bar

        from lookahead import load
        from lookahead.family.spec import families as families_of

        disable_progress_bar()
        specs = families_of(arguments.models)
        families = [
            queue.call(load, spec, lambda text, share, i=i: progress(text, (i + share) / len(specs)))
            for i, spec in enumerate(specs)
        ]
    except LookaheadError as error:
        web.close()
        return _refused(error)
    web.tell("the models are ready; reading Gradio", GRADIO)
    from lookahead.page import serve
    from lookahead.server.state import ServerState

    web.tell("the models are ready; making the page", PAGE)
    gc.freeze()  # what is imported stays
    gc.enable()
    serve(ServerState(families[0], limits, tuple(families[1:])), telling, web, share=arguments.share)
    return 0


def _refused(error: object) -> int:
    print(f"lookahead: {error}", file=sys.stderr)
    return 2


if __name__ == "__main__":
    gc.disable()  # a fifth of the time that importing takes would go into looking for garbage that is not there
    sys.exit(main())
