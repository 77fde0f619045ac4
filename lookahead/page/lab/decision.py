"""Should I turn it on? One's own prompts, some seconds, and an answer with its reasons, to take away."""

from __future__ import annotations

import base64
import html
import json
from collections.abc import Iterator, Mapping
from typing import Any

import gradio as gr

from ...core.text_files import csv_file
from ...family.models import Models
from ...measure import charts, prompt_files
from ...measure.decision import decide
from ...measure.decision_report import method_rows, reasons, to_csv, to_markdown
from ...measure.paying import Level
from ...measure.progress import questions
from ...measure.timing import Question
from ...server import form
from ...server.state import ServerState
from ...servers.addresses import is_servers, offered, servers_of
from ...servers.decision import decide as decide_servers
from ...servers.report import SIDES
from ..parts import Follow, drawn, markup, plot, prose, table
from ..running import buttons, measured, measuring, run_and_stop

INTRO = (
    "Give the prompts that you really have. Every method writes them beside naive decoding, those that are surely worse are let go, "
    "and what is left of the time goes to several texts at once."
)
HERE = "this machine"
BUDGETS = {"15 seconds": 15, "30 seconds": 30, "a minute": 60, "two minutes": 120}
MOST, MOST_CHARACTERS = 64, 200_000
HINT = 'One prompt on a line, or JSON lines: {"prompt": "...", "chat": true}, Spec-Bench\'s too. Empty: the bundled prompts.'
FILES = (
    ("decision.json", "application/json", lambda answer: json.dumps(answer, indent=1)),
    ("decision.csv", "text/csv", lambda answer: csv_file(to_csv(answer))),
    ("decision.md", "text/markdown", to_markdown),
)


def add(server: ServerState, follow: Follow) -> None:
    """The section."""
    prose(INTRO)
    prompts = gr.Textbox(label="your prompts", placeholder=HINT, lines=3, max_lines=10, max_length=MOST_CHARACTERS)
    with gr.Row(elem_classes="la-do"):
        pairs = [(name, spec) for spec, name in offered().items()]
        where = gr.Dropdown([HERE, *pairs], value=HERE, label="on", filterable=False, visible=bool(pairs))
        budget = gr.Dropdown(list(BUDGETS), value="30 seconds", label="measure for", filterable=False)
        chat = gr.Checkbox(False, label="as chat", min_width=120, scale=0)
        start, stop = buttons("Find out")
    status, answer, figure, rows = markup(), markup(), plot(), markup()
    work = measuring(server, _decide, server)
    run_and_stop(start, stop, work, [prompts, where, budget, chat], [answer, figure, rows], status=status, draws=True)


def _decide(
    models: Models, server: ServerState, dark: bool, text: str, where: str, budget: str, chat: bool
) -> Iterator[Any]:
    same, here = gr.skip(), where == HERE
    bundled = questions(family=models.spec) if here else questions()
    chosen = prompt_files.pasted(text, chat) if text.strip() else bundled
    tokens = min(MOST, server.limits.max_new_tokens)
    for question in chosen:
        server.limits.check(question.prompt, tokens)

    def deciding() -> Iterator[Any]:
        if here:
            return decide(models, chosen, BUDGETS[budget], max_new_tokens=tokens)
        sides = dict(zip(SIDES, servers_of(where), strict=True))
        return decide_servers(sides, chosen, BUDGETS[budget], tokens)

    for line, newest in measured(deciding):
        if newest is None:
            yield [line, same, same, same]
            continue
        levels = [Level(**one) for one in newest["levels"]]
        chart = drawn(charts.load(levels, dark)) if levels else same
        family = models.spec if here else where
        yield [line, _answer(newest, chosen[0], family, tokens), chart, table(*method_rows(newest))]


def _answer(answer: Mapping[str, Any], first: Question, family: str, tokens: int) -> str:
    """The sentence, what limits, and what can be taken away."""
    fields = {**form.DEFAULTS, "family": family, "chat": first.chat, "max_new_tokens": tokens}
    race = form.link(first.prompt, [] if is_servers(family) else [answer["method"]], fields)
    saves = "".join(
        f'<a download="{name}" href="data:{kind};base64,{base64.b64encode(make(answer).encode()).decode()}">{name}</a> '
        for name, kind, make in FILES
    )
    return (
        f'<p class="la-answer">{html.escape(answer["sentence"])}</p><p class="la-prose">{html.escape(reasons(answer))}</p>'
        f'<p class="la-prose">Take it away: {saves}<a href="{html.escape(race)}" target="_blank" rel="noopener">race it on the first prompt</a></p>'
    )
