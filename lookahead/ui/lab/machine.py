"""This machine: what a pass costs, what that says about drafting, and whether to turn it on for the race on show."""

from __future__ import annotations

from typing import Any

import gradio as gr

from ...cost import cores, processor, threads
from ...events import LookaheadError, TraceError
from ...lab import charts
from ...lab.advice import Advice, advise, evidence
from ...lab.whatif import Recording
from ...models import Models
from ...trace import Trace
from .parts import DARK, QUIET, TRACE, drawn, plot, prose, refused, table

INTRO = (
    "A pass reads every weight once, however many rows it computes. While reading is what takes the time, more rows come "
    "nearly for nothing, and that is what drafts are verified in. Measured when the app started:"
)
ASK = (
    "<b>Should I turn it on?</b> From the race on show in the Race tab: how often drafted tokens stood, what drafting took, and "
    "these costs."
)


def add(models: Models) -> None:
    """The section."""
    prose(INTRO)
    dark, shown = gr.Checkbox(False, visible=False), gr.Textbox("", visible=False)
    gr.HTML(_facts(models), apply_default_css=False)
    show = gr.Button("draw the cost curve", size="sm", scale=0)
    figure = plot()
    show.click(
        lambda dark: drawn(charts.cost_curve(models.costs, dark)),
        dark,
        figure,
        js=f"() => {DARK}",
        queue=False,
        **QUIET,
    )
    prose(ASK)
    ask = gr.Button("Ask", variant="primary", scale=0)
    said = gr.HTML("", apply_default_css=False)
    ask.click(lambda text: _advice(models, text), shown, said, js=f"() => {TRACE}", queue=False, **QUIET)


def _facts(models: Models) -> str:
    costs, probe = models.costs, models.probe
    held = sum(p.numel() * p.element_size() for p in models.target.model.parameters())
    rows = [
        ["processor", f"{processor()}, {cores()} cores, {threads()} threads for torch"],
        ["format", f"{models.dtype}, {models.exactness}: {probe.chain_differ + probe.tree_differ} of {probe.chain_rows + probe.tree_rows} rows differ in company"],
        ["target", f"{models.names['target']}, {held / 1e6:.1f} MB of weights, {costs.pass_s(1) * 1e3:.2f} ms a pass"],
        ["memory read", f"{held / costs.pass_s(1) / 1e9:.1f} GB/s in a one-row pass (weights only)"],
        ["8 rows", f"{costs.ratio(8):.2f} one-row passes, {costs.ratio(8) / 8:.2f} a row"],
        *(
            [f"draft: {role}", f"{curve.pass_s(1) * 1e3:.2f} ms a pass, 1/{costs.pass_s(1) / curve.pass_s(1):.1f} of the target's"]
            for role, curve in models.draft_costs.items()
        ),
    ]  # fmt: skip
    return table(["", ""], rows)


def _advice(models: Models, text: str) -> str:
    try:
        if not text:
            raise TraceError("race", "nothing on show", "run one in the Race tab.")
        trace = Trace.from_json(text)
        recording = Recording.of(trace, models.costs) if trace.settings.rule != "rejection" else None
        found: Advice = advise(evidence(trace), models.costs, recording)
    except LookaheadError as error:
        return refused(error)
    rows: list[list[Any]] = []
    for option in found.options:
        rows += [[f"{option.method}, k = {option.k}", "", "", f"{option.speedup:.2f}x"]]
        rows += [["", term.name, term.formula, f"{term.value:.2f}"] for term in option.terms]
    words = f'<p class="la-answer">{found.sentence}</p>'
    return words + table(["", "", "", ""], rows, "the arithmetic of every drafter at its best length")
