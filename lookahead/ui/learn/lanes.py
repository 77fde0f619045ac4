"""Widgets with lanes of tokens: a race, a recording at a pass, and a race with a bug in it beside the test that catches it.

Knows lessons' widgets and races. How lanes look is the timeline's business.
"""

from __future__ import annotations

import html
from collections.abc import Iterator
from functools import partial
from typing import Any

import gradio as gr

from ... import log, recordings
from ...events import LookaheadError
from ...lab import bugs
from ...lab.checks import Finding
from ...lessons import BY_ID, Bug, Race, Recording
from ...race import race as honest
from .. import form
from ..jobs import follow
from ..lab.parts import buttons, refused, runs, says
from ..racing import raced, watched
from ..runs import whole
from ..stage import Stage
from ..timeline import timeline

HARMS = {
    bugs.TEXT: "The text suffers.", bugs.DISTRIBUTION: "The distribution suffers, and no eye sees it.",
    bugs.SPEED: "Only the speed suffers.",
}  # fmt: skip


def race(widget: Race, stage: Stage) -> None:
    """A real race, run when somebody asks for it."""
    fields = _fields(widget, stage)
    methods = form.lanes(widget.methods[-1], widget.methods[:-1])
    link = html.escape(form.link(widget.prompt, methods, fields))
    say(widget.say)
    told = f'<p class="la-asked">{_quoted(widget.prompt)}<span>{html.escape(_settings(methods, fields))}. <a href="{link}">Open it in the Race tab</a></span></p>'
    with gr.Row(elem_classes="la-do"):
        gr.HTML(told, apply_default_css=False)
        start, stop = buttons("Race")
    lanes = timeline("", stage.runs)

    def run(dark: bool) -> Iterator[str]:
        yield from raced(stage, widget.prompt, methods, fields)

    runs(start, stop, run, [], lanes)


def recording(widget: Recording, stage: Stage) -> None:
    """A bundled recording, its playhead where the lesson wants it."""
    say(widget.say)
    trace, at = recordings.read(widget.recording), widget.pass_number()
    told = f"A recording from {trace.machine.cpu}: {BY_ID[widget.recording].label}" + (
        f", at pass {at}." if at else "."
    )
    timeline(whole(f"lesson-{widget.recording}-{at or 0}", log.events(trace, told, at=at)), stage.runs)


def bug(widget: Bug, stage: Stage) -> None:
    """A mistake as a switch; the test that it names; and, where an eye can see the harm, a race."""
    found = bugs.find(widget.bug)
    say(widget.say)
    with gr.Row(elem_classes="la-do"):
        on = gr.Checkbox(True, interactive=True, label=f'the bug "{found.name}" is switched on', min_width=240)
        test = gr.Button("Run the test", scale=0, min_width=136)
        start, stop = buttons("Race") if widget.scenario else (None, gr.Button("Stop", interactive=False, scale=0))
    said = gr.HTML(says(f"{HARMS[found.harm]} The test that catches it is {found.test}."), apply_default_css=False)
    runs(test, stop, partial(_tested, found), [on], said)
    if not widget.scenario:
        return
    lanes = timeline("", stage.runs)
    scenario = BY_ID[widget.scenario]
    options = {"chat": scenario.chat, **scenario.options, **widget.settings}
    options["max_new_tokens"] = form.first_values(stage.limits, **options)["max_new_tokens"]

    def broken(dark: bool, on: bool) -> Iterator[str]:
        methods = ["naive", *widget.methods]
        make = partial(_raced, bug=found.id if on else "", prompt=scenario.prompt, methods=methods, options=options)
        yield from watched(stage, make)

    runs(start, stop, broken, [on], lanes)


def _raced(stage: Stage, bug: str, prompt: str, methods: list[str], options: dict[str, Any]) -> Any:
    """The race, with the bug of that name or without any."""
    if not bug:
        return honest(stage.models, prompt, methods, **options)
    return bugs.race(stage.models, prompt, bugs.find(bug), methods, **options)


def _tested(bug: bugs.Bug, dark: bool, on: bool) -> Iterator[Any]:
    """The test that the bug names, run with it or without."""
    try:
        yield says("Running the test.")
        for now in follow(lambda: bugs.catch(bug if on else None, bug.test)):
            yield _found(now, on) if isinstance(now, Finding) else says(now) if now else gr.skip()
    except LookaheadError as error:
        yield refused(error)


def _found(finding: Finding, on: bool) -> str:
    word = ("passes" if finding.passed else "fails") + (" with the bug" if on else " without it")
    kind = "la-passes" if finding.passed else "la-fails"
    return f'<p class="la-finding {kind}" role="status"><code>{html.escape(finding.test)}</code> <b>{word}</b>: {html.escape(finding.found)}</p>'


def say(text: str) -> None:
    """A sentence beside a widget."""
    if text:
        gr.HTML(f'<p class="la-caption">{html.escape(text)}</p>', apply_default_css=False)


def _fields(widget: Race, stage: Stage) -> dict[str, Any]:
    """The widget's settings as the Race tab's form would hold them."""
    options = " ".join(f"{name}={value}" for name, value in widget.options.items())
    return form.first_values(stage.limits, **widget.settings, draft=widget.draft, options=options)


def _settings(methods: list[str], fields: dict[str, Any]) -> str:
    """What differs from the defaults, in words."""
    changed = {name: value for name, value in fields.items() if value != form.DEFAULTS[name] and name != "chat"}
    told = [
        f"{name.replace('_', ' ')} {value}"
        for name, value in changed.items()
        if name not in ("max_new_tokens", "options")
    ]
    who = ", ".join(methods[:-1]) + f" and {methods[-1]}"
    return ", ".join([who, *told, *fields["options"].split(), f"{fields['max_new_tokens']} tokens"])


def _quoted(prompt: str) -> str:
    return f"<q>{html.escape(prompt).replace(chr(10), ' ↵ ')}</q>"
