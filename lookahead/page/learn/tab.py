"""The Learn tab: a list of lessons, and the open lesson with its widgets. A lesson is rendered when it is opened."""

import html
import json
import re

import gradio as gr
from markdown_it import MarkdownIt

from ...core.events import SettingsError
from ...core.numbers import counted
from ...server.state import ServerState
from .. import gradio_internals
from ..lab import whatif
from ..parts import QUIET, error_line, markup
from . import deck, dice, games, lanes
from .lessons import ANSWERS, TEACHER, WORDS_PER_MINUTE, Lesson, pages, read
from .widgets import Bug, Dice, Plan, Race, Recording, WhatIf, Widget

NAME = "learn"
READER = MarkdownIt("commonmark").enable("table")
REGIONS = {
    "<table>": '<div class="la-tablebox" tabindex="0" role="group" aria-label="table"><table class="la-table">',
    "</table>": "</table></div>",
    "<pre>": '<pre tabindex="0" role="group" aria-label="code">',
}
# A link such as [draft](#draft) outlines a part of the lesson's drawing of a pass (assets/learn/learn.js).
TERM = r'<span class="la-term" role="button" tabindex="0" aria-pressed="false" data-part="\1">\2</span>'
PRINTED = {TEACHER.stem: "Worksheet", ANSWERS.stem: "Answer key"}  # sections with a print button


def tab(server: ServerState, learn: gr.Tab) -> gr.Textbox:
    """Fill the Learn tab `learn`. Returns the component with the name of the open lesson."""
    all_ = {lesson.name: lesson for lesson in pages()}
    with gr.Row(elem_id="la-learn"):
        open_ = gr.Textbox("", visible="hidden", elem_id="la-open")
        with gr.Column(elem_id="la-lessons", scale=0, min_width=0):
            for name, lesson in all_.items():
                number = name.partition("-")[0]
                title = f"{int(number)}  {lesson.title}" if number.isdecimal() else lesson.title
                button = gr.Button(title, size="sm", elem_id=f"la-lesson-{name}")
                button.click(None, js=f"() => lookaheadPage.learn.opened({json.dumps(name)})", outputs=open_, **QUIET)
        with gr.Column(elem_id="la-lesson"):

            @gr.render(open_, triggers=[open_.change], show_progress="hidden", queue=False)
            def show(name: str) -> None:
                if name in all_:
                    _lesson(all_[name], list(all_.values()), server)
                elif name == ANSWERS.stem:
                    _lesson(read(ANSWERS), [], server)
                elif name:
                    markup(error_line(SettingsError("lesson", name[:200], f"choose one of {', '.join(all_)}.")))

    gradio_internals.progress_on(open_)
    learn.select(None, js=f"() => lookaheadPage.learn.begun({json.dumps(next(iter(all_)))})", outputs=open_, **QUIET)
    return open_


def _lesson(lesson: Lesson, all_: list[Lesson], server: ServerState) -> None:
    summary = f"About {counted(max(1, round(lesson.words / WORDS_PER_MINUTE)), 'minute')} to read. {lesson.learn}"
    title = f'<h2 class="la-lessontitle" tabindex="-1">{html.escape(lesson.title)}</h2>'
    heading = f'{title}<p class="la-learns">{html.escape(summary)}</p>'
    # Marks the lesson in the list.
    script = f"lookaheadPage.learn.shown(document.getElementById('la-lesson'), {json.dumps(lesson.name)});"
    markup(heading, js_on_load=script)
    for part in lesson.parts:
        if isinstance(part, str):
            markup(f'<div class="la-read">{to_html(part)}</div>')
        else:
            with gr.Column(elem_classes=f"la-widgetbox la-{part.kind}"):
                _widget(part, server, lesson.name)
    if printed := PRINTED.get(lesson.name):
        with gr.Row(elem_classes="la-do"):
            js = f"() => lookaheadPage.learn.handout({json.dumps(printed)})"
            gr.Button(f"Print the {printed.lower()}", scale=0).click(None, js=js, **QUIET)
    if lesson in all_ and (later := all_[all_.index(lesson) + 1 :]):
        markup(f'<p class="la-next"><a href="?lesson={later[0].name}">Next: {html.escape(later[0].title)}</a></p>')


def to_html(markdown: str) -> str:
    """Return a lesson's Markdown as HTML: a `section` for each second heading, tables that scroll, links of this page.

    Links to other hosts open in a new tab.
    """
    text = re.sub(r'href="([\w-]+)\.md"', r'href="?lesson=\1"', READER.render(markdown))
    text = re.sub(r'(href="https://[^"]*")', r'\1 target="_blank" rel="noopener"', text)
    text = re.sub(r'<a href="#(\w+)">(.*?)</a>', TERM, text)
    for old, new in REGIONS.items():
        text = text.replace(old, new)
    before, *sections = re.split(r"(?=<h2>)", text)
    return before + "".join(f"<section>{section}</section>" for section in sections)


def _widget(part: Widget, server: ServerState, lesson: str) -> None:
    if part.say and not isinstance(part, games.GAMES):
        markup(f'<p class="la-caption">{html.escape(part.say)}</p>')
    match part:
        case Race():
            lanes.race(part, server)
        case Recording():
            lanes.recording(part, server)
        case Bug():
            lanes.bug(part, server)
        case Dice():
            dice.controls(part.bug)
        case Plan():
            markup(deck.plan_html(part.shows))
        case WhatIf():
            whatif.recording_sliders(part.recording, part.method, part.k, part.options)
        case _:
            games.add(part, server, lesson)
