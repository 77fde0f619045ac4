"""Sweeps: one setting turned through its range, measured at every point, with theory beside it."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import gradio as gr

from ...core.numbers import decimal
from ...family.models import Models
from ...measure import charts
from ...measure.decision import Forecast
from ...measure.sweeps import SEEN, SWEEPS, surface, sweep
from ...server.state import ServerState
from ..parts import Follow, Opening, drawn, markup, plot, says, table
from ..running import buttons, measured, measuring, run_and_stop

INTRO = (
    "Two predictions stand beside every measured speedup, both from the acceptance measured at that point: Leviathan's formula, "
    "where verifying costs one pass whatever its rows, and the same with verifying as dear as this machine's passes are. Over the "
    "draft length, the runs with 1 and with 8 drafted tokens also predict all other lengths: how far drafts got says how far others get."
)
EXPECTED = (
    "What theory expects of the draft model at this machine's costs: a line joins equal speedups, and above the thick one drafting "
    "pays. A sweep puts measured points on it."
)
LABELS = {
    "draft-length": "draft length k", "temperature": "temperature", "output-length": "output length",
    "window": "W, N, G of lookahead",
}  # fmt: skip
PROMPTS = {
    "stories": "story", "tales": "tale", "records, JSON and copying": "repetitive", "code": "code",
    "explanations": "explain",
}  # fmt: skip


def add(server: ServerState, follow: Follow) -> Opening:
    """The section."""
    with gr.Row(elem_classes="la-do"):
        settings = [(LABELS[name], name) for name in SWEEPS]
        setting = gr.Dropdown(settings, value="draft-length", label="sweep", filterable=False)
        prompts = gr.Dropdown(list(PROMPTS.items()), value="story", label="prompts", filterable=False)
        repeats = gr.Slider(1, 5, 2, step=1, label="repetitions", min_width=160)
        start, stop = buttons("Sweep")
    status = markup()
    figure = plot()
    rows = markup()
    map_ = plot()
    inputs, outputs = [setting, prompts, repeats], [figure, rows, map_]
    run_and_stop(start, stop, measuring(server, _sweep), inputs, outputs, status=status, draws=True)

    def landscape(dark: bool, request: gr.Request) -> Any:
        models = server.models_for(request.session_hash)
        if "draft" not in models.costs.drafters:
            return gr.skip()
        return [says(EXPECTED), drawn(charts.speedup_surface(surface(models.costs, "draft"), (), dark))]

    return Opening(landscape, [status, map_])


def _sweep(models: Models, dark: bool, setting: str, prompts: str, repeats: float) -> Iterator[Any]:
    result, points, same = None, 0, gr.skip()

    def show(newest: Any) -> list[Any] | None:
        nonlocal result, points
        result, before, points = newest, points, len(newest.points) + len(newest.forecasts)
        return [drawn(charts.sweep(result, dark)), _rows(result), same] if points != before else None

    yield from measured(lambda: sweep(models, setting, prompts=(prompts,), repeats=int(repeats), most=2), show, 3)
    if setting == "draft-length":
        landscape = surface(models.costs, "draft")
        yield [same, same, same, drawn(charts.speedup_surface(landscape, result.points, dark))]


def _rows(result: Any) -> str:
    def number(value: float | None, form: str) -> str:
        return "" if value is None else format(value, form)

    forecasts = {one.k: one for one in result.forecasts}
    rows = [
        [
            p.label, number(p.acceptance, ".0%"), number(p.tokens_per_pass, ".2f"), number(p.speedup, ".2f") + "x",
            number(p.priced, ".2f"), number(p.leviathan, ".2f"), _shown(forecasts.get(p.x)),
        ]
        for p in result.points
    ]  # fmt: skip
    theory = ["theory, verifying as measured", "theory, verifying for nothing"]
    return table(["", "accepted", "tokens a pass", "measured", *theory, f"predicted from k = 1 and {SEEN}"], rows)


def _shown(one: Forecast | None) -> str:
    if one is None:
        return ""
    return decimal(one.speedup) + (f" [{decimal(one.interval[0])}, {decimal(one.interval[1])}]" if one.interval else "")
