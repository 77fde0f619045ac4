"""The figures of a race, drawn by Plotly when somebody opens them and not before.

The page hands over the race on show as JSON, so a live race, a recording and an opened file are
drawn alike.

Knows Gradio and `charts`. It does not know how a figure is made.
"""

from __future__ import annotations

from typing import Any

import gradio as gr

from ..core.events import LookaheadError
from ..trace import charts
from ..trace.trace import Trace

ON_SHOW = "() => [window.lookahead.trace() || '', document.body.classList.contains('dark')]"


def add() -> None:
    """A closed fold with one plot a figure; opening it draws them."""
    with gr.Accordion("figures of this race", open=False, elem_id="la-figures") as fold:
        notice = gr.Markdown("", visible=False)
        plots = []
        for figure in charts.FIGURES:
            title, words = charts.heading(figure)
            gr.Markdown(f"#### {title}\n{words}")
            plots.append(gr.Plot(show_label=False, elem_classes="la-figure"))
        again = gr.Button("draw what is on show now", size="sm", elem_id="la-redraw")
    shown, dark = gr.Textbox(visible=False), gr.Checkbox(visible=False)
    gr.on(
        [fold.expand, again.click], _drawn, [shown, dark], [notice, *plots], js=ON_SHOW, show_progress="minimal",
        show_progress_on=plots[0], api_visibility="private", queue=False,
    )  # fmt: skip


def _drawn(text: str, dark: bool) -> list[Any]:
    """All figures of a trace, or words in their place."""
    try:
        trace = Trace.from_json(text)
        return [gr.Markdown(visible=False), *(gr.Plot(make(trace, dark)) for make in charts.FIGURES)]
    except LookaheadError:
        return [gr.Markdown("There is no race on show to draw.", visible=True), *[None] * len(charts.FIGURES)]
