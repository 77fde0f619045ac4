"""The Race tab: a prompt, up to four lanes, and everything one can do with a race.

Errors a user can cause become a message in the timeline; the prompt and what was shown stay.

Knows the form, the recordings and what a link may ask for. How a race reaches the page is `server/race_job.py`'s business.
"""

from __future__ import annotations

import json
import secrets
from collections.abc import Iterator
from functools import partial
from typing import Any

import gradio as gr

from ..core.events import RULES, LookaheadError
from ..measure.scenarios import SCENARIOS, Scenario
from ..model.heads.shape import KINDS
from ..race.methods import METHODS, method_class, methods_for, needed_by
from ..server import form
from ..server.limits import Limits
from ..server.race_job import race_form
from ..server.recording import passed, recording
from ..server.runs import refusal, whole
from ..server.state import ServerState
from ..trace import wire
from ..trace.export import replay_html, to_csv
from ..trace.trace import Trace
from . import figures
from .parts import QUIET
from .running import STOP_LANES, run_and_stop
from .timeline import timeline

TOGGLE = """() => {
    const open = document.getElementById('la-more').classList.toggle('la-open');
    document.getElementById('la-more-button').setAttribute('aria-expanded', open);
}"""
LABELS = """() => {
    const notes = NOTES;
    const more = document.getElementById('la-more-button');
    more.setAttribute('aria-expanded', 'false');
    more.setAttribute('aria-controls', 'la-more');
    document.querySelectorAll('.la-chip').forEach((chip, i) => { if (notes[i]) chip.title = notes[i]; });
}""".replace("NOTES", json.dumps([scenario.note for scenario in SCENARIOS]))
OPENED = "An opened recording, made on {cpu}."
UNRECORDED = "Of this one there is no recording yet. Press Race to run it here."
IDLE = "() => [!window.lookahead.state().done]"


def tab(server: ServerState, page: gr.Blocks) -> None:
    """Everything on the Race tab."""
    with gr.Row(elem_id="la-ask"):
        prompt = gr.Textbox(
            SCENARIOS[0].prompt, label="Prompt", lines=1, max_lines=3, elem_id="la-prompt", scale=1,
            placeholder="Type the beginning of a text",
        )  # fmt: skip
        start = gr.Button("Race", variant="primary", elem_id="la-race", scale=0)
        stop = gr.Button("Stop", interactive=False, elem_id="la-stop", scale=0)
    with gr.Row(elem_id="la-choose"):
        with gr.Row(elem_id="la-chips"):
            chips = [gr.Button(s.label, size="sm", elem_classes="la-chip", scale=0) for s in SCENARIOS]
            clear = gr.Button("your own", size="sm", elem_classes="la-chip", scale=0)
        method = gr.Dropdown(
            _methods(server), value=form.DEFAULT_METHOD, label="Method", filterable=False, elem_id="la-method", scale=1
        )
        more = gr.Button("more", size="sm", elem_id="la-more-button", scale=0)
    with gr.Column(elem_id="la-more"):
        fields, also = _fields(server)

    lanes = timeline(recording(SCENARIOS[0].id), server.runs, [make, open_], elem_id="la-race-timeline")
    figures.add()

    def run(request: gr.Request, text: str, chosen: str, further: list[str], *values: Any) -> Iterator[str]:
        fields = dict(zip(form.FIELDS, values, strict=True))
        yield from race_form(server, text, form.lanes(chosen, further), fields, request.session_hash)

    form_values = [fields[name] for name in form.FIELDS]
    targets = [prompt, method, also, *form_values]
    triggers = [start.click, prompt.submit]
    run_and_stop(start, stop, run, targets, [lanes], triggers=triggers, stopped=(lanes, STOP_LANES))

    more.click(None, js=TOGGLE, **QUIET)
    page.load(None, js=LABELS, **QUIET)
    running = gr.Checkbox(False, visible=False)
    for chip, scenario in zip(chips, SCENARIOS, strict=True):
        values = form.first_values(server.limits, **scenario.options, chat=scenario.chat)
        preset = [
            scenario.prompt,
            scenario.method,
            _further(scenario, server.limits),
            *(values[name] for name in form.FIELDS),
        ]
        chip.click(None, js=f"() => {json.dumps(preset)}", outputs=targets, **QUIET)
        chip.click(partial(_shown, scenario.id), running, lanes, js=IDLE, queue=False, **QUIET)
    focus = "() => { document.querySelector('#la-prompt textarea').focus(); return ''; }"
    clear.click(None, js=focus, outputs=prompt, **QUIET)

    def follow(request: gr.Request) -> Any:
        drafts, at = server.drafts or [form.DEFAULTS["draft"]], 4 + form.FIELDS.index("draft")
        values = arrive(dict(request.query_params), drafts, server.limits)
        # What there is to choose from when a page is opened. What is chosen stays, for a chip may have been pressed since.
        values[2] = _choices(_methods(server), values[2])
        values[at] = _choices(_drafts(server), values[at])
        return values

    page.load(follow, None, [lanes, *targets], queue=False, show_progress_on=lanes, **QUIET)


