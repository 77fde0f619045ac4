"""Sweeps: one setting turned through its range, measured at every point, with theory beside it."""

from collections.abc import Iterator
from typing import Any

import gradio as gr

from ...core.numbers import decimal, percent, ratio
from ...family.models import Models
from ...measure import charts
from ...measure.decision import with_interval
from ...measure.sweeps import LONG_K, SWEEPS, Sweep, sweep
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
    status, figure, rows, map_ = markup(), plot(), markup(), plot()
    work, inputs = measuring(server, _sweep), [setting, prompts, repeats]
    run_and_stop(start, stop, work, inputs, [figure, rows, map_], status=status, draws=True)

    def landscape(dark: bool, request: gr.Request) -> Any:
        models = server.models_for(request.session_hash)
        if "draft" not in models.costs.drafters:
            return gr.skip()
        return [says(EXPECTED), drawn(charts.speedup_surface(models.costs, (), dark))]

    return Opening(landscape, [status, map_])


def _sweep(models: Models, dark: bool, setting: str, prompts: str, repeats: float) -> Iterator[Any]:
    def show(swept: Sweep) -> list[Any]:
        by_length = setting == "draft-length"
        map_ = drawn(charts.speedup_surface(models.costs, swept.points, dark)) if by_length else gr.skip()
        return [drawn(charts.sweep(swept, dark)), _rows(swept), map_]

    yield from measured(lambda: sweep(models, setting, prompts=(prompts,), repeats=int(repeats), most=2), show, 3)


def _rows(swept: Sweep) -> str:
    def speed(value: float | None) -> str:
        return "" if value is None else ratio(value)

    forecasts = {one.k: with_interval(one) for one in swept.forecasts}
    rows = [
        [
            p.arm.label, percent(p.acceptance), decimal(p.arm.mean("tokens_per_pass")), speed(p.arm.median), speed(p.priced),
            speed(p.leviathan), forecasts.get(p.x, ""),
        ]
        for p in swept.points
    ]  # fmt: skip
    theory = ["theory, measured costs", "theory, free rows"]
    return table(["", "accepted", "tokens per pass", "measured", *theory, f"predicted from k = 1 and {LONG_K}"], rows)
