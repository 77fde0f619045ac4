"""The Learn tab: a list of lessons, and the one that is open, with its widgets at work.

A lesson is rendered when somebody turns to it, so a page that is only raced on pays nothing for ten lessons.

Knows which widget each kind is. What a widget does is in its own file.
"""

from __future__ import annotations

import html
import json

import gradio as gr

from ...core.events import SettingsError
from ...server.state import ServerState
from ...trace import assets
from .. import gradio_internals
from ..lab import dice, whatif
from ..parts import QUIET, markup, refused
from . import games, lanes
from .lessons import TEACHER, WORDS_A_MINUTE, Lesson, Prose, lessons, read
from .prose import to_html
from .widgets import Bug, Dice, Race, Recording, WhatIf, Widget

NAME = "learn"
PRINTED = ("Worksheet", "Answer key")  # sections of the teacher's page


def tab(server: ServerState, learn: gr.Tab) -> gr.Textbox:
    """Everything on the Learn tab `learn`. Returns what holds the name of the lesson that is open."""
    all_ = {lesson.name: lesson for lesson in (*lessons(), read(TEACHER))}
    with gr.Row(elem_id="la-learn"):
        open_ = gr.Textbox("", visible="hidden", elem_id="la-open")
        with gr.Column(elem_id="la-lessons", scale=0, min_width=0):
            for name, lesson in all_.items():
                turn = gr.Button(_title(lesson), size="sm", elem_id=f"la-lesson-{name}")
                turn.click(None, js=f"() => lookaheadPage.learn.opened({json.dumps(name)})", outputs=open_, **QUIET)
        with gr.Column(elem_id="la-lesson"):

            @gr.render(open_, triggers=[open_.change], show_progress="hidden", queue=False)
            def show(name: str) -> None:
                if name in all_:
                    _lesson(all_[name], list(all_.values()), server)
                elif name:
                    markup(refused(SettingsError("lesson", name[:200], f"choose one of {', '.join(all_)}.")))

    gradio_internals.progress_on(open_)
    learn.select(None, js=f"() => lookaheadPage.learn.begun({json.dumps(next(iter(all_)))})", outputs=open_, **QUIET)
    return open_


def _lesson(lesson: Lesson, all_: list[Lesson], server: ServerState) -> None:
    """The lesson from its heading to the way on."""
    words = f"About {max(1, round(lesson.words / WORDS_A_MINUTE))} minutes to read. {lesson.learn}"
    heading = (
        f'<h2 class="la-lessontitle">{html.escape(lesson.title)}</h2><p class="la-learns">{html.escape(words)}</p>'
    )
    styles = f"<style>{assets.style('learn/widgets.css')}</style>"
    # Marks the lesson in the list.
    script = f"lookaheadPage.learn.shown(document.getElementById('la-lesson'), {json.dumps(lesson.name)});"
    markup(styles + heading, js_on_load=script)
    for part in lesson.parts:
        if isinstance(part, Prose):
            markup(f'<div class="la-read">{to_html(part.markdown)}</div>')
        else:
            with gr.Column(elem_classes=f"la-widgetbox la-{part.kind}"):
                _widget(part, server, lesson.name)
    if lesson.name == TEACHER.stem:
        with gr.Row(elem_classes="la-do"):
            for name in PRINTED:
                js = f"() => lookaheadPage.learn.handout({json.dumps(name)})"
                gr.Button(f"Print the {name.lower()}", scale=0).click(None, js=js, **QUIET)
    after = all_[all_.index(lesson) + 1 :]
    if after:
        markup(f'<p class="la-next"><a href="?lesson={after[0].name}">Next: {html.escape(after[0].title)}</a></p>')


def _widget(part: Widget, server: ServerState, lesson: str) -> None:
    match part:
        case Race():
            lanes.race(part, server)
        case Recording():
            lanes.recording(part, server)
        case Bug():
            lanes.bug(part, server)
        case Dice():
            lanes.say(part.say)
            dice.board(part.p, part.q, part.tokens, part.bug, part.throws)
        case WhatIf():
            lanes.say(part.say)
            whatif.of_recording(part.recording, part.method, part.k, part.options)
        case _:
            games.add(part, server, lesson)


def _title(lesson: Lesson) -> str:
    number = lesson.name.partition("-")[0]
    return f"{int(number)}  {lesson.title}" if number.isdecimal() else lesson.title
