"""The Lab tab: claims measured, settings swept, passes recomputed, dice thrown; one idea a screen.

It works with the models that the visitor has chosen in the Race tab. What a section shows of them it registers with
`follow`, which asks again whenever the tab is turned to and they are others.

Knows the sections and their order. What a section does is in its own file.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from functools import partial
from inspect import signature
from typing import Any

import gradio as gr

from ...family.models import Models
from ...measure.scenarios import USUAL
from ...server.state import ServerState, described
from ...servers.addresses import offered
from ..parts import QUIET, markup, says
from . import batches, claims, classroom, decision, dice, drafters, grow, machine, servers, sweeps, whatif

NAME, CLASS = "lab", "A class of eight"
SECTIONS = (
    ("Expectations", claims),
    ("Should I turn it on?", decision),
    ("What if", whatif),
    ("Sweeps", sweeps),
    ("This machine", machine),
    (CLASS, classroom),
    ("How many at once?", batches),
    ("Drafters", drafters),
    ("Grow a drafter", grow),
    ("Dice", dice),
)


def tab(server: ServerState, lab: gr.Tab) -> gr.Tabs:
    """Everything on the Lab tab `lab`. Returns its sections, whose ids are their names."""
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
    with gr.Tabs(elem_id="la-lab") as sections:
        for name, section in (*SECTIONS, *((("Servers", servers),) if offered() else ())):
            with gr.Tab(name, id=name, elem_classes="la-section") as opened:
                if opening := section.add(server, follow):
                    # The first section is not turned to: it is there when the Lab is.
                    turned = [opened.select, *([lab.select] if section is claims else [])]
                    _draw_at_first(turned, family, name, *opening)
    return sections


def _draw_at_first(
    turned: Sequence[Any], family: gr.Textbox, name: str, function: Callable[..., Any], inputs: Any, outputs: Any, script: str
) -> None:  # fmt: skip
    """Something true is drawn when a section is turned to for the first time; later its own runs stand there. What depends on
    the visitor's models (a `function` of the request) is drawn again when they are others."""
    inputs = inputs if isinstance(inputs, list) else [inputs]
    first = gr.Checkbox(False, visible=False)
    by_models = "request" in signature(function).parameters

    def draw(request: gr.Request, first: bool, _: str, *given: Any) -> Any:
        if not first:
            return [gr.skip()] * len(outputs) if isinstance(outputs, list) else gr.skip()
        return function(*given, request) if by_models else function(*given)

    def script_where(condition: str) -> str:
        return f"""(_, family, ...given) => {{
            const {{drawn}} = lookaheadPage, before = drawn[{json.dumps(name)}];
            const first = {condition};
            if (first) drawn[{json.dumps(name)}] = {"family" if by_models else "true"};
            return [first, family].concat(({script})(...given));
        }}"""

    wiring = {"fn": draw, "inputs": [first, family, *inputs], "outputs": outputs, "queue": False, **QUIET}
    if by_models:
        gr.on(turned, js=script_where("before !== family"), **wiring)
        gr.on([family.change], js=script_where("before !== undefined && before !== family"), **wiring)
    else:
        gr.on(turned, js=script_where("!before"), **wiring)


def _words(models: Models) -> str:
    """Which models are measured, where they are not those that everybody begins with."""
    words = f"Measured with {described(models.spec)}, as chosen in the Race tab."
    return "" if models.spec == USUAL else says(words)
