"""Parts of the tabs: a status line with a bar, results, tables, paragraphs, downloads and plots."""

import base64
import html
from collections.abc import Callable, Iterable, Sequence
from typing import Any, NamedTuple

import gradio as gr

from ..core.events import BIT_EXACT, LookaheadError
from ..family.models import Models

Follow = Callable[[Callable[[Models], Any], Any], None]  # registers a function of a visitor's models for a component
QUIET: dict[str, Any] = {"show_progress": "hidden", "api_visibility": "private"}
DARK = "document.body.classList.contains('dark')"
TRACE = "window.lookahead.trace() || ''"
ESTIMATED = "estimated from a typical machine; this one is measured in a few seconds"  # costs of a first start


class Opening(NamedTuple):
    """The content of a section of the Lab when it is first opened: the result of `function(dark, *inputs)`.

    A function with a parameter `request` depends on the visitor's models. The script `fill` maps the values of the inputs.
    """

    function: Callable[..., Any]
    outputs: Any
    inputs: Sequence[Any] = ()
    fill: str = "values => values"


def status_line(text: str, share: float | None = None) -> str:
    """Return a line of text, with a bar for the share of the work that is done."""
    bar = "" if share is None else f'<span class="la-bar"><i style="width:{100 * share:.0f}%"></i></span>'
    return f'<p class="la-status-line" role="status">{html.escape(text)}{bar}</p>'


def error_line(error: LookaheadError | str) -> str:
    """Return a line for an error."""
    return f'<p class="la-refused" role="alert">{html.escape(str(error))}</p>'


def answer_html(sentence: str, reasons: str = "") -> str:
    """Return a result in large type, and its reasons. Both may be empty."""
    parts = (("la-answer", sentence), ("la-prose", reasons))
    return "".join(f'<p class="{kind}">{html.escape(text)}</p>' for kind, text in parts if text)


def exactness(models: Models) -> str:
    """Return sentences on the exactness of the target's passes."""
    if models.exactness == BIT_EXACT:
        return f"{models.probe.sentence} Drafting cannot change the text."
    return f"{models.probe.sentence} Two tokens with nearly equal logits may swap; the page then reports it."


def pressed_id(event: gr.EventData) -> str:
    """Return the `elem_id` of the pressed button; "" for a request that no page sends."""
    return getattr(event.target, "elem_id", None) or ""


def table(heads: Sequence[str], rows: Sequence[Sequence[str]], caption: str = "") -> str:
    """Return a table with text cells."""
    head = "".join(f"<th scope='col'>{html.escape(h)}</th>" for h in heads)
    body = "".join("<tr>" + "".join(f"<td>{html.escape(cell)}</td>" for cell in row) + "</tr>" for row in rows)
    title = f"<caption>{html.escape(caption)}</caption>" if caption else ""
    return f'<div class="la-tablebox" tabindex="0" role="group" aria-label="table"><table class="la-table">{title}<thead><tr>{head}</tr></thead><tbody>{body}</tbody></table></div>'


def downloads(files: Iterable[tuple[str, str, str]]) -> str:
    """Return links to files, each with a name, a content type and a text."""
    return "".join(
        f'<a download="{name}" href="data:{kind};base64,{base64.b64encode(text.encode()).decode()}">{name}</a> '
        for name, kind, text in files
    )


def markup(value: str = "", **more: Any) -> gr.HTML:
    """Return an HTML component without Gradio's styles."""
    return gr.HTML(value, apply_default_css=False, **more)


def prose(text: str) -> gr.HTML:
    """Return a paragraph of HTML text."""
    return markup(f'<p class="la-prose">{text}</p>')


def split() -> tuple[gr.Column, gr.Column]:
    """Add two columns: two thirds of the width for results, one third for controls. On a phone, controls come first."""
    with gr.Row(elem_classes="la-split"):
        return gr.Column(scale=2, min_width=320), gr.Column(scale=1, min_width=280)


def plot() -> gr.Plot:
    """Return a figure that is invisible while it is empty."""
    return gr.Plot(show_label=False, visible=False)


def plot_update(figure: Any) -> gr.Plot:
    """Return the update that shows a figure, or hides it for None."""
    return gr.Plot(figure, visible=figure is not None)
