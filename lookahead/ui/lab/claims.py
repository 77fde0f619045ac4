"""Expectations: the claims that everybody quotes, each a click away from being measured here."""

from __future__ import annotations

import html
from collections.abc import Iterator
from functools import partial
from typing import Any

import gradio as gr

from ...events import LookaheadError
from ...lab import charts
from ...lab.experiments import EXPERIMENTS, Experiment, Result
from ..stage import Stage
from .parts import buttons, drawn, plot, progress, prose, refused, runs, says

INTRO = (
    "Speedups of speculative decoding are quoted as a table and two lists. Here each of them is run for real on the models "
    "that are loaded: every method alone, in turns with naive decoding, and the median of the repetitions is kept."
)


def add(stage: Stage) -> None:
    """The section."""
    prose(INTRO)
    held = gr.State({})
    with gr.Row(elem_classes="la-do"):
        everything, stop = buttons("Run all")
        repeats = gr.Slider(1, 5, 3, step=1, label="repetitions", min_width=160)
    said = gr.HTML("", apply_default_css=False)
    cells, starts = {}, {}
    for group in dict.fromkeys(e.group for e in EXPERIMENTS.values()):
        gr.HTML(f"<h3>{html.escape(group.capitalize())}</h3>", apply_default_css=False)
        for e in (e for e in EXPERIMENTS.values() if e.group == group):
            with gr.Row(elem_classes="la-claim"):
                gr.HTML(
                    f"<b>{html.escape(e.title)}</b><span>claimed: {html.escape(e.claim)}</span>",
                    apply_default_css=False,
                )
                cells[e.id] = gr.HTML(_cell(None), apply_default_css=False)
                starts[e.id] = gr.Button("Run", size="sm", scale=0, min_width=80)
    why = gr.HTML("", apply_default_css=False)
    figure = plot()
    outputs = [held, said, why, figure, *cells.values()]
    runs(everything, stop, partial(_run, stage, list(EXPERIMENTS.values())), [held, repeats], outputs)
    for e in EXPERIMENTS.values():
        runs(starts[e.id], stop, partial(_run, stage, [e]), [held, repeats], outputs)


def _run(stage: Stage, chosen: list[Experiment], dark: bool, held: dict[str, Result], repeats: float) -> Iterator[Any]:
    """Run experiments; what is known is shown as it comes, and kept when the run is stopped."""
    held = dict(held)
    still = [gr.skip()] * len(EXPERIMENTS)
    order = list(EXPERIMENTS)
    try:
        models = stage.models
        for e in chosen:
            if len(chosen) > 1 and e.missing(models):
                continue
            for line, result in progress(lambda e=e: e.run(models, int(repeats))):
                if result is None:
                    yield [gr.skip(), line, gr.skip(), gr.skip(), *still]
                    continue
                held[e.id] = result
                changed = list(still)
                changed[order.index(e.id)] = _cell(result)
                yield [held, line, gr.skip(), gr.skip(), *changed]
            known = [held[id] for id in order if id in held]
            yield [held, gr.skip(), _why(held[e.id]), drawn(charts.expectations(known, dark)), *still]
        yield [held, says("Done."), gr.skip(), gr.skip(), *still]
    except LookaheadError as error:
        yield [held, refused(error), gr.skip(), gr.skip(), *still]


def _cell(result: Result | None) -> str:
    """What was measured of a claim."""
    if result is None or result.measured.median is None:
        return '<span class="la-unrun">not run yet</span>'
    arm, beside = result.measured, result.compared
    text = f"<b>{arm.median:.2f}x</b><span>{arm.low:.2f}x to {arm.high:.2f}x"
    if beside and beside.median is not None:
        text += f"; {html.escape(beside.label)}: {beside.median:.2f}x"
    return f"{text}{', computed' if arm.computed else ''}</span><em>{html.escape(result.outcome)}</em>"


def _why(result: Result) -> str:
    return f'<p class="la-prose"><b>{html.escape(result.experiment.title)}.</b> {html.escape(result.why)}</p>'
