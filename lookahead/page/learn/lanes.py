"""Widgets with lanes of tokens: a race, a recording at a pass, and a bug with its test and a race, after the reader's prediction."""

import html
import json
from collections.abc import Iterator
from functools import partial
from typing import Any
from zlib import crc32

import gradio as gr

from ...core.events import ACCEPTED
from ...core.tree import is_chain
from ...measure import bugs, recordings
from ...measure.checks import Finding
from ...server import form, race_job
from ...server.runs import complete_batch
from ...server.state import ServerState
from ...trace import wire
from ...trace.schema import LaneRecord
from ..parts import QUIET, markup
from ..running import STOP_LANES, buttons, follow_job, run_and_stop
from ..timeline import timeline
from .widgets import BY_ID, Bug, Race, Recording

EFFECTS = {
    bugs.TEXT: "It changes the text.", bugs.DISTRIBUTION: "It changes the distribution, which one text does not show.",
    bugs.SPEED: "It changes only the speed.",
}  # fmt: skip
QUESTIONS = {"the text": bugs.TEXT, "only the distribution": bugs.DISTRIBUTION, "only the speed": bugs.SPEED}


def race(widget: Race, server: ServerState) -> None:
    """Add a race that runs when its button is pressed."""
    options = " ".join(f"{name}={value}" for name, value in widget.options.items())
    family = server.families.default.models.spec
    changes = {**widget.settings, "draft": widget.draft, "options": options, "family": family}
    fields = form.initial_values(server.limits, **changes)
    methods = form.lanes(widget.methods[-1], widget.methods[:-1])
    link = html.escape(form.link(widget.prompt, methods, fields))
    settings = ", ".join([f"{', '.join(methods[:-1])} and {methods[-1]}", *form.changes(fields)])
    heading = f'<p class="la-asked"><q>{html.escape(widget.prompt).replace(chr(10), " ↵ ")}</q><span>{html.escape(settings)}. <a href="{link}">Open it in the Race tab</a></span></p>'
    with gr.Row(elem_classes="la-do"):
        markup(heading)
        start, stop = buttons("Race")
    lanes = timeline("", server.runs, elem_id=f"la-lesson-race-{crc32(widget.model_dump_json().encode()):08x}")

    def run() -> Iterator[str]:
        yield from race_job.follow(server, form.RaceForm(widget.prompt, methods, fields))

    run_and_stop(start, stop, run, [], [lanes], stopped=(lanes, STOP_LANES))


def recording(widget: Recording, server: ServerState) -> None:
    """Add a bundled recording, with the playhead at the lesson's pass."""
    trace = recordings.read(widget.recording)
    at = pass_number(trace.lanes[-1], widget.at)
    caption = f"A recording from {trace.machine.cpu}: {BY_ID[widget.recording].label}, at pass {at}."
    timeline(complete_batch(f"lesson-{widget.recording}-{at}", wire.events(trace, caption, at=at)), server.runs)


def pass_number(lane: LaneRecord, at: str) -> int:
    """Return the pass of a lane that the `at` of a `Recording` selects, from 1. Trees are selected by "longest" and "window"."""
    passes = [(len(s.draft.tokens) if is_chain(s.draft.parents) else 0, s.accepted) for s in lane.verified]
    if at == "window":
        most = max(step.draft.window for step in lane.verified)
        full = [(n, step) for n, step in enumerate(lane.verified, 1) if step.draft.window == most]
        accepted = [(n, zip(step.statuses, step.draft.ngram_origins, strict=False)) for n, step in full]
        return next(n for n, rows in accepted if any(status == ACCEPTED and origin for status, origin in rows))
    if at == "mixed":
        return next(n for n, (drafted, accepted) in enumerate(passes, 1) if 1 < accepted < drafted - 1)
    if at == "longest":
        return 1 + max(range(len(passes)), key=lambda i: passes[i][1])
    partly = at == "partly"
    return next(n for n, (drafted, accepted) in enumerate(passes, 1) if accepted < drafted and (accepted > 0) == partly)


def bug(widget: Bug, server: ServerState) -> None:
    """Add a bug: the reader predicts its effect, then runs its test, and a race if one shows the effect."""
    mistake = bugs.find(widget.bug)
    choice = gr.Radio(
        [*QUESTIONS], label=f"Your prediction: what does the bug “{mistake.name}” change?", interactive=True
    )
    with gr.Row(elem_classes="la-do"):
        start, stop = buttons("Run with and without the bug", width=240, interactive=False)
    # The outcome stays hidden until there is a prediction.
    choice.input(None, js=f"() => ({json.dumps(gr.update(interactive=True))})", outputs=start, queue=False, **QUIET)
    if not widget.scenario:
        status = markup()
        run_and_stop(start, stop, partial(_run_test, mistake), [choice], [], status=status, done=None)
        return
    finding, lanes = markup(), timeline("", server.runs)
    scenario = BY_ID[widget.scenario]
    options = {"chat": scenario.chat, **scenario.options, **widget.settings}
    options["max_new_tokens"] = form.initial_values(server.limits, **options)["max_new_tokens"]
    methods = ["naive", "draft", "draft"]

    def race_with_bug(server: ServerState) -> Any:
        return bugs.race(server.families.default.models, scenario.prompt, mistake, methods, **options)

    def run(choice: str) -> Iterator[Any]:
        for text in _run_test(mistake, choice):
            yield [gr.skip(), text]
        for batch in race_job.follow(server, race_with_bug):
            yield [batch, gr.skip()]

    run_and_stop(start, stop, run, [choice], [lanes, finding], stopped=(lanes, STOP_LANES))


def _run_test(bug: bugs.Bug, choice: str) -> Iterator[Any]:
    """Yield the findings of the bug's test without and with the bug, and whether the reader's prediction was right."""
    findings = ""
    for tested in (None, bug):
        for line, finding in follow_job(lambda tested=tested: bugs.catch(tested, bug.test)):
            if isinstance(finding, Finding):
                findings += _finding(finding, tested is not None)
            yield findings or line
    opening = "Right." if QUESTIONS.get(choice) == bug.harm else f"Not right, you chose “{choice}”."
    sentence = html.escape(f"{EFFECTS[bug.harm]} {bug.description}")
    yield f'<p class="la-finding" role="status"><b>{html.escape(opening)}</b> {sentence}</p>{findings}'


def _finding(finding: Finding, on: bool) -> str:
    outcome = ("passes" if finding.passed else "fails") + (" with the bug" if on else " without it")
    kind = "la-passes" if finding.passed else "la-fails"
    return f'<p class="la-finding {kind}" role="status"><code>{html.escape(finding.test)}</code> <b>{outcome}</b>: {html.escape(finding.sentence)}</p>'
