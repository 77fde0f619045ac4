"""The Race tab: a prompt, up to four lanes, and everything one can do with a race.

Errors a user can cause become a message in the timeline; the prompt and what was shown stay.

Knows the form, the recordings and what a link may ask for. How a race reaches the page is racing.py's business.
"""

from __future__ import annotations

import json
import secrets
from collections.abc import Iterator
from functools import partial
from typing import Any

import gradio as gr

from .. import log, recordings
from ..events import RULES, LookaheadError
from ..export import replay_html, to_csv
from ..limits import Limits
from ..methods import METHODS, method_class
from ..scenarios import SCENARIOS
from ..trace import Trace
from . import figures, form
from .racing import raced
from .runs import refusal, whole
from .stage import Stage
from .timeline import timeline

TOGGLE = """() => {
    const open = document.getElementById('la-more').classList.toggle('la-open');
    document.getElementById('la-more-button').setAttribute('aria-expanded', open);
}"""
NOTES = json.dumps([scenario.note for scenario in SCENARIOS])
LABELS = (
    "() => { const notes = "
    + NOTES
    + """;
    const more = document.getElementById('la-more-button');
    more.setAttribute('aria-expanded', 'false');
    more.setAttribute('aria-controls', 'la-more');
    document.querySelectorAll('.la-chip').forEach((chip, i) => { if (notes[i]) chip.title = notes[i]; });
}"""
)
CAPTION = "A recording from {cpu}. Press Race to run it here."
OPENED = "An opened recording, made on {cpu}."
IDLE = "() => [!window.lookahead.state().done]"
AFTER_STOP_MS = 600  # a run that was stopped ends with its next word; a press before that would be lost
QUIET = {"show_progress": "hidden", "api_visibility": "private"}


def tab(stage: Stage, page: gr.Blocks) -> None:
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
            own = gr.Button("your own", size="sm", elem_classes="la-chip", scale=0)
        method = gr.Dropdown(
            [(f"{m}: {method_class(m).summary.removeprefix('drafts ')}", m) for m in METHODS if m != "naive"], value=form.DEFAULT_METHOD,
            label="Method", filterable=False, elem_id="la-method", scale=1,
        )  # fmt: skip
        more = gr.Button("more", size="sm", elem_id="la-more-button", scale=0)
    with gr.Column(elem_id="la-more"):
        fields, also = _fields(stage)

    lanes = timeline(recording(SCENARIOS[0].id), stage.runs, [make, open_], elem_id="la-race-timeline")
    figures.add()

    def run(text: str, chosen: str, further: list[str], *values: Any) -> Iterator[str]:
        yield from raced(stage, text, form.lanes(chosen, further), dict(zip(form.FIELDS, values, strict=True)))

    form_values = [fields[name] for name in form.FIELDS]
    buttons = {"outputs": [start, stop], "queue": False, **QUIET}
    # First, since listeners of one trigger wait for each other.
    gr.on([start.click, prompt.submit], None, js=_interactive(False, True), **buttons)
    started = gr.on(
        [start.click, prompt.submit], run, [prompt, method, also, *form_values], lanes, trigger_mode="once",
        concurrency_limit=None, **QUIET,
    )  # fmt: skip
    started.then(None, js=_interactive(True, False), **buttons)
    stop.click(None, js="() => JSON.stringify({stop: 1})", outputs=lanes, **QUIET)
    stopped = stop.click(lambda: None, cancels=[started], queue=False, **QUIET)
    stopped.then(None, js=_interactive(True, False, after_ms=AFTER_STOP_MS), **buttons)

    more.click(None, js=TOGGLE, **QUIET)
    page.load(None, js=LABELS, **QUIET)
    targets = [prompt, method, also, *form_values]
    running = gr.Checkbox(False, visible=False)
    for chip, scenario in zip(chips, SCENARIOS, strict=True):
        values = form.first_values(stage.limits, **scenario.options, chat=scenario.chat)
        preset = [scenario.prompt, scenario.method, [], *(values[name] for name in form.FIELDS)]
        chip.click(None, js=f"() => {json.dumps(preset)}", outputs=targets, **QUIET)
        chip.click(partial(_shown, scenario.id), running, lanes, js=IDLE, queue=False, **QUIET)
    focus = "() => { document.querySelector('#la-prompt textarea').focus(); return ''; }"
    own.click(None, js=focus, outputs=prompt, **QUIET)

    def follow(request: gr.Request) -> Any:
        drafts, at = stage.drafts or [form.DEFAULTS["draft"]], 4 + form.FIELDS.index("draft")
        values = arrive(dict(request.query_params), drafts, stage.limits)
        values[at] = _drafts(stage, values[at])  # those in use when a page is opened
        return values

    page.load(follow, None, [lanes, *targets], queue=False, **QUIET)


