"""What the Lab's sections share: a Run and a Stop, a line of progress, tables, and the page's own ink.

Knows Gradio. It does not know what is measured.
"""

from __future__ import annotations

import html
import json
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import gradio as gr

from ...events import LookaheadError
from ..jobs import follow

QUIET = {"show_progress": "hidden", "api_visibility": "private"}
DARK = "document.body.classList.contains('dark')"
TRACE = "window.lookahead.trace() || ''"


def says(text: str, share: float | None = None) -> str:
    """A line of words, with a bar where there is a share of the work done."""
    bar = "" if share is None else f'<span class="la-done"><i style="width:{100 * share:.0f}%"></i></span>'
    return f'<p class="la-says" role="status">{html.escape(text)}{bar}</p>'


def refused(error: LookaheadError) -> str:
    """Words for what was not run."""
    return f'<p class="la-refused" role="alert">{html.escape(str(error))}</p>'


def table(heads: Sequence[str], rows: Sequence[Sequence[str]], caption: str = "") -> str:
    """A plain table of texts."""
    head = "".join(f"<th scope='col'>{html.escape(h)}</th>" for h in heads)
    body = "".join("<tr>" + "".join(f"<td>{html.escape(cell)}</td>" for cell in row) + "</tr>" for row in rows)
    words = f"<caption>{html.escape(caption)}</caption>" if caption else ""
    return f'<div class="la-tablebox" tabindex="0" role="region" aria-label="table"><table class="la-table">{words}<thead><tr>{head}</tr></thead><tbody>{body}</tbody></table></div>'


def prose(text: str) -> gr.HTML:
    """A paragraph of the page's own words."""
    return gr.HTML(f'<p class="la-prose">{text}</p>', apply_default_css=False)


def plot() -> gr.Plot:
    """A place for a figure; an empty one is not shown, for it says nothing to anybody."""
    return gr.Plot(show_label=False, visible=False)


def drawn(figure: Any) -> gr.Plot:
    """The figure in its place; None takes it away."""
    return gr.Plot(figure, visible=figure is not None)


def buttons(run: str, width: int = 120) -> tuple[gr.Button, gr.Button]:
    """Run and Stop; `width` in pixels, for a Run of several words."""
    return (
        gr.Button(run, variant="primary", scale=0, min_width=width),
        gr.Button("Stop", interactive=False, scale=0, min_width=96),
    )


def runs(
    start: gr.Button, stop: gr.Button, work: Callable[..., Iterator[Any]], inputs: Sequence[Any], outputs: Any
) -> None:
    """Wire Run and Stop: `work(dark, *inputs)` yields what the outputs become; `dark` tells whether the page is."""
    dark = gr.Checkbox(False, visible=False)
    turned = {"outputs": [start, stop], "queue": False, **QUIET}
    start.click(None, js=_on(False, True), **turned)  # first, since listeners of one trigger wait for each other
    running = start.click(
        work, [dark, *inputs], outputs, concurrency_limit=None, js=f"(_, ...rest) => [{DARK}, ...rest]", **QUIET
    )
    running.then(None, js=_on(True, False), **turned)
    stopped = stop.click(lambda: None, cancels=[running], queue=False, **QUIET)
    stopped.then(
        None, js=_on(True, False, after_ms=1000), **turned
    )  # it ends with its next word; a press before is lost


def _on(start: bool, stop: bool, after_ms: int = 0) -> str:
    update = json.dumps([{"__type__": "update", "interactive": on} for on in (start, stop)])
    return f"() => new Promise(done => setTimeout(() => done({update}), {after_ms}))"


def progress(make: Callable[[], Iterator[Any]]) -> Iterator[tuple[str, Any]]:
    """`follow` for generators of `Progress`: (a line for `says`, the result so far or None)."""
    for now in follow(make):
        if now is None or isinstance(now, str):
            yield (says(now) if now else gr.skip()), None
        else:
            yield says(f"{now.done} of {now.total}: {now.text}", now.done / max(1, now.total)), now.result
