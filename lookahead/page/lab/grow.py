"""Grow a drafter: a block head that learns on the target while one watches, races as it learns, and can be kept."""

from __future__ import annotations

import base64
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import gradio as gr

from ...core.events import LookaheadError
from ...core.numbers import count, counted, decimal, seconds
from ...measure import charts
from ...model.heads.shape import BLOCK
from ...server.growing_job import Drafters
from ...server.runs import Run
from ...server.state import ServerState
from ..parts import QUIET, drawn, fresh, markup, plot, prose, refused, says
from ..running import STOP_LANES, buttons, run_and_stop
from ..timeline import timeline

if TYPE_CHECKING:
    from ...train.growing import Progress

INTRO = (
    "A <b>block head</b> reads what the target has just computed and drafts several tokens in one pass. Here one begins with "
    "random weights and learns from stories that the target writes, on this machine: at first all that it drafts is rejected. "
    "Every 20 seconds it races the same prompt. Give it two to five minutes, and watch the text turn green."
)
KEPT = "In your races, the method block now drafts with {}, until you reload or close this page."
LOADED = "Your races with the method block draft with the loaded head again."
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
    fresh(lambda: _error(drafters.refuse))
    with gr.Row(elem_classes="la-do"):
        start, stop = buttons("Train")
    status = markup()
    figure = plot()
    with gr.Row(elem_classes="la-do"):
        keep = gr.Button("Keep for this session", scale=0, min_width=240, interactive=False)
        back = gr.Button("Put it away", scale=0, min_width=160, visible=False)
        download = gr.Button("Download", scale=0, min_width=140, interactive=False)
    kept = markup()
    lanes = timeline("", server.runs)
    packed = gr.Textbox("", visible=False)

    # Gradio hands a request to functions that ask for one, not to partial ones.
    def train(dark: bool, request: gr.Request) -> Iterator[list[Any]]:
        yield from _grown(server, drafters, dark, request.session_hash)

    def keep_it(request: gr.Request) -> list[Any]:
        try:
            name = drafters.keep(request.session_hash)
        except LookaheadError as error:
            return [refused(error), gr.skip()]
        return [says(KEPT.format(name)), gr.Button(visible=True)]

    def put_away(request: gr.Request) -> list[Any]:
        drafters.put_away(request.session_hash)
        return [says(LOADED if BLOCK in server.models.heads else NONE), gr.Button(visible=False)]

    def pack(request: gr.Request) -> list[Any]:
        try:
            return [gr.skip(), base64.b64encode(drafters.packed(request.session_hash)).decode()]
        except LookaheadError as error:
            return [refused(error), ""]

    shared = {"stopped": (lanes, STOP_LANES), "status": status, "done": None, "draws": True}
    run_and_stop(start, stop, train, [], [figure, lanes, keep, download], **shared)
    keep.click(keep_it, None, [kept, back], concurrency_limit=None, **QUIET)
    back.click(put_away, None, [kept, back], concurrency_limit=None, **QUIET)
    saved = download.click(pack, None, [kept, packed], concurrency_limit=None, **QUIET)
    saved.then(None, packed, packed, js=SAVE, **QUIET)


@dataclass(slots=True)
class Curve:
    """What a chart shows of the training so far: (seconds, loss) and (seconds, tokens a pass); and how far it is now."""

    losses: list[tuple[float, float]] = field(default_factory=list)
    accepted: list[tuple[float, float]] = field(default_factory=list)
    now: Progress | None = None

    @property
    def seconds(self) -> float:
        """Of computing."""
        return self.now.seconds if self.now else 0.0

    def add(self, progress: Progress) -> None:
        """Take up what the training says."""
        before, self.now = self.now, progress
        if progress.checks > (before.checks if before else 0):
            self.accepted.append((progress.seconds, progress.accepted))
        if progress.steps > (before.steps if before else 0):
            self.losses.append((progress.seconds, progress.loss))


def _grown(server: ServerState, drafters: Drafters, dark: bool, visitor: str) -> Iterator[list[Any]]:
    """Train until the visitor stops it or the time is over: a line of figures, the chart, races, and the two buttons."""
    most_s, usable = server.limits.max_grow_s, [gr.Button(interactive=True)] * 2
    yield [says("Getting ready."), drawn(None), *[gr.skip()] * 3]
    curve, run, shown_s, drawn_s = Curve(), None, 0.0, 0.0
    for update in drafters.grow(visitor).follow():
        row = [says(update.waiting) if update.waiting else gr.skip(), *[gr.skip()] * 4]
        for value in update.values:
            if isinstance(value, Run):
                run = value
            else:
                curve.add(value)
        if curve.seconds - shown_s > SHOW_S:
            shown_s = curve.seconds
            row[0] = says(_figures(curve.now), min(1.0, shown_s / most_s))
        if curve.losses and curve.seconds - drawn_s > DRAW_S:
            row[3:] = usable if not drawn_s else row[3:]
            drawn_s, row[1] = curve.seconds, drawn(charts.growing(curve.losses, curve.accepted, dark))
        if run and run.unsent:
            row[2] = run.batch()
        yield row
    yield [
        says(f"Done: {_figures(curve.now)}"),
        drawn(charts.growing(curve.losses, curve.accepted, dark)),
        *[gr.skip()] * 3,
    ]


def _figures(progress: Progress) -> str:
    parts = [f"{decimal(progress.accepted)} tokens a pass"] if progress.checks else []
    parts += [f"{seconds(progress.seconds)} of computing", f"{count(progress.tokens)} tokens written by the target"]
    parts += [counted(progress.steps, "step")] if progress.steps else []
    return ", ".join(parts) + "."


def _error(function: Callable[[], None]) -> str:
    """Nothing, or the words of the error that the function raises."""
    try:
        function()
    except LookaheadError as error:
        return refused(error)
    return ""
