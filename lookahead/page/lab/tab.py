"""The Lab tab: claims measured, settings swept, passes recomputed, dice thrown; one idea a screen.

It works with the models that the visitor has chosen in the Race tab. What a section shows of them it registers with
`follow`, which asks again whenever the tab is turned to and they are others.

Knows the sections and their order. What a section does is in its own file.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

import gradio as gr

from ...family.models import Models
from ...measure.scenarios import USUAL
from ...server import attached
from ...server.families import described
from ...server.state import ServerState
from ..parts import QUIET, markup, says
from . import claims, dice, drafters, grow, machine, servers, sweeps, whatif

SECTIONS = (
    ("Expectations", claims),
    ("What if", whatif),
    ("Sweeps", sweeps),
    ("This machine", machine),
    ("Drafters", drafters),
    ("Grow a drafter", grow),
    ("Dice", dice),
)


def tab(server: ServerState, lab: gr.Tab) -> None:
    """Everything on the Lab tab `lab`."""
    family = gr.Textbox("", visible="hidden", elem_id="la-measured")

    def chosen(request: gr.Request) -> str:
        return server.models_for(request.session_hash).spec

    def follow(function: Callable[[Models], Any], output: Any) -> None:
        def again(request: gr.Request) -> Any:
            return function(server.models_for(request.session_hash))

        family.change(again, None, output, queue=False, **QUIET)

    for opened in (lab.select, partial(gr.on, None)):
        opened(chosen, None, family, queue=False, **QUIET)
    follow(_words, markup())
    with gr.Tabs(elem_id="la-lab"):
        for name, section in (*SECTIONS, *((("Servers", servers),) if attached.offered() else ())):
            with gr.Tab(name, elem_classes="la-section"):
                section.add(server, follow)


def _words(models: Models) -> str:
    """Which models are measured, where they are not those that everybody begins with."""
    words = f"Measured with {described(models.spec)}, as chosen in the Race tab."
    return "" if models.spec == USUAL else says(words)
