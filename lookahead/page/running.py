"""Run and Stop: a button that starts work, one that stops it, and a line that shows its progress."""

import json
from collections.abc import Callable, Iterator, Sequence
from functools import partial, wraps
from typing import Any

import gradio as gr

from ..server.queue import Job, error_message, queue
from ..server.runs import refusal
from ..server.state import ServerState
from .parts import DARK, QUIET, error_line, status_line

STOPPED = "Stopped. The results so far are shown."
AFTER_STOP_MS = 800  # a stopped run ends at its next value; a press before that would be lost
NOTHING = "() => {}"  # a script
Work = Callable[..., Iterator[Any]]
STOP_LANES = json.dumps({"stop": 1})  # to a timeline


def buttons(run: str, width: int = 120, **more: Any) -> tuple[gr.Button, gr.Button]:
    """Return the buttons Run, with its width in pixels and further options, and Stop."""
    start = gr.Button(run, variant="primary", scale=0, min_width=width, **more)
    return start, gr.Button("Stop", interactive=False, scale=0, min_width=96)


def run_and_stop(
    start: gr.Button, stop: gr.Button, work: Callable[..., Iterator[Any]], inputs: Sequence[Any], outputs: Sequence[Any],
    *, triggers: Sequence[Any] = (), others: Sequence[gr.Button] = (), status: gr.HTML | None = None,
    done: str | None = "Done.", draws: bool = False, stopped: tuple[Any, str] | None = None, then: str = NOTHING,
) -> Any:  # fmt: skip
    """Wire Run and Stop: `work(*inputs)` yields values for the outputs. Returns the event of the work.

    Args:
        triggers: events that start it, by default the click on `start`.
        others: further buttons that are disabled while it runs.
        status: a line for progress, errors and, at the end, `done`. `work` yields its text first, then the outputs.
        draws: whether the first argument of `work` is true if the page is dark.
        stopped: a component and its value after Stop, by default the `status`.
        then: a script to run when the work is over, however it ended.
    """
    all_buttons = {"outputs": [start, *others, stop], "queue": False, **QUIET}
    running, idle = ([not on] * (1 + len(others)) + [on] for on in (True, False))
    if status is None:
        work = with_status(work, len(outputs), None, partial(refusal, stop=1))
    else:
        outputs, stopped = [status, *outputs], stopped or (status, status_line(STOPPED))
        work = with_status(work, len(outputs), done)
    if draws:
        inputs = [gr.Checkbox(False, visible=False), *inputs]
    triggers = list(triggers) or [start.click]
    gr.on(triggers, None, js=_set(running), **all_buttons)  # first: listeners of one trigger wait for each other
    started = gr.on(
        triggers, work, inputs, outputs, js=f"(_, ...rest) => [{DARK}, ...rest]" if draws else None, trigger_mode="once",
        concurrency_limit=None, **QUIET,
    )  # fmt: skip
    for over in (started.then, started.failure):  # after an error, Blocks.svelte `dispatch` leaves out `then`
        over(None, js=_set(idle, first=then), **all_buttons)
    shown, message = stopped
    stop.click(None, js=f"() => {json.dumps(message)}", outputs=shown, **QUIET)
    ended = stop.click(lambda: None, cancels=[started], queue=False, **QUIET)  # when the server has stopped it
    repeated = [message] if status is not None else []  # the work may have written its last line in between
    afterwards = [*all_buttons["outputs"], *([shown] if repeated else [])]
    ended.then(None, js=_set(idle, AFTER_STOP_MS, *repeated), **{**all_buttons, "outputs": afterwards})
    return started


def follow_job(make: Callable[[], Iterator[Any]]) -> Iterator[tuple[Any, Any]]:
    """Compute the generator `make()` as a job, and yield (status line or no change, newest value or None)."""
    for update in queue.submit(Job("lab", lambda _: make())).follow():
        yield status_line(update.waiting) if update.waiting else gr.skip(), update.values[-1] if update.values else None


def follow_progress(make: Callable[[], Iterator[Any]], show: Callable[[Any], Any], width: int) -> Iterator[list[Any]]:
    """Compute a generator of `Progress` as a job. Yield a status line, and `width` values of `show` or no change."""
    for line, progress in follow_job(make):
        values = None
        if progress is not None:
            share = progress.done / max(1, progress.total)
            done = f"{progress.done} of {progress.total} {progress.unit}".rstrip()
            line = status_line(f"{done}: {progress.text}", share)
            values = show(progress.result) if progress.result else None
        yield [line, *(values or [gr.skip()] * width)]


def with_visitor_models(server: ServerState, work: Work, *more: Any) -> Work:
    """Return a function of inputs that calls `work(models, *more, *inputs)` with the visitor's models."""

    def with_models(request: gr.Request, *inputs: Any) -> Iterator[Any]:
        yield from work(server.models_for(request.session_hash), *more, *inputs)

    return with_models


def with_status(work: Work, width: int, done: str | None, refused: Callable[[str], str] = error_line) -> Work:
    """Return `work` with a last value for the first of `width` outputs: `done`, or an error as `refused` shows it."""

    def row(text: str) -> Any:
        return [text, *[gr.skip()] * (width - 1)] if width > 1 else text

    @wraps(work)  # Gradio searches its parameters for a request
    def work_with_status(*inputs: Any) -> Iterator[Any]:
        try:
            yield from work(*inputs)
            if done:
                yield row(status_line(done))
        except Exception as error:
            yield row(refused(error_message(error)))

    return work_with_status


def _set(states: Sequence[bool], after_ms: int = 0, *values: str, first: str = NOTHING) -> str:
    """Return a script that runs the script `first`, enables or disables buttons, and sets further outputs."""
    updates = ", ".join(map(json.dumps, [*(gr.update(interactive=on) for on in states), *values]))
    return f"() => new Promise(done => setTimeout(() => {{ ({first})(); done([{updates}]); }}, {after_ms}))"
