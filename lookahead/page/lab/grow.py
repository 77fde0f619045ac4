"""Grow a drafter: train a block head for the target, race it during the training, and keep it."""

import base64
import json
from collections.abc import Callable, Iterator
from typing import Any

import gradio as gr

from ...core.events import LookaheadError
from ...core.numbers import counted, decimal, seconds
from ...drafting import drafter_with
from ...measure import charts, recordings
from ...model.heads.shape import BLOCK
from ...server import growing_job
from ...server.runs import Run, complete_batch
from ...server.state import ServerState
from ...trace import wire
from ..parts import (
    QUIET,
    Follow,
    Opening,
    answer_html,
    error_line,
    markup,
    plot,
    plot_update,
    prose,
    split,
    status_line,
)
from ..running import STOP_LANES, buttons, run_and_stop
from ..timeline import timeline

INTRO = (
    "A <b>block head</b> is a small network that reads the target's hidden states and drafts five tokens at once. Train starts "
    "from random weights, on stories that the target writes for it. Every 20 seconds the head races the same prompt. At first "
    "every draft is rejected; later, more and more tokens are green. Two to five minutes are enough."
)
BUNDLED_RACE = "The bundled block head, recorded on {cpu}. Yours starts from random weights."
NOT_TRAINED = "A drafter with random weights saves no pass; train one here."
TRAINING = "Training: {} written by the target, {} of training."
DONE = "Done: the training time is over. Keep the drafter, download it, or press Train to start another."
STOPPED = "Stopped. Keep the drafter, download it, or press Train to start another."
KEPT = "Kept: in the Race tab, the method block now drafts with {}, until you reload or close this page."
BUNDLED = "Removed: the method block drafts with the loaded head again."
NONE = "Removed. No other block head is loaded, so the method block cannot draft."
DRAW_S, LOSS_S = 1.0, 0.5  # of training, between two charts, and between two losses
SAVE = "text => lookaheadPage.files.saveBase64('block-head.zip', 'application/zip', text)"


def add(server: ServerState, follow: Follow) -> list[Opening]:
    """Add the section."""
    headline = markup(answer_html(NOT_TRAINED))
    left, right = split()
    with left:
        figure = plot()
        lanes = timeline(_bundled_race(), server.runs, elem_id="la-grown")
    with right:
        prose(INTRO)
        follow(lambda models: _line(lambda: growing_job.check_growable(server, models)), markup())
        with gr.Row(elem_classes="la-do"):
            start, stop = buttons("Train")
        status = markup()
        keep = gr.Button("Keep for my races", min_width=192, interactive=False)
        remove = gr.Button("Remove", min_width=128, visible=False)
        download = gr.Button("Download", min_width=120, interactive=False)
        kept = markup()
    packed = gr.Textbox("", visible=False)

    # Gradio passes a request to functions whose parameters it can inspect, and it cannot inspect a partial.
    def run(dark: bool, request: gr.Request) -> Iterator[list[Any]]:
        yield from _train(server, dark, request.session_hash)

    def keep_it(request: gr.Request) -> list[Any]:
        visitor = request.session_hash
        line = _line(lambda: KEPT.format(growing_job.find_drafter(server, visitor).keep()))
        return [line, gr.Button(visible=visitor in server.drafters and server.drafters[visitor].kept is not None)]

    def remove_it(request: gr.Request) -> list[Any]:
        if drafter := server.drafters.get(request.session_hash):
            drafter.kept = None
        models = server.models_for(request.session_hash)
        return [status_line(BUNDLED if BLOCK in models.heads else NONE), gr.Button(visible=False)]

    def pack(request: gr.Request) -> list[Any]:
        try:
            drafter = growing_job.find_drafter(server, request.session_hash)
            return [gr.skip(), base64.b64encode(drafter.to_zip()).decode()]
        except LookaheadError as error:
            return [error_line(error), ""]

    outputs = [headline, figure, lanes, keep, download]
    texts = {"status": status, "done": DONE, "stopped": (status, status_line(STOPPED))}
    run_and_stop(start, stop, run, [], outputs, draws=True, **texts)
    stop.click(None, js=f"() => {json.dumps(STOP_LANES)}", outputs=lanes, **QUIET)
    keep.click(keep_it, None, [kept, remove], concurrency_limit=None, **QUIET)
    remove.click(remove_it, None, [kept, remove], concurrency_limit=None, **QUIET)
    packing = download.click(pack, None, [kept, packed], concurrency_limit=None, **QUIET)
    packing.then(None, packed, packed, js=SAVE, **QUIET)
    return []


def _bundled_race() -> str:
    """Return a recorded race of the bundled block head, as one batch."""
    trace = recordings.read("generations")
    lanes = [lane for lane in trace.lanes if lane.method in ("naive", drafter_with(BLOCK).name)]
    events = wire.events(trace.model_copy(update={"lanes": lanes}), BUNDLED_RACE.format(cpu=trace.machine.cpu))
    return complete_batch("grow-bundled", events)


def _train(server: ServerState, dark: bool, visitor: str) -> Iterator[list[Any]]:
    """Train until the visitor stops it or the time is over. Yields the status line, the headline, the chart and races."""
    same, run, last, drawn_s = gr.skip(), None, None, 0.0
    losses, accepted = [], []  # each with the seconds of training before
    yield [status_line("Getting ready."), "", plot_update(None), same, *_pressable(False)]
    drafter = growing_job.grow(server, visitor)
    for update in drafter.job.follow():
        for value in update.values:
            if isinstance(value, Run):
                run = value
                continue
            last = value
            if last.checks > len(accepted):
                accepted.append((last.seconds, last.accepted))
            if last.loss is not None and (not losses or last.seconds - losses[-1][0] > LOSS_S):
                losses.append((last.seconds, last.loss))
        line, shown, pressable = status_line(update.waiting) if update.waiting else same, [same] * 2, [same] * 2
        if losses and not update.waiting and last.seconds - drawn_s > DRAW_S:
            drawn_s = last.seconds
            sentence = TRAINING.format(counted(last.tokens, "token"), counted(last.steps, "step"))
            line = status_line(sentence, min(1.0, last.seconds / server.limits.max_grow_s))
            shown = [_headline(accepted), plot_update(charts.growing(losses, accepted, dark))]
            pressable = _pressable(drafter.trained is not None)
        batch = run.batch() if run and run.unsent else same
        yield [line, *shown, batch, *pressable]
    yield [same, _headline(accepted), plot_update(charts.growing(losses, accepted, dark)), same, *_pressable(True)]


def _headline(accepted: list[tuple[float, float]]) -> str:
    if not accepted:
        return ""
    at_s, tokens = accepted[-1]
    after = f"after {seconds(at_s)}" if len(accepted) > 1 else "before training"
    return f'<p class="la-worth"><b>{decimal(tokens)}</b> tokens per pass, {after}</p>'


def _pressable(on: bool) -> list[gr.Button]:
    return [gr.Button(interactive=on), gr.Button(interactive=on)]


def _line(function: Callable[[], str | None]) -> str:
    """Return a line with the result of the function, or with the error that it raises."""
    try:
        return status_line(sentence) if (sentence := function()) else ""
    except LookaheadError as error:
        return error_line(error)
