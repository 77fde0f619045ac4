"""Grow a drafter: a block head that learns on the target while one watches, races as it learns, and can be kept."""

from __future__ import annotations

import base64
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from functools import partial
from typing import Any

import gradio as gr

from ...core.events import LookaheadError
from ...core.numbers import count, counted, decimal, seconds
from ...measure import charts
from ...server.growing_job import Drafters
from ...server.runs import Run
from ...server.state import ServerState
from ..parts import QUIET, drawn, fresh, markup, plot, prose, refused, says
from ..running import STOP_LANES, buttons, run_and_stop
from ..timeline import timeline

INTRO = (
    "A <b>block head</b> reads what the target has just computed and drafts several tokens in one pass. Here one begins with "
    "random weights and learns from stories that the target writes, on this machine: at first all that it drafts is rejected. "
    "Every 20 seconds it races the same prompt. Give it two to five minutes, and watch the text turn green."
)
KEPT = "Your races in the Race tab with the method block now draft with {}, until you reload or close this page."
BUNDLED = "Your races with the method block draft with the loaded head again."
NONE = "Your head is put away. No other block head is loaded, so the method block has nothing to draft with."
DRAW_S, SHOW_S = 2.0, 0.4  # of training, between two charts, and between two lines of figures
SAVE = """text => {
    if (text) {
        const bytes = Uint8Array.from(atob(text), one => one.charCodeAt(0));
        const url = URL.createObjectURL(new Blob([bytes], {type: 'application/zip'}));
        Object.assign(document.createElement('a'), {href: url, download: 'block-head.zip'}).click();
        setTimeout(() => URL.revokeObjectURL(url), 60000);
    }
    return '';
}"""


def add(server: ServerState) -> None:
    """The section."""
    drafters = Drafters(server)
    prose(INTRO)
    fresh(lambda: _said(drafters.refuse))
    with gr.Row(elem_classes="la-do"):
        start, stop = buttons("Train")
    status = markup()
    figure = plot()
    lanes = timeline("", server.runs)
    with gr.Row(elem_classes="la-do"):
        keep = gr.Button("Keep as a method for this session", scale=0, min_width=280)
        back = gr.Button("Put it away", scale=0, min_width=120, visible=False)
        download = gr.Button("Download", scale=0, min_width=120)
    which = markup()
    packed = gr.Textbox("", visible=False)

    def run(dark: bool, request: gr.Request) -> Iterator[list[Any]]:
        yield from _grown(server, drafters, dark, request.session_hash)

    shared = {"stopped": (lanes, STOP_LANES), "status": status, "done": None, "draws": True}
    run_and_stop(start, stop, run, [], [figure, lanes], **shared)
    keep.click(partial(_keep, drafters), None, [which, back], concurrency_limit=None, **QUIET)
    back.click(partial(_put_away, server, drafters), None, [which, back], concurrency_limit=None, **QUIET)
    download.click(partial(_pack, drafters), None, [which, packed], concurrency_limit=None, **QUIET).then(
        None, packed, packed, js=SAVE, **QUIET
    )


@dataclass(slots=True)
class Curve:
    """What a chart shows of the training so far: (seconds, loss) and (seconds, tokens a pass)."""

    losses: list[tuple[float, float]] = field(default_factory=list)
    accepted: list[tuple[float, float]] = field(default_factory=list)
    last: Any = None

    def add(self, progress: Any) -> None:
        """Take up what the training says."""
        if progress.checks and (self.last is None or progress.checks > self.last.checks):
            self.accepted.append((progress.seconds, progress.accepted))
        if progress.loss is not None and (self.last is None or progress.steps > self.last.steps):
            self.losses.append((progress.seconds, progress.loss))
        self.last = progress


def _grown(server: ServerState, drafters: Drafters, dark: bool, visitor: str) -> Iterator[list[Any]]:
    """Train until the visitor stops it or the time is over: a line of figures, the chart, and races."""
    same, most_s = gr.skip(), server.limits.max_grow_s
    yield [says("Getting ready."), drawn(None), same]
    curve, run, shown_s, drawn_s = Curve(), None, 0.0, 0.0
    for update in drafters.grow(visitor).follow():
        line, figure, batch = says(update.waiting) if update.waiting else same, same, same
        for value in update.values:
            if isinstance(value, Run):
                run = value
            else:
                curve.add(value)
        now_s = curve.last.seconds if curve.last else 0.0
        if now_s - shown_s > SHOW_S:
            shown_s, line = now_s, says(_figures(curve.last), min(1.0, now_s / most_s))
        if now_s - drawn_s > DRAW_S and curve.losses:
            drawn_s, figure = now_s, drawn(charts.growing(curve.losses, curve.accepted, dark))
        if run and run.unsent:
            batch = run.batch()
        yield [line, figure, batch]
    yield [says(f"Done. {_figures(curve.last)}"), drawn(charts.growing(curve.losses, curve.accepted, dark)), same]


def _figures(progress: Any) -> str:
    parts = [f"{seconds(progress.seconds)} of computing", f"{count(progress.tokens)} tokens written by the target"]
    parts += [counted(progress.steps, "step")] if progress.steps else []
    parts += [f"{decimal(progress.accepted)} tokens a pass"] if progress.checks else []
    return ", ".join(parts) + "."


def _said(function: Callable[..., Any], *arguments: Any) -> str:
    """Nothing, or the words of the error that the function raises."""
    try:
        function(*arguments)
    except LookaheadError as error:
        return refused(error)
    return ""


def _keep(drafters: Drafters, request: gr.Request) -> list[Any]:
    try:
        name = drafters.keep(request.session_hash)
    except LookaheadError as error:
        return [refused(error), gr.skip()]
    return [says(KEPT.format(name)), gr.Button(visible=True)]


def _put_away(server: ServerState, drafters: Drafters, request: gr.Request) -> list[Any]:
    drafters.put_away(request.session_hash)
    return [says(BUNDLED if "block" in server.models.heads else NONE), gr.Button(visible=False)]


def _pack(drafters: Drafters, request: gr.Request) -> list[Any]:
    try:
        return [gr.skip(), base64.b64encode(drafters.packed(request.session_hash)).decode()]
    except LookaheadError as error:
        return [refused(error), ""]
