"""Servers under load: up to how many readers at once speculation pays on the servers that the host has named."""

from collections.abc import Iterator, Mapping
from typing import Any

import gradio as gr

from ...measure import charts
from ...measure.decision import levels_of
from ...measure.progress import questions
from ...server.state import ServerState
from ...servers import report
from ...servers.addresses import offered, servers_of
from ...servers.load import SIDES, rounds_of
from ..parts import Follow, markup, plot, plot_update, status_line, table
from ..running import buttons, follow_progress, run_and_stop

INTRO = (
    "Each reader requests the next text as soon as its previous text ends. Both servers get the same prompts, one server after "
    "the other. One text leaves a machine idle, so drafted tokens cost little. Many texts use all of the machine, and then a "
    "rejected token has taken time from another text."
)
LOADS = {"1 to 4": (1, 2, 4), "1 to 16": (1, 2, 4, 8, 16), "1 to 64": (1, 4, 16, 64)}
MAX_TOKENS, PROMPTS = 64, 8


def add(server: ServerState, follow: Follow) -> None:
    """Add the section."""
    with gr.Row(elem_classes="la-do"):
        pairs = [(name, spec) for spec, name in offered().items()]
        pair = gr.Dropdown(pairs, value=pairs[0][1], label="servers", filterable=False)
        load = gr.Dropdown(list(LOADS), value="1 to 16", label="readers at once", filterable=False)
        start, stop = buttons("Measure")
    status, advice, figure, rows = markup(), markup(), plot(), markup()
    run_and_stop(start, stop, _load, [pair, load], [advice, figure, rows], status=status, draws=True)


def _load(dark: bool, spec: str, load: str) -> Iterator[Any]:
    sides, prompts = dict(zip(SIDES, servers_of(spec), strict=True)), questions(most=PROMPTS)

    def show(newest: Mapping[str, Any]) -> list[Any]:
        figure = plot_update(charts.load(levels_of(newest["levels"], "concurrency"), dark))
        notes = sorted({remark for level in newest["levels"] for remark in level["remarks"]})
        return [status_line(newest["advice"]), figure, table(*report.table(newest)) + "".join(map(status_line, notes))]

    plan = rounds_of(LOADS[load], len(prompts))
    yield from follow_progress(lambda: report.measure(sides, prompts, plan, MAX_TOKENS), show, 3)
