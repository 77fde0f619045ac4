"""The Learn tab: a list of lessons, and the one that is open, with its widgets at work.

A lesson is rendered when somebody turns to it, so a page that is only raced on pays nothing for ten lessons.

Knows which widget each kind is. What a widget does is in its own file.
"""

from __future__ import annotations

import html
import json

import gradio as gr

from ... import assets
from ...events import SettingsError
from ...lessons import TEACHER, WORDS_A_MINUTE, Bug, Dice, Lesson, Prose, Race, Recording, WhatIf, Widget, lessons, read
from ..lab import dice, whatif
from ..lab.parts import QUIET, refused
from ..stage import Stage
from . import games, lanes
from .prose import to_html

NAME = "learn"


def tab(stage: Stage, learn: gr.Tab) -> gr.Textbox:
    """Everything on the Learn tab `learn`. Returns what holds the name of the lesson that is open."""
    all_ = {lesson.name: lesson for lesson in (*lessons(), read(TEACHER))}
    with gr.Row(elem_id="la-learn"):
        open_ = gr.Textbox("", visible="hidden", elem_id="la-open")
        with gr.Column(elem_id="la-lessons", scale=0, min_width=0):
            for name, lesson in all_.items():
                turn = gr.Button(_title(lesson), size="sm", elem_id=f"la-lesson-{name}")
                turn.click(None, js=f"() => lookaheadLearn.opened({json.dumps(name)})", outputs=open_, **QUIET)
        with gr.Column(elem_id="la-lesson"):

            @gr.render(open_, triggers=[open_.change], show_progress="hidden", queue=False)
            def show(name: str) -> None:
                if name in all_:
                    _lesson(all_[name], list(all_.values()), stage)
                elif name:
                    known = ", ".join(all_)
                    gr.HTML(
                        refused(SettingsError("lesson", name[:200], f"choose one of {known}.")), apply_default_css=False
                    )

    learn.select(None, js=f"() => lookaheadLearn.begun({json.dumps(next(iter(all_)))})", outputs=open_, **QUIET)
    return open_


def _lesson(lesson: Lesson, all_: list[Lesson], stage: Stage) -> None:
    """The lesson from its heading to the way on."""
    words = f"About {max(1, round(lesson.words / WORDS_A_MINUTE))} minutes to read. {lesson.learn}"
    _heading(
        f'<h2 class="la-lessontitle">{html.escape(lesson.title)}</h2><p class="la-learns">{html.escape(words)}</p>',
        lesson.name,
    )
    for part in lesson.parts:
        if isinstance(part, Prose):
            gr.HTML(f'<div class="la-read">{to_html(part.markdown)}</div>', apply_default_css=False)
        else:
            with gr.Column(elem_classes=f"la-widgetbox la-{type(part).__name__.lower()}"):
                _widget(part, stage, lesson.name)
    if lesson.name == TEACHER.stem:
        gr.Button("Print the last section", scale=0).click(None, js="() => lookaheadLearn.handout()", **QUIET)
    after = all_[all_.index(lesson) + 1 :]
    if after:
        gr.HTML(
            f'<p class="la-next"><a href="?lesson={after[0].name}">Next: {html.escape(after[0].title)}</a></p>',
            apply_default_css=False,
        )


def _widget(part: Widget, stage: Stage, lesson: str) -> None:
    match part:
        case Race():
            lanes.race(part, stage)
        case Recording():
            lanes.recording(part, stage)
        case Bug():
            lanes.bug(part, stage)
        case Dice():
            lanes.say(part.say)
            dice.board(part.p, part.q, part.tokens, part.bug, part.throws)
        case WhatIf():
            lanes.say(part.say)
            whatif.of_recording(part.recording, part.method, part.k, part.options)
        case _:
            games.add(part, stage, lesson)


def _title(lesson: Lesson) -> str:
    number = lesson.name.partition("-")[0]
    return f"{int(number)}  {lesson.title}" if number.isdecimal() else lesson.title


def _heading(value: str, name: str) -> None:
    """The lesson's heading, with the widgets' styles; the list hears from it that the lesson stands there."""
    gr.HTML(
        f"<style>{assets.small('style', 'games.css')}</style>{value}", js_on_load=f"lookaheadLearn.shown(document.getElementById('la-lesson'), {json.dumps(name)});",
        apply_default_css=False,
    )  # fmt: skip
