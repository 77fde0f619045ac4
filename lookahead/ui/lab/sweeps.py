"""Sweeps: one setting turned through its range, measured at every point, with theory beside it."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial
from typing import Any

import gradio as gr

from ...events import LookaheadError
from ...lab import charts
from ...lab.sweeps import SWEEPS, surface
from ..stage import Stage
from .parts import buttons, drawn, plot, progress, prose, refused, runs, says, table

INTRO = (
    "Two predictions stand beside every measured speedup, both from the acceptance measured at that point: Leviathan's formula, "
    "where verifying costs one pass whatever its rows, and the same with verifying as dear as this machine's passes are."
)
LABELS = {
    "draft-length": "draft length k", "temperature": "temperature", "output-length": "output length",
    "window": "W, N, G of lookahead",
}  # fmt: skip
PROMPTS = {
    "stories": "story",
    "tales": "tale",
    "records, JSON and copying": "repetitive",
    "code": "code",
    "explanations": "explain",
}


def add(stage: Stage) -> None:
    """The section."""
    prose(INTRO)
    with gr.Row(elem_classes="la-do"):
        setting = gr.Dropdown(
            [(LABELS[name], name) for name in SWEEPS], value="draft-length", label="sweep", filterable=False
        )
        prompts = gr.Dropdown(list(PROMPTS.items()), value="story", label="prompts", filterable=False)
        repeats = gr.Slider(1, 5, 2, step=1, label="repetitions", min_width=160)
        start, stop = buttons("Sweep")
    said = gr.HTML("", apply_default_css=False)
    figure = plot()
    rows = gr.HTML("", apply_default_css=False)
    map_ = plot()
    runs(start, stop, partial(_sweep, stage), [setting, prompts, repeats], [said, figure, rows, map_])


def _sweep(stage: Stage, dark: bool, setting: str, prompts: str, repeats: float) -> Iterator[Any]:
    shown, models = 0, stage.models
    try:
        result = None
        for line, result_now in progress(
            lambda: SWEEPS[setting](models, prompts=(prompts,), repeats=int(repeats), most=2)
        ):
            result = result_now or result
            fresh = result is not None and len(result.points) != shown
            shown = len(result.points) if result else 0
            yield [
                line,
                drawn(charts.sweep(result, dark)) if fresh else gr.skip(),
                _rows(result) if fresh else gr.skip(),
                gr.skip(),
            ]
        last = gr.skip()
        if setting == "draft-length" and result:
            last = drawn(
                charts.speedup_surface(surface(models.costs, models.draft_costs.get("draft")), result.points, dark)
            )
        yield [says("Done."), drawn(charts.sweep(result, dark)), _rows(result), last]
    except LookaheadError as error:
        yield [refused(error), gr.skip(), gr.skip(), gr.skip()]


def _rows(result: Any) -> str:
    def number(value: float | None, form: str) -> str:
        return "" if value is None else format(value, form)

    rows = [
        [
            p.label, number(p.acceptance, ".0%"), number(p.tokens_per_pass, ".2f"), number(p.speedup, ".2f") + "x",
            number(p.priced, ".2f"), number(p.leviathan, ".2f"),
        ]
        for p in result.points
    ]  # fmt: skip
    heads = [
        "",
        "accepted",
        "tokens a pass",
        "measured",
        "theory, verifying as measured",
        "theory, verifying for nothing",
    ]
    return table(heads, rows)