def _fields(stage: Stage) -> tuple[dict[str, Any], gr.Dropdown]:
    """The fields behind "more", by name, and the further lanes."""
    further = stage.limits.max_lanes - 2
    with gr.Row():
        also = gr.Dropdown(
            [m for m in METHODS if m != "naive"], value=[], multiselect=True, max_choices=max(1, further), min_width=240,
            label=f"further lanes, up to {further}", elem_id="la-also", visible=further > 0,
        )  # fmt: skip
        fields = {
            "max_new_tokens": gr.Number(
                form.first_values(stage.limits)["max_new_tokens"], label="new tokens, at most", min_width=120
            ),
            "k": gr.Textbox(form.DEFAULTS["k"], label='draft length k, or "auto"', min_width=120),
            "temperature": gr.Number(
                form.DEFAULTS["temperature"], label="temperature (0: greedy)", step=0.1, min_width=120
            ),
            "seed": gr.Number(form.DEFAULTS["seed"], label="seed", min_width=120),
            "rule": gr.Dropdown(
                list(RULES), value=form.DEFAULTS["rule"], label="acceptance rule", filterable=False, min_width=120
            ),
        }
    with gr.Row():
        fields |= {
            "top_k": gr.Number(form.DEFAULTS["top_k"], label="top-k (0: off)", min_width=120),
            "top_p": gr.Number(form.DEFAULTS["top_p"], label="top-p (1: off)", step=0.05, min_width=120),
            "repetition_penalty": gr.Number(
                form.DEFAULTS["repetition_penalty"], label="repetition penalty (1: off)", step=0.1, min_width=120
            ),
            "stop": gr.Textbox(
                form.DEFAULTS["stop"], label="stop at", placeholder="one a line", lines=1, max_lines=4, min_width=120
            ),
            "chat": gr.Checkbox(form.DEFAULTS["chat"], label="as a chat message", min_width=180),
            "draft": _drafts(stage, gr.skip(), label="draft model", filterable=False, min_width=120),
            "options": gr.Textbox(
                form.DEFAULTS["options"], label="options of the methods", placeholder="window=5 ngram=3", min_width=180
            ),
        }
    return fields, also


def _drafts(stage: Stage, value: Any, **more: Any) -> gr.Dropdown:
    """The draft models in use, to choose from; without any, the race says so of a method that needs one."""
    first = form.DEFAULTS["draft"]
    return gr.Dropdown(stage.drafts or [("none", first)], value=value if isinstance(value, str) else first, **more)


def _interactive(race_on: bool, stop_on: bool, after_ms: int = 0) -> str:
    update = [{"__type__": "update", "interactive": on} for on in (race_on, stop_on)]
    return f"() => new Promise(done => setTimeout(() => done({json.dumps(update)}), {after_ms}))"


def recording(scenario: str, at: int | None = None) -> str:
    """A scenario's bundled recording as one batch, or nothing where there is none."""
    trace = recordings.read(scenario)
    if trace is None:
        return ""
    events = log.events(trace, CAPTION.format(cpu=trace.machine.cpu), link=f"?recording={scenario}", at=at)
    return whole(f"recording-{scenario}" + (f"-{at}" if at else ""), events)


def _shown(scenario: str, running: bool) -> Any:
    """The recording of a chip that was pressed; a race that is running stays on show."""
    return gr.skip() if running else recording(scenario) or gr.skip()


def arrive(query: dict[str, str], drafts: list[str], limits: Limits | None = None) -> Any:
    """What a link asks for: a recording at a pass, or a form filled in. Nothing runs by itself."""
    nothing = [gr.skip()] * (4 + len(form.FIELDS))
    scenario = next((s for s in SCENARIOS if s.id == query.get("recording")), None)
    if scenario:
        at = query.get("pass", "")
        values = form.first_values(limits or Limits(), **scenario.options, chat=scenario.chat)
        batch = recording(scenario.id, int(at) if at.isdecimal() and len(at) < 7 else None)
        return [batch or gr.skip(), scenario.prompt, scenario.method, [], *(values[name] for name in form.FIELDS)]
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
    return whole(run, log.events(trace, OPENED.format(cpu=trace.machine.cpu)))
