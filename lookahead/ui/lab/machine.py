"""This machine: what a pass costs, in which format and with how many threads, and whether drafting pays here."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial
from typing import Any

import gradio as gr

from ...cost import cores, processor, threads
from ...events import LookaheadError, TraceError
from ...lab import charts
from ...lab.advice import Advice, advise, evidence
from ...lab.formats import LEAST, Compared, Passes, reading, three, verdict
from ...lab.machine import compare, weight_bytes
from ...lab.whatif import Recording
from ...models import Models
from ...proposers.lookahead import SHAPES, choose
from ...trace import Trace
from ..stage import Stage
from .parts import DARK, QUIET, TRACE, buttons, drawn, plot, progress, prose, refused, runs, says, table

INTRO = (
    "A pass reads every weight once, however many rows it computes. While reading is what takes the time, more rows come "
    "nearly for nothing, and that is what drafts are verified in. Measured when the app started:"
)
COMPARE = (
    "<b>Another format, other threads?</b> The target's pass in float32 and bfloat16 with several thread counts, in turns, "
    "and how fast memory can be read. The weights are copied for it; what races run with stays as it is."
)
ASK = (
    "<b>Should I turn it on?</b> From the race on show in the Race tab: how often drafted tokens stood, what drafting took, and "
    "these costs."
)


def add(stage: Stage) -> None:
    """The section."""
    prose(INTRO)
    dark, shown = gr.Checkbox(False, visible=False), gr.Textbox("", visible=False)
    gr.HTML(lambda: _facts(stage.models), apply_default_css=False)
    show = gr.Button("draw the cost curve", size="sm", scale=0)
    figure = plot()
    show.click(
        lambda dark: drawn(charts.cost_curve(stage.models.costs, dark)),
        dark,
        figure,
        js=f"() => {DARK}",
        queue=False,
        **QUIET,
    )
    prose(COMPARE)
    with gr.Row(elem_classes="la-do"):
        start, stop = buttons("Compare formats and threads", 300)
    line = gr.HTML("", apply_default_css=False)
    words = gr.HTML("", apply_default_css=False)
    lines = plot()
    runs(start, stop, partial(_compare, stage), [], [line, words, lines])
    prose(ASK)
    ask = gr.Button("Ask", variant="primary", scale=0)
    said = gr.HTML("", apply_default_css=False)
    ask.click(lambda text: _advice(stage, text), shown, said, js=f"() => {TRACE}", queue=False, **QUIET)


def _facts(models: Models) -> str:
    costs, probe = models.costs, models.probe
    held, read = sum(p.nbytes for p in models.target.model.parameters()), weight_bytes(models.target.model)
    columns, n = choose(costs.pass_s)
    window, (most, longest) = 1 + 2 * columns * (n - 1), SHAPES[-1]
    rows = [
        ["processor", f"{processor()}, {cores()} cores, {threads()} threads for torch"],
        ["format", f"{models.dtype}, {models.exactness}: {probe.chain_differ + probe.tree_differ} of {probe.chain_rows + probe.tree_rows} rows differ in company"],
        ["target", f"{models.names['target']}, {held / 1e6:.1f} MB of weights, {costs.pass_s(1) * 1e3:.2f} ms a pass"],
        ["memory read", f"{read / costs.pass_s(1) / 1e9:.1f} GB/s in a one-row pass (weights only)"],
        ["8 rows", f"{costs.ratio(8):.2f} one-row passes, {costs.ratio(8) / 8:.2f} a row"],
        [
            "lookahead's window",
            f"W = {columns}, N = {n}, G = {columns}: {window} rows, {costs.pass_s(window, 1 + columns) / costs.pass_s(1):.2f} one-row "
            f"passes; it must write more tokens a pass than that. Where rows are nearly free, as on a large GPU: W = {most}, N = {longest}, G = {most}",
        ],
        *(
            [
                f"draft: {role}",
                f"{curve.pass_s(1) * 1e3:.2f} ms a pass{' in 8 bits' if models.drafts[role].eight_bits else ''}, "
                f"1/{costs.pass_s(1) / curve.pass_s(1):.1f} of the target's",
            ]
            for role, curve in models.draft_costs.items()
        ),
    ]  # fmt: skip
    return table(["", ""], rows)


def _compare(stage: Stage, dark: bool) -> Iterator[Any]:
    found, visits = None, None
    try:
        for line, now in progress(lambda: compare(stage.models)):
            words, figure, found = gr.skip(), gr.skip(), now or found
            if now and now.measured and (not now.visits or now.visits != visits):
                words = _found(now)
                if (visits or 0) < LEAST <= now.visits:  # once on the way: to draw is to disturb what is measured
                    figure = drawn(charts.formats(now, dark))
                visits = now.visits
            yield [line, words, figure]
        yield [says("Done."), _found(found), drawn(charts.formats(found, dark))]
    except LookaheadError as error:
        yield [refused(error), gr.skip(), gr.skip()]


def _found(found: Compared) -> str:
    """What is known so far, in two sentences and a table."""
    told = ""
    if answer := verdict(found):
        told = f'<p class="la-answer">{answer}</p>'
    if held := reading(found):
        told += f'<p class="la-prose">{held}</p>'
    caption = f"medians of {found.visits}; 9 and 33 rows in one-row passes" if found.visits else ""
    heads = ["format", "threads", "1 row", "9 rows", "33 rows", "weights read, of what memory gives"]
    rows = [
        [one.dtype + (", in use" if one.in_use else ""), str(one.threads or "GPU"), *_cells(found, one)]
        for one in found.passes
    ]
    # Unbroken: on a phone a table is scrolled.
    whole = [[cell.replace(" ", "\u00a0") for cell in row] for row in (heads, *rows)]
    return told + table(whole[0], whole[1:], caption)


def _cells(found: Compared, one: Passes) -> list[str]:
    if not one.pass_s:
        return ["", "", "", one.left_out]
    more = [f"{one.seconds(n) / one.pass_s[0]:.2f}" if n <= one.rows[-1] else "" for n in (9, 33)]
    share, reached, given = found.share(one), one.bytes_per_s / 1e9, found.given(one) / 1e9
    read = f"{three(reached)} of {three(given)} GB/s, {share:.0%}"
    if share > 1:
        read = f"{three(reached)} GB/s, from the cache"
    return [f"{three(1e3 * one.pass_s[0])} ms", *more, read]


def _advice(stage: Stage, text: str) -> str:
    costs = stage.models.costs
    try:
        if not text:
            raise TraceError("race", "nothing on show", "run one in the Race tab.")
        trace = Trace.from_json(text)
        stage.limits.check(trace.prompt.tokens, max(len(lane.tokens) for lane in trace.lanes))
        recording = Recording.of(trace, costs) if trace.settings.rule != "rejection" else None
        found: Advice = advise(evidence(trace), costs, recording)
    except LookaheadError as error:
        return refused(error)
    rows: list[list[Any]] = []
    for option in found.options:
        rows += [[f"{option.method}, k = {option.k}", "", "", f"{option.speedup:.2f}x"]]
        rows += [["", term.name, term.formula, f"{term.value:.2f}"] for term in option.terms]
    words = f'<p class="la-answer">{found.sentence}</p>'
    return words + table(["", "", "", ""], rows, "the arithmetic of every drafter at its best length")
