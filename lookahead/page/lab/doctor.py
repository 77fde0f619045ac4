"""Server doctor: faults of speculation on two of the operator's servers, with their evidence and the flag to change."""

import html
import json
from collections.abc import Iterator
from functools import partial
from typing import Any

import gradio as gr

from ...measure import prompt_files
from ...server.state import ServerState
from ...servers.addresses import offered, servers_of
from ...servers.diagnosis import NOTE, TITLES, Diagnosis, published
from ...servers.doctor import bundled_questions, examine
from ...servers.findings import Finding
from ...servers.load import SIDES
from ..parts import Follow, Opening, answer_html, downloads, markup, prose, split, table
from ..running import buttons, follow_progress, run_and_stop
from .decision import BUDGETS, HINT, MAX_CHARACTERS, MAX_TOKENS

INTRO = (
    "The doctor compares a server with speculation to one without it. It looks for a drafter that is off, broken or of another "
    "domain, a draft length that is too large, changed texts and wrong counters. Each finding has its evidence and the flag to change."
)


def add(server: ServerState, follow: Follow) -> list[Opening]:
    """Add the section."""
    left, right = split()
    with right:
        prose(INTRO)
        pairs = [(name, spec) for spec, name in offered().items()]
        pair = gr.Dropdown(pairs, value=pairs[0][1], label="servers", filterable=False)
        prompts = gr.Textbox(label="your prompts", placeholder=HINT, lines=3, max_lines=10, max_length=MAX_CHARACTERS)
        budget = gr.Dropdown(list(BUDGETS), value="two minutes", label="measure for", filterable=False)
        chat = gr.Checkbox(False, label="as chat", min_width=120)
        with gr.Row(elem_classes="la-do"):
            start, stop = buttons("Diagnose")
        status = markup()
    with left:
        findings, tables = markup(), markup()
    run_and_stop(
        start, stop, partial(_examine, server), [pair, prompts, budget, chat], [findings, tables], status=status
    )
    return []


def _examine(server: ServerState, pair: str, text: str, budget: str, chat: bool) -> Iterator[Any]:
    chosen = prompt_files.pasted(text, chat) if text.strip() else bundled_questions()
    tokens = min(MAX_TOKENS, server.limits.max_new_tokens)
    for question in chosen:
        server.limits.check(question.prompt, tokens)
    sides = dict(zip(SIDES, servers_of(pair), strict=True))

    def show(result: Diagnosis) -> list[str]:
        return [_findings(result), _tables(result)]

    yield from follow_progress(lambda: examine(sides, chosen, BUDGETS[budget], tokens), show, 2)


def _findings(result: Diagnosis) -> str:
    files = downloads([
        ("doctor.md", "text/markdown", result.markdown()),
        ("doctor.json", "application/json", json.dumps(result.document(), indent=1)),
    ])  # fmt: skip
    shown = "".join(map(_finding, result.findings))
    return f'{shown}{_paragraph(result.advice)}<p class="la-prose">Download: {files}</p>'


def _finding(finding: Finding) -> str:
    flag = f'<p class="la-prose"><code>{html.escape(finding.flag)}</code></p>' if finding.flag else ""
    return answer_html(finding.title, f"{finding.evidence} {finding.fix}".strip()) + flag


def _tables(result: Diagnosis) -> str:
    parts = []
    for name, title in TITLES.items():
        parts += [table(*result.table(name), title)] if name in result.sections else []
        parts += [_paragraph(f"{title}: {result.reason(name)}")] if name in result.missing else []
    sources = table(*published(), "Published acceptance at the first position")
    return f"{''.join(parts)}{sources}{_paragraph(f'Note: {NOTE}.')}"


def _paragraph(text: str) -> str:
    return f'<p class="la-prose">{html.escape(text)}</p>'
