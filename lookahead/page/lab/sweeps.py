"""Sweeps: the speedup over the range of one setting, measured at every point and predicted."""

from collections.abc import Iterator
from typing import Any

import gradio as gr

from ...core.numbers import decimal, percent, ratio
from ...family.models import Models
from ...measure import charts
from ...measure.decision import with_interval
from ...measure.sweeps import LONG_K, SWEEPS, Sweep, sweep
from ...server.state import ServerState
from ..parts import Opening, markup, plot, plot_update, prose, status_line, table
from ..running import buttons, follow_progress, run_and_stop, with_visitor_models

INTRO = (
    "<b>Measured here.</b> Each measured speedup has two predictions, both from the acceptance that was measured at that point. In Leviathan's formula, "
    "verifying costs one pass for any number of rows. The second prediction uses this machine's pass costs. For the draft length, "
    "the runs with 1 and with 8 drafted tokens also predict all other lengths. A long prompt shows how much of a pass is spent on keys and values."
)
EXPECTED = (
    "The predicted speedup of the draft model at this machine's costs. A line joins equal speedups; above the thick line, drafting "
    "pays. A sweep adds measured points."
)
LABELS = {
    "draft-length": "draft length k", "temperature": "temperature", "output-length": "output length",
    "context-length": "prompt length", "window": "W, N, G of lookahead",
}  # fmt: skip
PROMPTS = {
    "stories": "story", "tales": "tale", "records, JSON and copying": "repetitive", "code": "code",
    "explanations": "explain",
}  # fmt: skip


def add(server: ServerState, left: gr.Column, right: gr.Column) -> Opening:
    """Add the results to the column `left`, and their controls to the column `right`."""
    with right:
        prose(INTRO)
        settings = [(LABELS[name], name) for name in SWEEPS]
        setting = gr.Dropdown(settings, value="draft-length", label="sweep", filterable=False)
        prompts = gr.Dropdown(list(PROMPTS.items()), value="story", label="prompts", filterable=False)
        repeats = gr.Slider(1, 5, 2, step=1, label="repetitions", min_width=160)
        with gr.Row(elem_classes="la-do"):
            start, stop = buttons("Sweep")
        status = markup()
    with left:
        figure, rows, map_ = plot(), markup(), plot()
    work, inputs = with_visitor_models(server, _sweep), [setting, prompts, repeats]
    run_and_stop(start, stop, work, inputs, [figure, rows, map_], status=status, draws=True)

    def landscape(dark: bool, request: gr.Request) -> Any:
        models = server.models_for(request.session_hash)
        if "draft" not in models.costs.drafters:
            return gr.skip()
        return [status_line(EXPECTED), plot_update(charts.speedup_surface(models.costs, (), dark))]

    return Opening(landscape, [status, map_])


def _sweep(models: Models, dark: bool, setting: str, kind: str, repeats: float) -> Iterator[Any]:
    def show(swept: Sweep) -> list[Any]:
        by_length = setting == "draft-length"
        map_ = plot_update(charts.speedup_surface(models.costs, swept.points, dark)) if by_length else gr.skip()
        return [plot_update(charts.sweep(swept, dark)), _rows(swept), map_]

    yield from follow_progress(lambda: sweep(models, setting, prompts=(kind,), repeats=int(repeats), most=2), show, 3)


def _rows(swept: Sweep) -> str:
    def speed(value: float | None) -> str:
        return "" if value is None else ratio(value)

    forecasts = {forecast.k: with_interval(forecast) for forecast in swept.forecasts}
    by_context = any(point.attention for point in swept.points)
    rows = [
        [
            p.arm.label, percent(p.acceptance), decimal(p.arm.mean("tokens_per_pass")), speed(p.arm.median), speed(p.priced),
            speed(p.leviathan), percent(p.attention) if by_context else forecasts.get(p.x, ""),
        ]
        for p in swept.points
    ]  # fmt: skip
    theory = ["theory, measured costs", "theory, free rows"]
    last = "share of a pass for keys and values" if by_context else f"predicted from k = 1 and {LONG_K}"
    return table(["setting", "accepted", "tokens per pass", "measured", *theory, last], rows)
