"""Start Lookahead: `python app.py [--host H] [--port P] [--models SPEC] [--share]`."""

from __future__ import annotations

import argparse
import os
import sys
from dataclasses import replace

import places

os.environ.setdefault("GRADIO_ANALYTICS_ENABLED", "False")
os.environ.setdefault("HF_HUB_DISABLE_TELEMETRY", "1")
# Gradio keeps statistics of its own, with a table recomputed at the end of every run; nobody sees them here.
os.environ.setdefault("GRADIO_ANALYTICS_MAX_EVENTS", "1")
os.environ.setdefault("GRADIO_ANALYTICS_CACHE_FREQUENCY", "1000000000")


def main(argv: list[str] | None = None) -> int:
    """Load the models, build the page, serve it until interrupted."""
    env = os.environ.get
    parser = argparse.ArgumentParser(description="Speculative decoding you can see, feel and measure.")
    parser.add_argument("--host", default=env("HOST") or env("GRADIO_SERVER_NAME") or "127.0.0.1")
    parser.add_argument("--port", type=int, default=env("PORT") or env("GRADIO_SERVER_PORT"))
    parser.add_argument("--models", default=env("LOOKAHEAD_MODELS") or "pocket", help='"pocket", or target+draft')
    parser.add_argument("--share", action="store_true", help="a public link, through Gradio's servers")
    arguments = parser.parse_args(argv)

    try:
        places.settle()  # before anything below remembers another place
    except OSError as error:
        print(f"lookahead: {error}", file=sys.stderr)
        return 2
    from transformers.utils import logging

    from lookahead import LookaheadError, load, worker
    from lookahead.limits import Limits, Telling
    from lookahead.ui import Stage, journal, serve
    from lookahead.version import revision

    logging.disable_progress_bar()
    try:
        limits, telling = Limits.of(), Telling.of()
        telling = replace(telling, revision=revision())
        journal.start(telling.log == "json", telling.log_prompts)
        models = worker.call(load, arguments.models, lambda text, share: print(f"{share:4.0%}  {text}", flush=True))
    except LookaheadError as error:
        print(f"lookahead: {error}", file=sys.stderr)
        return 2
    try:
        serve(
            Stage(models, limits),
            telling,
            server_name=arguments.host,
            server_port=arguments.port,
            share=arguments.share,
        )
    except OSError as error:
        print(f"lookahead: port {arguments.port}: {error}. Choose another with --port.", file=sys.stderr)
        return 2
    return 0


if __name__ == "__main__":
    sys.exit(main())
