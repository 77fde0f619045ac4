"""The Race tab: a form, its chips, the timeline of a race with up to four lanes, and its figures.

An error that a user causes becomes a message in the timeline. The form and the last race stay.
"""

import json
import secrets
from collections.abc import Iterator
from functools import partial
from typing import Any

import gradio as gr

from ..core.events import LOSSY, RULES, LookaheadError
from ..core.numbers import counted, significant
from ..core.text_files import csv_file
from ..engine.methods import all_methods, method_label, methods_with, needed_by
from ..measure import recordings
from ..measure.scenarios import ALL_SCENARIOS, ANSWERS, CHIPS, SCENARIOS, Scenario
from ..model.heads.shape import KINDS
from ..server import form, race_job
from ..server.limits import Limits
from ..server.loading_job import offered
from ..server.queue import error_message
from ..server.runs import complete_batch, on_arrival, parse_pass, recording, refusal
from ..server.state import ServerState, family_title
from ..servers.addresses import is_servers
from ..trace import charts, wire
from ..trace.export import replay_html, to_csv
from ..trace.trace import Trace
from ..trace.verdict import CHANGES_TEXT
from .learn.deck import session_json
from .parts import DARK, QUIET, TRACE, markup, pressed_id
from .running import STOP_LANES, run_and_stop
from .timeline import timeline

CONTINUED, ANSWERED = "continued", "answered"  # chips for models that continue a text, or reply to a message
GROUPS = (5, 3, 2, 1)  # of the chips, by the measured tokens per pass


def _group(scenario: Scenario) -> int:
    """Return the group of a scenario: the one nearest to its recording's tokens per pass."""
    measured = recordings.tokens_per_pass(scenario.id) or 0
    return min(GROUPS, key=lambda group: abs(group - measured))


IN_GROUPS = sorted(CHIPS, key=lambda scenario: (scenario in ANSWERS, GROUPS.index(_group(scenario))))
NOTES = json.dumps([{"id": scenario.id, "note": scenario.note} for scenario in IN_GROUPS])
BEGIN = f"() => {{ lookaheadPage.chips.connect({NOTES}); lookaheadPage.buttons.connect(); }}"
FIRST_METHODS = ("draft", "ngram", "hybrid", "tree", "eagle", "lookahead")  # in the menu
CHIP = "la-chip-"  # the beginning of a chip's name on the page
REQUESTED = "This link describes a race that has not run yet."
UNRECORDED = "This example has no recording yet. Press Race to run it here."
RULE_CHOICES = [(f"{rule} ({CHANGES_TEXT})" if rule in LOSSY else rule, rule) for rule in RULES]
PASS_COSTS = [("default", "auto"), ("of a typical machine", "typical"), ("of this machine", "measured")]
NAMES = ("prompt", "method", "also", *form.FIELDS)
SET_BY_CHIPS = tuple(name for name in NAMES if name != "family")
IDLE = "() => [!window.lookahead.state().done]"


