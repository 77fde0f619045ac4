"""Widgets with lanes of tokens: a race, a recording at a pass, and a race with a bug together with the test that fails."""

import html
from collections.abc import Iterator
from functools import partial
from typing import Any

import gradio as gr

from ...core.tree import is_chain
from ...measure import bugs, recordings
from ...measure.checks import Finding
from ...server import form, race_job
from ...server.runs import complete_batch
from ...server.state import ServerState
from ...trace import wire
from ...trace.race import race as correct_race
from ...trace.schema import LaneRecord
from ..parts import markup, status_line
from ..running import STOP_LANES, buttons, follow_job, run_and_stop
from ..timeline import timeline
from .widgets import BY_ID, Bug, Race, Recording

HARMS = {
    bugs.TEXT: "The text suffers.", bugs.DISTRIBUTION: "The distribution suffers, and no eye sees it.",
    bugs.SPEED: "Only the speed suffers.",
}  # fmt: skip


def race(widget: Race, server: ServerState) -> None:
    """A race, run when its button is pressed."""
    options = " ".join(f"{name}={value}" for name, value in widget.options.items())
    family = server.families.usual.models.spec
    changes = {**widget.settings, "draft": widget.draft, "options": options, "family": family}
    fields = form.initial_values(server.limits, **changes)
    methods = form.lanes(widget.methods[-1], widget.methods[:-1])
    link = html.escape(form.link(widget.prompt, methods, fields))
    settings = ", ".join([f"{', '.join(methods[:-1])} and {methods[-1]}", *form.changes(fields)])
    heading = f'<p class="la-asked"><q>{html.escape(widget.prompt).replace(chr(10), " ↵ ")}</q><span>{html.escape(settings)}. <a href="{link}">Open it in the Race tab</a></span></p>'
    with gr.Row(elem_classes="la-do"):
        markup(heading)
        start, stop = buttons("Race")
    lanes = timeline("", server.runs)

    def run() -> Iterator[str]:
        yield from race_job.follow(server, form.RaceForm(widget.prompt, methods, fields))

    run_and_stop(start, stop, run, [], [lanes], stopped=(lanes, STOP_LANES))


def recording(widget: Recording, server: ServerState) -> None:
    """A bundled recording, with the playhead at the lesson's pass."""
    trace = recordings.read(widget.recording)
    at = pass_number(trace.lanes[-1], widget.at)
    caption = f"A recording from {trace.machine.cpu}: {BY_ID[widget.recording].label}, at pass {at}."
    timeline(complete_batch(f"lesson-{widget.recording}-{at}", wire.events(trace, caption, at=at)), server.runs)


def pass_number(lane: LaneRecord, at: str) -> int:
    """The pass of a lane that `at` of a `Recording` means, counted from 1. Trees count as passes that accept all or nothing."""
    passes = [(len(s.draft.tokens) if is_chain(s.draft.parents) else 0, s.accepted) for s in lane.verified]
    if at == "longest":
        return 1 + max(range(len(passes)), key=lambda i: passes[i][1])
    partly = at == "partly"
    return next(n for n, (drafted, accepted) in enumerate(passes, 1) if accepted < drafted and (accepted > 0) == partly)


def bug(widget: Bug, server: ServerState) -> None:
    """A mistake as a switch, its test, and a race if the harm is visible in one."""
    mistake = bugs.find(widget.bug)
    with gr.Row(elem_classes="la-do"):
        on = gr.Checkbox(True, interactive=True, label=f'the bug "{mistake.name}" is switched on', min_width=240)
        test = gr.Button("Run the test", scale=0, min_width=136)
        start, stop = buttons("Race") if widget.scenario else (None, gr.Button("Stop", interactive=False, scale=0))
    status = markup(status_line(f"{HARMS[mistake.harm]} The test that catches it is {mistake.test}."))
    run_and_stop(test, stop, partial(_tested, mistake), [on], [], status=status, done=None)
    if not widget.scenario:
        return
    lanes = timeline("", server.runs)
    scenario = BY_ID[widget.scenario]
    options = {"chat": scenario.chat, **scenario.options, **widget.settings}
    options["max_new_tokens"] = form.initial_values(server.limits, **options)["max_new_tokens"]

    def broken(on: bool) -> Iterator[str]:
        bug = mistake.id if on else ""
        make = partial(_raced, bug=bug, prompt=scenario.prompt, methods=["naive", "draft"], options=options)
        yield from race_job.follow(server, make)

    run_and_stop(start, stop, broken, [on], [lanes], stopped=(lanes, STOP_LANES))


def _raced(server: ServerState, bug: str, prompt: str, methods: list[str], options: dict[str, Any]) -> Any:
    if not bug:
        return correct_race(server.families.usual.models, prompt, methods, **options)
    return bugs.race(server.families.usual.models, prompt, bugs.find(bug), methods, **options)


def _tested(bug: bugs.Bug, on: bool) -> Iterator[Any]:
    yield status_line("Running the test.")
    for line, finding in follow_job(lambda: bugs.catch(bug if on else None, bug.test)):
        yield _finding(finding, on) if isinstance(finding, Finding) else line


def _finding(finding: Finding, on: bool) -> str:
    word = ("passes" if finding.passed else "fails") + (" with the bug" if on else " without it")
    kind = "la-passes" if finding.passed else "la-fails"
    return f'<p class="la-finding {kind}" role="status"><code>{html.escape(finding.test)}</code> <b>{word}</b>: {html.escape(finding.sentence)}</p>'
