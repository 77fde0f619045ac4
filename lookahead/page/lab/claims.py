"""Claims: often-quoted claims, each of which can be measured here."""

import html
from collections import Counter
from collections.abc import Iterator, Sequence
from functools import partial
from typing import Any

import gradio as gr

from ...core.numbers import counted, ranged, ratio
from ...family.models import Models
from ...measure import charts
from ...measure.experiments import EXPERIMENTS, HELPS, HURTS, Experiment, Result
from ...measure.published import published
from ...server.state import ServerState
from ..parts import Follow, Opening, answer_html, markup, plot, plot_update, pressed_id, prose, split
from ..running import buttons, follow_progress, run_and_stop

ALL = tuple(EXPERIMENTS.values())
RUN = "la-run"  # the button that runs all claims; the button of one claim appends its name
INTRO = (
    "A method runs alone, in turns with naive decoding, and the median of the repetitions counts. Hatched marks show the claims, "
    "hollow marks our results on another machine, and filled marks your results."
)
NOT_RUN = "These speedups are often quoted. Nothing has been measured on this machine yet."


def add(server: ServerState, follow: Follow) -> list[Opening]:
    """Add the section."""
    results, verdict = gr.State({}), markup(answer_html(NOT_RUN))
    left, right = split()
    cells, starts, whys = {}, {}, {}
    with left:
        figure = plot()
        for group in dict.fromkeys(e.group for e in EXPERIMENTS.values()):
            markup(f"<h2>{html.escape(group.capitalize())}</h2>")
            claimed = "claimed" if group in (HELPS, HURTS) else "claimed:"
            for e in (e for e in EXPERIMENTS.values() if e.group == group):
                with gr.Row(elem_classes="la-claim"):
                    markup(f"<b>{html.escape(e.title)}</b><span>{claimed} {html.escape(e.claimed)}</span>")
                    cells[e.id] = markup(_cell(None))
                    starts[e.id] = gr.Button("Run", size="sm", scale=0, min_width=80, elem_id=f"{RUN}-{e.id}")
                whys[e.id] = markup()
        generations = plot()
    with right:
        prose(INTRO)
        repeats = gr.Slider(1, 5, 3, step=1, label="repetitions", min_width=160)
        with gr.Row(elem_classes="la-do"):
            everything, stop = buttons("Run all", elem_id=RUN)
        status = markup()
    outputs = [results, verdict, figure, generations, *cells.values(), *whys.values()]
    chosen = {everything.elem_id: ALL, **{start.elem_id: (EXPERIMENTS[id],) for id, start in starts.items()}}

    def run(request: gr.Request, event: gr.EventData, *inputs: Any) -> Iterator[Any]:
        yield from _run(server.models_for(request.session_hash), chosen.get(pressed_id(event), ()), *inputs)

    triggers = [start.click for start in (everything, *starts.values())]  # one at a time: there is one Stop
    run_and_stop(
        everything, stop, run, [results, repeats], outputs, triggers=triggers, others=[*starts.values()], status=status,
        draws=True,
    )  # fmt: skip
    return [Opening(_chart, figure, [results])]


def _chart(dark: bool, results: dict[str, Result]) -> gr.Plot:
    known = [results[id] for id in EXPERIMENTS if id in results]
    return plot_update(charts.expectations(known, published(), dark))


def _run(
    models: Models, chosen: Sequence[Experiment], dark: bool, results: dict[str, Result], repeats: float
) -> Iterator[Any]:
    results, same = dict(results), gr.skip()

    def row(e: Experiment, cell: Any = same, why: Any = same, figure: Any = same, drafters: Any = same) -> list[Any]:
        cells, whys = ([new if id == e.id else same for id in EXPERIMENTS] for new in (cell, why))
        return [results, answer_html(_verdict(results)), figure, drafters, *cells, *whys]

    def show(result: Result, e: Experiment) -> list[Any]:
        results[e.id] = result
        return row(e, _cell(result))

    for e in chosen:
        if len(chosen) > 1 and (missing := e.missing(models)):
            text = f'<span class="la-unrun">left out: no {html.escape(" and no ".join(missing))} is loaded</span>'
            yield [same, *row(e, text)]
            continue
        yield from follow_progress(lambda e=e: e.run(models, int(repeats)), partial(show, e=e), len(row(e)))
        why = f'<p class="la-prose">{html.escape(results[e.id].why)}</p>'
        drafters = plot_update(charts.generations(results[e.id], dark)) if e.id == "generations" else same
        yield [same, *row(e, why=why, figure=_chart(dark, results), drafters=drafters)]


def _verdict(results: dict[str, Result]) -> str:
    """Return a sentence on the outcomes of the measured claims."""
    outcomes = Counter(result.outcome for result in results.values() if result.measured.median is not None)
    if not outcomes:
        return NOT_RUN
    listed = ", ".join(f"{number} {outcome}" for outcome, number in outcomes.most_common())
    return f"{counted(outcomes.total(), 'claim')} of {len(EXPERIMENTS)} measured on this machine: {listed}."


def _cell(result: Result | None) -> str:
    if result is None or result.measured.median is None:
        return '<span class="la-unrun">not run yet</span>'
    arm, baseline = result.measured, result.compared
    text = f"<b>{ratio(arm.median)}</b><span>{ranged(result.between)}"
    if baseline and baseline.median is not None:
        text += f"; {html.escape(baseline.label)}: {ratio(baseline.median)}"
    return f"{text}</span><em>{html.escape(result.outcome)}</em>"