def tab(server: ServerState, page: gr.Blocks) -> tuple[gr.Dropdown, list[Any], gr.Button]:
    """Add the Race tab. Returns the dropdown of models, events that may load models, and the chip "class of eight"."""
    first, choice = server.families.first.models.spec, {"filterable": False, "scale": 0, "min_width": 160}
    methods = _methods(server, first)
    with gr.Row(elem_id="la-ask"):
        prompt = gr.Textbox(
            SCENARIOS[0].prompt, label="Prompt", lines=1, max_lines=3, elem_id="la-prompt", scale=1,
            placeholder="Type the beginning of a text",
        )  # fmt: skip
        method = gr.Dropdown(methods, value=form.DEFAULT_METHOD, label="Method", elem_id="la-method", **choice)
        family = gr.Dropdown(_families(server), value=first, label="Models", elem_id="la-family", **choice)
        start = gr.Button("Race", variant="primary", elem_id="la-race", scale=0)
        stop = gr.Button("Stop", interactive=False, elem_id="la-stop", scale=0)
    with gr.Row(elem_id="la-choose"):
        with gr.Row(elem_id="la-chips", elem_classes=_chips(server, first)) as chip_row:
            chips = [chip for kind in (CONTINUED, ANSWERED) for chip in _chips_of(kind)]
            class_chip = gr.Button("class of eight", size="sm", elem_classes=["la-chip", "la-for-continued"], scale=0)
            select = gr.Button("your own", size="sm", elem_classes="la-chip", scale=0)
        gr.Button("more", size="sm", elem_id="la-more-button", scale=0)
        gr.Button("one-minute tour", size="sm", elem_id="la-tour-button", scale=0)
    with gr.Column(elem_id="la-more"):
        further = _fields(server)

    def session(name: str) -> str:
        return session_json(name, server.families.default.models)

    functions = [make, open_, recorded, session]
    lanes = timeline(recording(SCENARIOS[0].id), server.runs, functions, elem_id="la-race-timeline")
    _figures()
    named = {"lanes": lanes, "prompt": prompt, "method": method, "family": family, **further}
    inputs, preset = [named[name] for name in NAMES], [named[name] for name in SET_BY_CHIPS]
    running = gr.Checkbox(False, visible=False)

    def run(request: gr.Request, *values: Any) -> Iterator[str]:
        filled = dict(zip(NAMES, values, strict=True))
        methods = form.lanes(filled["method"], filled["also"])
        fields = {name: filled[name] for name in form.FIELDS}
        yield from race_job.follow(server, form.RaceForm(filled["prompt"], methods, fields, request.session_hash))

    triggers = [start.click, prompt.submit]
    started = run_and_stop(start, stop, run, inputs, [lanes], triggers=triggers, stopped=(lanes, STOP_LANES))
    page.load(None, js=BEGIN, **QUIET)
    # The script sees all other edits itself.
    edits = [named[name].input for name in ("method", "also", "rule", "draft", "costs")]
    gr.on(edits, None, js="() => lookaheadPage.component.edited()", queue=False, **QUIET)

    for chip, scenario in zip(chips, IN_GROUPS, strict=True):
        values, same = json.dumps([*_preset(scenario, server.limits).values()]), json.dumps([gr.skip()] * len(preset))
        js = f"() => window.lookahead.state().done ? {values} : {same}"  # a running race keeps its form
        chip.click(None, js=js, outputs=preset, **QUIET)

    def show(event: gr.EventData, running: bool) -> Any:
        return gr.skip() if running else _shown(pressed_id(event).removeprefix(CHIP))

    clicks = [chip.click for chip in chips]  # one event for all, because every event slows the start of a page
    gr.on(clicks, show, running, lanes, js=IDLE, queue=False, trigger_mode="multiple", **QUIET)
    select.click(None, js="() => lookaheadPage.buttons.selectPrompt()", **QUIET)

    def choose_family(request: gr.Request, spec: str, method: Any, draft: Any) -> dict[Any, Any]:
        server.families.choose(request.session_hash, spec)
        return {
            chip_row: gr.Row(elem_classes=_chips(server, spec)),
            named["method"]: _choices(_methods(server, spec), method, visible=not is_servers(spec)),
            named["draft"]: _choices(_drafts(server, spec), draft),
        }

    def follow(request: gr.Request) -> Any:
        values = arrive(server, dict(request.query_params))
        # The choices on an opened page. The chosen value is kept, because the visitor may already have clicked a chip.
        choices = choose_family(request, values.get("family", first), values.get("method"), values.get("draft"))
        values["family"] = _choices(_families(server), values.get("family"))
        return {named[name]: value for name, value in values.items()} | choices

    arrived = page.load(follow, None, [lanes, *inputs, chip_row], queue=False, show_progress_on=lanes, **QUIET)
    arrived.then(None, js="() => lookaheadPage.buttons.raceIfWanted()", **QUIET)

    def change(request: gr.Request, spec: str, draft: str) -> Any:
        names = _draft_names(server, spec)
        return choose_family(request, spec, None, draft if draft in names else names[0])

    def begin_with(spec: str, text: str, running: bool) -> Any:
        """Return the values of the family's first chip, unless the visitor has edited the prompt."""
        scenario = _first(server, spec)
        if running or text not in (chip.prompt for chip in CHIPS if _kind(chip) != _kind(scenario)):
            return gr.skip()
        return [_shown(scenario.id), *_preset(scenario, server.limits).values()]

    draft = named["draft"]
    family.change(change, [family, draft], [chip_row, method, draft], queue=False, show_progress_on=method, **QUIET)
    idle = f"(spec, text) => [spec, text, ({IDLE})()[0]]"
    family.input(begin_with, [family, prompt, running], [lanes, *preset], js=idle, queue=False, **QUIET)
    return family, [family.change, started.then], class_chip


def _figures() -> None:
    """Add a closed accordion; opening it draws figures of the displayed race, which the page sends as JSON."""
    with gr.Accordion("figures of this race", open=False, elem_id="la-figures") as fold:
        notice = gr.Markdown("", visible=False)
        plots = []
        for figure in charts.FIGURES:
            title, description = charts.heading(figure)
            gr.Markdown(f"## {title}\n{description}")
            plots.append(gr.Plot(show_label=False, elem_classes="la-figure"))
        redraw = gr.Button("draw the displayed race", size="sm", elem_id="la-redraw")
    shown, dark = gr.Textbox(visible=False), gr.Checkbox(visible=False)
    gr.on(
        [fold.expand, redraw.click], _draw, [shown, dark], [notice, *plots], js=f"() => [{TRACE}, {DARK}]",
        show_progress="minimal", show_progress_on=plots[0], api_visibility="private", queue=False,
    )  # fmt: skip


