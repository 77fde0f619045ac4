"""The parts of tabs: a status line with a bar, answers, tables, paragraphs, places for figures."""

from __future__ import annotations

import html
from collections.abc import Callable, Sequence
from typing import Any

import gradio as gr

from ..core.events import LookaheadError
from ..family.models import Models

Follow = Callable[[Callable[[Models], Any], Any], None]  # registers what a component shows of a visitor's models
# What a section shows when it is turned to: a function, its inputs and outputs, and the script that fills the inputs.
Opening = tuple[Callable[..., Any], Any, Any, str]
QUIET = {"show_progress": "hidden", "api_visibility": "private"}
DARK = "document.body.classList.contains('dark')"
TRACE = "window.lookahead.trace() || ''"


def says(text: str, share: float | None = None) -> str:
    """A line of words, with a bar where there is a share of the work done."""
    bar = "" if share is None else f'<span class="la-done"><i style="width:{100 * share:.0f}%"></i></span>'
    return f'<p class="la-says" role="status">{html.escape(text)}{bar}</p>'


def refused(error: LookaheadError | str) -> str:
    """Words for what was not run."""
    return f'<p class="la-refused" role="alert">{html.escape(str(error))}</p>'


def answered(sentence: str, reasons: str = "") -> str:
    """An answer in large type, and its reasons; either may be empty."""
    parts = (("la-answer", sentence), ("la-prose", reasons))
    return "".join(f'<p class="{kind}">{html.escape(text)}</p>' for kind, text in parts if text)


def pressed(event: gr.EventData) -> str:
    """The `elem_id` of the button that was pressed; nothing where a request that no page sends names none."""
    return getattr(event.target, "elem_id", None) or ""


def table(heads: Sequence[str], rows: Sequence[Sequence[str]], caption: str = "") -> str:
    """A plain table of texts."""
    head = "".join(f"<th scope='col'>{html.escape(h)}</th>" for h in heads)
    body = "".join("<tr>" + "".join(f"<td>{html.escape(cell)}</td>" for cell in row) + "</tr>" for row in rows)
    words = f"<caption>{html.escape(caption)}</caption>" if caption else ""
    return f'<div class="la-tablebox" tabindex="0" role="region" aria-label="table"><table class="la-table">{words}<thead><tr>{head}</tr></thead><tbody>{body}</tbody></table></div>'


def markup(value: str = "", **more: Any) -> gr.HTML:
    """HTML that our own styles alone dress."""
    return gr.HTML(value, apply_default_css=False, **more)


def fresh(value: Callable[[], str], **more: Any) -> gr.HTML:
    """The same with what `value` gives, asked again whenever a page is opened: past the queue, and with no sign over it that it
    loads, which Gradio would show over a component whose value is a function."""
    shown = markup(value(), **more)
    gr.on(fn=value, outputs=shown, queue=False, **QUIET)
    return shown


def prose(text: str) -> gr.HTML:
    """A paragraph of the page's own words."""
    return markup(f'<p class="la-prose">{text}</p>')


def plot() -> gr.Plot:
    """A place for a figure, invisible while it is empty."""
    return gr.Plot(show_label=False, visible=False)


def drawn(figure: Any) -> gr.Plot:
    """The figure in its place; None takes it away."""
    return gr.Plot(figure, visible=figure is not None)
