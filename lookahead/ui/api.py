"""Named endpoints for gradio_client: the same engine, the same queue.

Knows Gradio's API and races. It does not know the page.
"""

from __future__ import annotations

import json
from typing import Any

import gradio as gr

from .. import worker
from ..events import LookaheadError
from ..methods import METHODS, method_class
from ..models import Models
from ..race import race
from ..trace import Trace
from . import form
from .stage import Stage


def add(stage: Stage) -> None:
    """Register /race and /methods."""

    def race_api(
        prompt: str,
        method: str = form.DEFAULT_METHOD,
        max_new_tokens: int = 128,
        k: str = "auto",
        temperature: float = 0.0,
        seed: int = 0,
    ) -> dict:
        """Race a method against naive decoding on one prompt; returns the trace.

        Args:
            prompt: the beginning of a text.
            method: one of the names that /methods lists.
            max_new_tokens: at most so many new tokens.
            k: tokens to draft in a pass, or "auto".
            temperature: 0 is greedy.
            seed: picks the noise when sampling.
        """
        given = {"max_new_tokens": max_new_tokens, "k": k, "temperature": temperature, "seed": seed}
        try:
            trace = worker.call(_whole_race, stage.models, prompt, method, form.options(given))
        except LookaheadError as error:
            raise gr.Error(str(error), print_exception=False) from None
        return json.loads(trace.to_json())

    def methods_api() -> list:
        """The strategies: name, summary, and whether a draft model is needed."""
        classes = {m: method_class(m) for m in METHODS}
        return [{"name": m, "summary": c.summary, "needs_draft": c.needs_draft} for m, c in classes.items()]

    gr.api(race_api, api_name="race", concurrency_limit=1)
    gr.api(methods_api, api_name="methods", queue=False)


def _whole_race(models: Models, prompt: str, method: str, options: dict[str, Any]) -> Trace:
    racing = race(models, prompt, form.lanes(method), **options)
    for _ in racing:
        pass
    return racing.result()
