"""A class of eight: eight texts written together, one token per pass above, with drafts below, played on one clock."""

import json
from collections.abc import Iterator
from typing import Any

import gradio as gr

from ...family.models import Models
from ...measure import batches
from ...measure.progress import questions
from ...server.state import ServerState
from ..parts import markup, prose
from ..running import buttons, follow_progress, run_and_stop, with_visitor_models

INTRO = (
    "<b>Eight texts, played.</b> Eight readers request a text at the same time, and they share every pass. Above, a pass writes one token per text. Below, it "
    "also verifies drafts. Shared passes leave less time idle, so a draft must be worth its time. First choose "
    "<b>two tokens each</b>, then <b>only what pays</b>. Both halves play on one clock at their measured speed."
)
TEXTS, TOKENS = 8, 64
LENGTHS = {"two tokens each": 2, "four tokens each": 4, "only what pays": "auto"}
MOUNT = """lookaheadPage.load.teaching().then(({classroom}) =>
  classroom.mount({element, read: () => props.value, watch: fn => watch('value', fn)}));"""


def add(server: ServerState, method: gr.Dropdown, left: gr.Column, right: gr.Column) -> None:
    """Add the eight texts to the column `left`, and their controls to the column `right`."""
    with right:
        prose(INTRO)
        length = gr.Dropdown(list(LENGTHS), value="two tokens each", label="drafts", filterable=False)
        with gr.Row(elem_classes="la-do"):
            start, stop = buttons("Write eight texts", 170, elem_id="la-class-start")
        status = markup()
    with left:
        played = markup("", html_template='<div class="la-class"></div>', js_on_load=MOUNT)
    work = with_visitor_models(server, _write, server)
    run_and_stop(start, stop, work, [method, length], [played], status=status, done="")


def _write(models: Models, server: ServerState, method: str, length: str) -> Iterator[Any]:
    tokens = min(TOKENS, server.limits.max_new_tokens)
    available = questions(family=models.spec)
    chosen = [available[number * len(available) // TEXTS] for number in range(TEXTS)]
    yield from follow_progress(
        lambda: batches.play(models, chosen, method, max_new_tokens=tokens, k=LENGTHS[length]),
        lambda newest: [json.dumps(newest)], 1,
    )  # fmt: skip