def _fields(server: ServerState) -> tuple[dict[str, Any], gr.Dropdown]:
    """The fields behind "more", by name, and the further lanes."""
    further, first = server.limits.max_lanes - 2, form.first_values(server.limits)
    fields: dict[str, Any] = {}

    def field(kind: type, name: str, label: str, **more: Any) -> None:
        fields[name] = kind(value=first[name], label=label, **{"min_width": 120, **more})

    with gr.Row():
        also = gr.Dropdown(
            [m for m in METHODS if m != "naive"], value=[], multiselect=True, max_choices=max(1, further), min_width=240,
            label=f"further lanes, up to {further}", elem_id="la-also", visible=further > 0,
        )  # fmt: skip
        field(gr.Number, "max_new_tokens", "new tokens, at most")
        field(gr.Textbox, "k", 'draft length k, or "auto"')
        field(gr.Number, "temperature", "temperature (0: greedy)", step=0.1)
        field(gr.Number, "seed", "seed")
        field(gr.Dropdown, "rule", "acceptance rule", choices=list(RULES), filterable=False)
    with gr.Row():
        field(gr.Number, "top_k", "top-k (0: off)")
        field(gr.Number, "top_p", "top-p (1: off)", step=0.05)
        field(gr.Number, "repetition_penalty", "repetition penalty (1: off)", step=0.1)
        field(gr.Textbox, "stop", "stop at", placeholder="one a line", lines=1, max_lines=4)
        field(gr.Checkbox, "chat", "as a chat message", min_width=180)
        field(gr.Dropdown, "draft", "draft model", choices=_drafts(server), filterable=False)
        field(gr.Textbox, "options", "options of the methods", placeholder="window=5 ngram=3", min_width=180)
    return fields, also


def _methods(server: ServerState) -> list[tuple[str, str]]:
    """All methods to choose from; one whose drafter is not loaded says so, and its race says what to do."""
    loaded = methods_for(server.models)
    return [(_described(method, method in loaded), method) for method in METHODS if method != "naive"]


def _described(method: str, loaded: bool) -> str:
    """A method's name and what it does."""
    words = f"{method}: {method_class(method).summary.removeprefix('drafts ')}"
    if loaded:
        return words
    return f"{words} ({'no such trained head' if needed_by(method) in KINDS else 'no draft model'} is loaded)"


def _further(scenario: Scenario, limits: Limits) -> list[str]:
    """A scenario's further lanes, as many as the host allows."""
    return list(scenario.further[: max(0, limits.max_lanes - 2)])


def _drafts(server: ServerState) -> list[str] | list[tuple[str, str]]:
    """The draft models in use, to choose from; without any, the race says so of a method that needs one."""
    return server.drafts or [("none", form.DEFAULTS["draft"])]


def _choices(choices: list[Any], value: Any) -> Any:
    """An update of a list, and of what is chosen from it where a link says so."""
    return gr.update(choices=choices, **({"value": value} if isinstance(value, str) else {}))


def _shown(scenario: str, running: bool) -> Any:
    """The recording of a chip that was pressed, or that there is none; a race that is running stays on show."""
    return gr.skip() if running else recording(scenario) or refusal(UNRECORDED)


def arrive(query: dict[str, str], drafts: list[str], limits: Limits) -> Any:
    """The outputs for a link: a recording at a pass, or a form filled in. Nothing is run."""
    nothing = [gr.skip()] * (4 + len(form.FIELDS))
    scenario = next((s for s in SCENARIOS if s.id == query.get("recording")), None)
    if scenario:
        values = form.first_values(limits, **scenario.options, chat=scenario.chat)
        batch = recording(scenario.id, passed(query.get("pass", "")))
        shown = [batch or refusal(UNRECORDED), scenario.prompt, scenario.method, _further(scenario, limits)]
        return [*shown, *(values[name] for name in form.FIELDS)]
    if "prompt" not in query and "recording" not in query:
        return nothing
    try:
        if "recording" in query:
            mend = f"choose one of {', '.join(s.id for s in SCENARIOS)}."
            raise LookaheadError("recording", query["recording"][:200], mend)
        prompt, method, also, fields = form.from_link(query, drafts, limits)
    except LookaheadError as error:
        return [refusal(f"This link cannot be followed. {error}"), *nothing[1:]]
    return [gr.skip(), prompt, method, also, *(fields[name] for name in form.FIELDS)]


def make(request: list) -> dict[str, str]:
    """A file of the race on show, for [kind, trace as JSON]: {"text": ...} or {"error": ...}."""
    try:
        kind, text = request
        trace = Trace.from_json(text)
        return {"text": {"csv": to_csv, "replay": replay_html}[kind](trace)}
    except LookaheadError as error:
        return {"error": str(error)}
    except (ValueError, TypeError, KeyError):
        return {"error": "The page asked for something this server does not make. Reload it."}


def open_(text: str) -> str:
    """A file that somebody opened: its log as one batch, or a refusal that says what is wrong with it."""
    try:
        trace = Trace.from_json(text if isinstance(text, str) else "")
    except LookaheadError as error:
        return refusal(str(error))
    run = f"opened-{secrets.token_urlsafe(6)}"
    return whole(run, wire.events(trace, OPENED.format(cpu=trace.machine.cpu)))
