"""Named endpoints for gradio_client: the same engine, the same queue.

A call to /race says where it stands while it waits: what comes before the trace, for whoever iterates over a job, is
{"status": words}. A caller who is gone is noticed by the next of these, and the race ends.

Knows Gradio's API and races. It does not know the page.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from functools import partial
from typing import Any

import gradio as gr

from ..core.events import LookaheadError
from ..race.methods import METHODS, method_class
from ..server import form, loading_job, race_job
from ..server.families import described
from ..server.state import ServerState
from .gradio_internals import forget

# A caller who is gone is noticed within this; telling many who wait takes time from the one who computes.
EVERY_S, WAITING_S = 0.2, 0.8


def add(server: ServerState, page: gr.Blocks) -> None:
    """Register /race, /methods, /families and /choose with the page."""

    def race_api(
        prompt: str,
        method: str = form.DEFAULT_METHOD,
        max_new_tokens: int = 128,
        k: str = "auto",
        temperature: float = 0.0,
        seed: int = 0,
        request: gr.Request = None,
    ) -> dict:
        """Race a method against naive decoding on one prompt, with the models that were chosen; returns the trace.

        Args:
            prompt: the beginning of a text.
            method: one of the names that /methods lists.
            max_new_tokens: at most so many new tokens.
            k: tokens to draft in a pass, or "auto".
            temperature: 0 is greedy.
            seed: picks the noise when sampling.
        """
        given = {"max_new_tokens": max_new_tokens, "k": k, "temperature": temperature, "seed": seed}
        given["family"] = server.families.of(request.session_hash).models.spec
        try:
            yield from _race(server, prompt, method, given)
        except LookaheadError as error:
            raise gr.Error(str(error), print_exception=False) from None
        finally:
            forget(page, request.session_hash)

    def methods_api() -> list:
        """The strategies: name, summary, and whether a draft model is needed."""
        classes = {m: method_class(m) for m in METHODS}
        return [{"name": m, "summary": c.summary, "needs_draft": c.needs_draft} for m, c in classes.items()]

    def families_api() -> list:
        """The families of models to choose from: name, description, and whether it is loaded."""
        return [
            {"name": spec, "description": described(spec), "loaded": spec in server.families}
            for spec in loading_job.offered(server)
        ]

    def choose_api(family: str, request: gr.Request = None) -> dict:
        """Choose the models that this session's races run with; a family that comes with the app is loaded if need be.

        Args:
            family: one of the names that /families lists.
        """
        try:
            for words, share in loading_job.loaded(server, family):
                yield {"status": words, "share": share}
            chosen = server.families.named(family).models
        except LookaheadError as error:
            raise gr.Error(str(error), print_exception=False) from None
        server.families.choose(request.session_hash, family)
        yield {"family": chosen.spec, "models": chosen.names}

    gr.api(race_api, api_name="race", concurrency_limit=None)
    gr.api(choose_api, api_name="choose", concurrency_limit=None)
    gr.api(families_api, api_name="families", queue=False)
    gr.api(methods_api, api_name="methods", queue=False)


def _race(server: ServerState, prompt: str, method: str, given: dict[str, Any]) -> Iterator[dict[str, Any]]:
    """Where the race stands, again and again, and at last its trace."""
    make = partial(race_job.form_race, prompt=prompt, methods=form.lanes(method), fields=given)
    job = race_job.submit(server, make, "api", prompt=prompt)
    for _ in job.follow(EVERY_S, WAITING_S):
        yield {"status": job.waiting() or "Computing."}
    yield json.loads(job.result().to_json())
