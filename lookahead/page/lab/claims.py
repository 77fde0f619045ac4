"""Expectations: the claims that everybody quotes, each a click away from being measured here."""

from __future__ import annotations

import html
import re
from collections.abc import Iterator
from typing import Any

import gradio as gr

from ...core.numbers import ratio
from ...family.models import Models
from ...measure import charts
from ...measure.experiments import EXPERIMENTS, HURTS, TABLE, Experiment, Result
from ...server.state import ServerState
from ..parts import Follow, drawn, markup, plot, prose
from ..running import buttons, measured, measuring, run_and_stop

GENERATIONS = "generations"  # the experiment that has a figure of its own
INTRO = (
    "Speedups of speculative decoding are quoted as a table and two lists. Here each of them is run for real on the models "
    "that are loaded: every method alone, in turns with naive decoding, and the median of the repetitions is kept."
)


def add(server: ServerState, follow: Follow) -> None:
    """The section."""
    prose(INTRO)
    results = gr.State({})
    with gr.Row(elem_classes="la-do"):
        everything, stop = buttons("Run all")
        repeats = gr.Slider(1, 5, 3, step=1, label="repetitions", min_width=160)
    status = markup()
    cells, starts = {}, {}
    for group in dict.fromkeys(e.group for e in EXPERIMENTS.values()):
        markup(f"<h3>{html.escape(group.capitalize())}</h3>")
        for e in (e for e in EXPERIMENTS.values() if e.group == group):
            with gr.Row(elem_classes="la-claim"):
                markup(f"<b>{html.escape(e.title)}</b><span>{html.escape(_claimed(e))}</span>")
                cells[e.id] = markup(_cell(None))
                starts[e.id] = gr.Button("Run", size="sm", scale=0, min_width=80)
    why = markup()
    figure, generations = plot(), plot()
    outputs = [results, why, figure, generations, *cells.values()]
    runs = [(everything, list(EXPERIMENTS.values())), *((starts[e.id], [e]) for e in EXPERIMENTS.values())]
    for start, chosen in runs:
        work = measuring(server, _run, chosen)
        run_and_stop(start, stop, work, [results, repeats], outputs, status=status, draws=True)


def _run(
    models: Models, chosen: list[Experiment], dark: bool, results: dict[str, Result], repeats: float
) -> Iterator[Any]:
    """Run experiments; what is known is shown as it comes, and kept when the run is stopped."""
    results, order = dict(results), list(EXPERIMENTS)
    same = gr.skip()
    unchanged = [same] * len(order)
    for e in chosen:
        if len(chosen) > 1 and (missing := e.missing(models)):
            cells = list(unchanged)
            cells[order.index(e.id)] = (
                f'<span class="la-unrun">left out: no {html.escape(" and no ".join(missing))} is loaded</span>'
            )
            yield [same, same, same, same, same, *cells]
            continue
        for line, result in measured(lambda e=e: e.run(models, int(repeats))):
            if result is None:
                yield [line, same, same, same, same, *unchanged]
                continue
            results[e.id] = result
            cells = list(unchanged)
            cells[order.index(e.id)] = _cell(result)
            yield [line, results, same, same, same, *cells]
        known = [results[id] for id in order if id in results]
        drafters = drawn(charts.generations(results[e.id], dark)) if e.id == GENERATIONS else same
        yield [same, results, _why(results[e.id]), drawn(charts.expectations(known, dark)), drafters, *unchanged]


def _claimed(e: Experiment) -> str:
    """The claim: its figures, or whether it is to help or to hurt, and why."""
    if e.group == TABLE:
        return f"claimed: {e.claim}"
    why = re.search(r"\((.*?)\)", e.claim)
    return f"claimed to {'hurt' if e.group == HURTS else 'help'}" + (f": {why[1]}" if why else "")


def _cell(result: Result | None) -> str:
    """What was measured of a claim."""
    if result is None or result.measured.median is None:
        return '<span class="la-unrun">not run yet</span>'
    arm, beside = result.measured, result.compared
    text = f"<b>{ratio(arm.median)}</b><span>{ratio(arm.low)} to {ratio(arm.high)}"
    if beside and beside.median is not None:
        text += f"; {html.escape(beside.label)}: {ratio(beside.median)}"
    return f"{text}{', computed' if arm.computed else ''}</span><em>{html.escape(result.outcome)}</em>"


def _why(result: Result) -> str:
    return f'<p class="la-prose"><b>{html.escape(result.experiment.title)}.</b> {html.escape(result.why)}</p>'