def _draw(text: str, dark: bool) -> list[Any]:
    try:
        trace = Trace.from_json(text)
        return [gr.Markdown(visible=False), *(gr.Plot(make(trace, dark)) for make in charts.FIGURES)]
    except LookaheadError:
        return [gr.Markdown("There is no race to draw.", visible=True), *[None] * len(charts.FIGURES)]


def _fields(server: ServerState) -> dict[str, Any]:
    further, first = server.limits.max_lanes - 2, form.initial_values(server.limits)
    drafts = _drafts(server, server.families.first.models.spec)
    fields: dict[str, Any] = {}

    def field(kind: type, name: str, label: str, **more: Any) -> None:
        fields[name] = kind(value=first[name], label=label, elem_id=f"la-field-{name}", **{"min_width": 120, **more})

    with gr.Row():
        fields["also"] = gr.Dropdown(
            [m for m in all_methods() if m != "naive"], value=[], multiselect=True, max_choices=max(1, further), min_width=240,
            label=f"further lanes, up to {further}", elem_id="la-also", visible=further > 0,
        )  # fmt: skip
        field(gr.Number, "max_new_tokens", "new tokens, at most")
        field(gr.Textbox, "k", 'draft length k, or "auto"')
        field(gr.Number, "temperature", "temperature (0: greedy)", step=0.1)
        field(gr.Number, "seed", "seed")
        field(gr.Dropdown, "rule", "acceptance rule", choices=RULE_CHOICES, filterable=False)
    with gr.Row():
        field(gr.Number, "top_k", "top-k (0: off)")
        field(gr.Number, "top_p", "top-p (1: off)", step=0.05)
        field(gr.Number, "repetition_penalty", "repetition penalty (1: off)", step=0.1)
        field(gr.Number, "weight", "weight of the rule (0: exact)", step=0.1)
        field(gr.Textbox, "stop", "stop at", placeholder="one per line", lines=1, max_lines=4)
        field(gr.Checkbox, "chat", "as a chat message", min_width=180)
        field(gr.Dropdown, "draft", "draft model", choices=drafts, filterable=False)
    with gr.Row():
        field(
            gr.Textbox, "schema", "schema of the text", placeholder="JSON schema, choices or regex",
            lines=1, max_lines=8, min_width=240, scale=3,
        )  # fmt: skip
        field(gr.Textbox, "options", "options of the methods", placeholder="window=5 ngram=3", min_width=180)
        field(gr.Dropdown, "costs", "pass costs for auto", choices=PASS_COSTS, filterable=False, min_width=180)
    return fields


def _families(server: ServerState) -> list[tuple[str, str]]:
    return [(family_title(spec), spec) for spec in offered(server)]


def _kind(scenario: Scenario) -> str:
    return ANSWERED if scenario in ANSWERS else CONTINUED


def _chips_of(kind: str) -> list[gr.Button]:
    """Add the chips of a kind in groups. The number in a chip is its recording's tokens per pass."""
    chips, shown = [], None
    for scenario in IN_GROUPS:
        if _kind(scenario) != kind:
            continue
        if shown != (shown := _group(scenario)):
            text = f"about {counted(shown, 'token')} per pass" if not chips else f"about {shown}"
            markup(f'<span class="la-group">{text}</span>', elem_classes=[f"la-for-{kind}"], scale=0)
        measured = recordings.tokens_per_pass(scenario.id)
        label = scenario.label if measured is None else f"{scenario.label} {significant(measured, 2)}"
        classes = ["la-chip", f"la-for-{kind}"]
        chips.append(gr.Button(label, size="sm", elem_id=CHIP + scenario.id, elem_classes=classes, scale=0))
    return chips


def _chips(server: ServerState, spec: str) -> list[str]:
    return [f"la-{ANSWERED if server.families.chats(spec) else CONTINUED}"]


def _preset(scenario: Scenario, limits: Limits) -> dict[str, Any]:
    """Return the values that a scenario's chip fills in, by name: all but the models."""
    also = list(scenario.further[: max(0, limits.max_lanes - 2)])
    first = {"prompt": scenario.prompt, "method": scenario.method, "also": also}
    values = first | form.initial_values(limits, **scenario.options, chat=scenario.chat)
    return {name: values[name] for name in SET_BY_CHIPS}


