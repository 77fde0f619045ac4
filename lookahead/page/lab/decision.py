"""Should I turn it on? A recommendation with its reasons, from the visitor's prompts or from the displayed race."""

import html
import json
from collections.abc import Iterator
from typing import Any

import gradio as gr

from ...core.events import LookaheadError, TraceError
from ...core.numbers import decimal, ratio
from ...core.text_files import csv_file
from ...family.models import Models
from ...measure import charts, prompt_files
from ...measure.decision import Report, advise, decide
from ...measure.progress import questions
from ...measure.timing import Question
from ...server import form
from ...server.state import ServerState
from ...servers.addresses import is_servers, offered, servers_of
from ...servers.decision import decide as decide_servers
from ...servers.load import SIDES
from ...trace.trace import Trace
from ..parts import (
    QUIET,
    TRACE,
    Follow,
    Opening,
    answer_html,
    downloads,
    error_line,
    markup,
    plot,
    plot_update,
    prose,
    split,
    table,
)
from ..running import buttons, follow_progress, run_and_stop, with_visitor_models

INTRO = (
    "Enter your own prompts. Each method runs next to naive decoding. Clearly slower methods are dropped; if time is short, the "
    "slower half is dropped. The remaining time is for several texts at once."
)
ASK = "<b>Without measuring?</b> This uses the displayed race's acceptance and drafting time and this machine's costs."
UNKNOWN = "Whether drafting pays depends on your texts: measure it with your own prompts."
HERE = "this machine"
BUDGETS = {"15 seconds": 15, "30 seconds": 30, "a minute": 60, "two minutes": 120}
MAX_TOKENS, MAX_CHARACTERS = 64, 200_000
HINT = 'One prompt per line, or JSON lines: {"prompt": "...", "chat": true}, as in Spec-Bench. Empty: bundled prompts.'
FILES = (
    ("decision.json", "application/json", lambda report: json.dumps(report.document(), indent=1)),
    ("decision.csv", "text/csv", lambda report: csv_file(report.csv())),
    ("decision.md", "text/markdown", Report.markdown),
)


def add(server: ServerState, follow: Follow) -> list[Opening]:
    """Add the section."""
    result = markup(answer_html(UNKNOWN))
    left, right = split()
    with right:
        prose(INTRO)
        prompts = gr.Textbox(label="your prompts", placeholder=HINT, lines=3, max_lines=10, max_length=MAX_CHARACTERS)
        pairs = [(name, spec) for spec, name in offered().items()]
        location = gr.Dropdown([HERE, *pairs], value=HERE, label="on", filterable=False, visible=bool(pairs))
        budget = gr.Dropdown(list(BUDGETS), value="30 seconds", label="measure for", filterable=False)
        chat = gr.Checkbox(False, label="as chat", min_width=120)
        with gr.Row(elem_classes="la-do"):
            start, stop = buttons("Find out")
        status = markup()
        prose(ASK)
        ask, shown = gr.Button("Ask", variant="primary", scale=0), gr.Textbox("", visible=False)
    with left:
        figure, rows, predicted = plot(), markup(), markup()
    work = with_visitor_models(server, _decide, server)
    inputs = [prompts, location, budget, chat]
    run_and_stop(start, stop, work, inputs, [result, figure, rows], status=status, draws=True)

    def advice(text: str, request: gr.Request) -> list[Any]:
        try:
            return _advice(server, server.models_for(request.session_hash), text)
        except LookaheadError as error:
            return [gr.skip(), error_line(error)]

    def at_first(dark: bool, text: str, request: gr.Request) -> list[Any]:
        try:
            return _advice(server, server.models_for(request.session_hash), text)
        except LookaheadError:  # the displayed race allows no prediction
            return [gr.skip(), gr.skip()]

    ask.click(advice, shown, [result, predicted], js=f"() => {TRACE}", queue=False, **QUIET)
    return [Opening(at_first, [result, predicted], [shown], f"() => [{TRACE}]")]


def _decide(
    models: Models, server: ServerState, dark: bool, text: str, location: str, budget: str, chat: bool
) -> Iterator[Any]:
    here = location == HERE
    family = models.spec if here else location
    bundled = questions(family=models.spec) if here else questions()
    chosen = prompt_files.pasted(text, chat) if text.strip() else bundled
    tokens = min(MAX_TOKENS, server.limits.max_new_tokens)
    for question in chosen:
        server.limits.check(question.prompt, tokens)

    def deciding() -> Iterator[Any]:
        if here:
            return decide(models, chosen, BUDGETS[budget], max_new_tokens=tokens)
        sides = dict(zip(SIDES, servers_of(location), strict=True))
        return decide_servers(sides, chosen, BUDGETS[budget], tokens)

    def show(report: Report) -> list[Any]:
        chart = plot_update(charts.load(report.levels, dark)) if report.levels else gr.skip()
        return [_report_html(report, chosen[0], family, tokens), chart, table(*report.table())]

    yield from follow_progress(deciding, show, 3)


def _report_html(report: Report, first: Question, family: str, tokens: int) -> str:
    fields = {**form.DEFAULTS, "family": family, "chat": first.chat, "max_new_tokens": tokens}
    race = form.link(first.prompt, [] if is_servers(family) else [report.best.method], fields)
    files = downloads((name, kind, make(report)) for name, kind, make in FILES)
    return (
        f"{answer_html(report.sentence, report.reasons())}"
        f'<p class="la-prose">Download: {files}<a href="{html.escape(race)}" target="_blank" rel="noopener">race it on the first prompt</a></p>'
    )


def _advice(server: ServerState, models: Models, text: str) -> list[Any]:
    if not text:
        raise TraceError("race", "none", "run one in the Race tab.")
    trace = Trace.from_json(text)
    server.limits.check(trace.prompt.tokens, max(len(lane.tokens) for lane in trace.lanes))
    report = advise(trace, models.costs)
    rows = []
    for option in report.options:
        rows += [[f"{option.method}, k = {option.k}", "", "", ratio(option.speedup)]]
        rows += [["", term.name, term.formula, decimal(term.value)] for term in option.terms]
    return [
        answer_html(report.sentence),
        table(
            ["drafter", "quantity", "formula", "value"],
            rows,
            "Predicted from the displayed race, with every drafter at its best length:",
        ),
    ]
