"""The Lab tab: its sections, in order, with the models that the visitor has chosen in the Race tab."""

import json
from collections.abc import Callable, Sequence
from functools import partial
from inspect import signature
from typing import Any

import gradio as gr

from ...family.models import Models
from ...measure.scenarios import DEFAULT_FAMILY
from ...server.state import ServerState, family_title
from ...servers.addresses import offered
from ..parts import DARK, QUIET, Opening, markup, status_line
from . import batches, claims, decision, doctor, grow, length, lossy, machine

NAME, AT_ONCE = "lab", "How many at once?"
SECTIONS = {
    "Claims": claims, "Should I turn it on?": decision, AT_ONCE: batches, "Draft length": length,
    "How much may the text change?": lossy, "This machine": machine, "Grow a drafter": grow,
}  # fmt: skip
SERVERS = {"Server doctor": doctor}  # only if the app has servers


def tab(server: ServerState, lab: gr.Tab) -> gr.Tabs:
    """Fill the Lab tab `lab`. Returns its sections, whose ids are their names."""
    family = gr.Textbox("", visible="hidden", elem_id="la-measured")

    def chosen(request: gr.Request) -> str:
        return server.models_for(request.session_hash).spec

    def follow(function: Callable[[Models], Any], output: Any) -> None:
        def update(request: gr.Request) -> Any:
            return function(server.models_for(request.session_hash))

        family.change(update, None, output, queue=False, **QUIET)

    for opened in (lab.select, partial(gr.on, None)):
        opened(chosen, None, family, queue=False, **QUIET)
    follow(_family_line, markup())
    with gr.Tabs(elem_id="la-lab") as sections:
        for name, section in {**SECTIONS, **(SERVERS if offered() else {})}.items():
            with gr.Tab(name, id=name, elem_classes="la-section") as opened:
                for number, opening in enumerate(section.add(server, follow)):
                    # The first section is opened with the Lab.
                    events = [opened.select, *([lab.select] if section is claims else [])]
                    _draw_at_first(events, family, f"{name} {number}", opening)
    return sections


def _draw_at_first(events: Sequence[Any], family: gr.Textbox, name: str, opening: Opening) -> None:
    """Draw `opening` when its section is first opened, and again when it depends on the visitor's models and they change."""
    first, dark = gr.Checkbox(False, visible=False), gr.Checkbox(False, visible=False)
    by_models = "request" in signature(opening.function).parameters

    def draw(request: gr.Request, first: bool, _: str, dark: bool, *inputs: Any) -> Any:
        if not first:
            return gr.skip()
        return opening.function(dark, *inputs, *([request] if by_models else []))

    def script_if(condition: str) -> str:
        return f"""(_, family, ...values) => {{
            const {{drawn}} = lookaheadPage, before = drawn[{json.dumps(name)}];
            const first = {condition};
            if (first) drawn[{json.dumps(name)}] = {"family" if by_models else "true"};
            return [first, family, {DARK}].concat(({opening.fill})(values.slice(1)));
        }}"""

    inputs = [first, family, dark, *opening.inputs]
    wiring = {"fn": draw, "inputs": inputs, "outputs": opening.outputs, "queue": False, **QUIET}
    gr.on(events, js=script_if("before !== family" if by_models else "!before"), **wiring)
    if by_models:
        gr.on([family.change], js=script_if("before !== undefined && before !== family"), **wiring)


def _family_line(models: Models) -> str:
    sentence = f"Measured with {family_title(models.spec)}, as chosen in the Race tab."
    return "" if models.spec == DEFAULT_FAMILY else status_line(sentence)