def _methods(server: ServerState, spec: str) -> list[tuple[str, str]]:
    """Return all methods to choose from, with a remark if a drafter is not loaded."""
    loaded, choices = methods_with(server.families.drafters(spec)), []
    for method in dict.fromkeys((*FIRST_METHODS, *all_methods())):
        if method == "naive":
            continue
        missing = "no such trained head" if needed_by(method) in KINDS else "no draft model"
        remark = "" if method in loaded else f" ({missing} is loaded)"
        choices.append((method_label(method) + remark, method))
    return choices


def _drafts(server: ServerState, spec: str) -> list[tuple[str, str]]:
    """Return a family's draft models to choose from; without any, its trained head, or "none"."""
    names = [(name, name) for name in server.families.draft_models(spec)]
    heads = [kind for kind in reversed(KINDS) if kind in server.families.drafters(spec)]
    return names or [(f"{heads[0]}, a trained head" if heads else "none", form.DEFAULTS["draft"])]


def _draft_names(server: ServerState, spec: str) -> list[str]:
    return [name for _, name in _drafts(server, spec)]


def _choices(choices: list[Any], value: Any, **more: Any) -> Any:
    return gr.update(choices=choices, **({"value": value} if isinstance(value, str) else {}), **more)


def _first(server: ServerState, spec: str) -> Scenario:
    return (ANSWERS if server.families.chats(spec) else SCENARIOS)[0]


def _shown(scenario: str) -> str:
    return recording(scenario) or refusal(UNRECORDED)


def arrive(server: ServerState, query: dict[str, str]) -> dict[str, Any]:
    """Return the values of a link, by name: a recording at a pass, or a filled-in form. No race is run."""
    families, default = offered(server), server.families.default.models.spec
    scenario = next((s for s in ALL_SCENARIOS if s.id == query.get("recording")), None)
    if scenario:
        family = scenario.family if scenario.family in families else default
        return _recorded(server, scenario, family, query.get("pass", ""))
    try:
        if "recording" in query:
            form.require_choice("recording", query["recording"][:200], [s.id for s in ALL_SCENARIOS])
        if "prompt" not in query:
            family = form.require_choice("family", query.get("family", default), families)
            first = _first(server, family)
            if first is not SCENARIOS[0]:
                return _recorded(server, first, family)
            return {"family": family} if "family" in query else {}
        drafts = partial(_draft_names, server)
        prompt, method, also, fields = form.from_link({"family": default, **query}, families, drafts, server.limits)
    except LookaheadError as error:
        return {"lanes": refusal(f"This link is not valid. {error}")}
    race = "the servers" if is_servers(fields["family"]) else ", ".join([*also, method]) + " and naive"
    requested = wire.Requested(message=REQUESTED, chips=[race, *form.changes(fields)])
    lanes = on_arrival(complete_batch(f"asked-{secrets.token_urlsafe(6)}", [requested]))
    return {"lanes": lanes, "prompt": prompt, "method": method, "also": also, **fields}


def _recorded(server: ServerState, scenario: Scenario, family: str, at: str = "") -> dict[str, Any]:
    """Return the values of a scenario with its recording, with the playhead at the pass of a link."""
    batch = recording(scenario.id, parse_pass(at))
    lanes = on_arrival(batch) if batch else refusal(UNRECORDED)
    return {"lanes": lanes, **_preset(scenario, server.limits), "family": family}


def make(request: list) -> dict[str, str]:
    """Return a file of the displayed race for [kind, trace as JSON, the app's address]: {"text": ...} or {"error": ...}."""
    try:
        kind, text, app_url = request
        makers = {"csv": lambda trace: csv_file(to_csv(trace)), "replay": partial(replay_html, app_url=str(app_url))}
        write = makers[kind]
    except (ValueError, TypeError, KeyError):
        return {"error": "This server cannot create the requested file. Reload the page."}
    try:
        return {"text": write(Trace.from_json(text if isinstance(text, str) else ""))}
    except Exception as error:
        return {"error": error_message(error)}


def recorded(scenario: str) -> str:
    """Return the bundled recording of a scenario for the tour and the teacher's plan; "" if there is none."""
    return recording(scenario) if isinstance(scenario, str) else ""


def open_(text: str) -> str:
    """Return the log of a file that a visitor opened as one batch, or a refusal with the reason."""
    from ..servers.records import open_trace  # rare, and its records take time to import

    try:
        trace, caption = open_trace(text if isinstance(text, str) else "")
        return complete_batch(f"opened-{secrets.token_urlsafe(6)}", wire.events(trace, caption))
    except Exception as error:
        return refusal(error_message(error))
