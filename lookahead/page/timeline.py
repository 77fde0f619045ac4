"""The timeline as a Gradio component: one HTML element that our script draws from batches of events.

The script is in `assets/timeline/` and is part of the page's head. A value is a JSON string with the new events only.
"""

from collections.abc import Callable, Sequence

import gradio as gr

from ..server.runs import Runs
from .parts import markup


def timeline(value: str, runs: Runs, functions: Sequence[Callable] = (), elem_id: str | None = None) -> gr.HTML:
    """Return lanes of tokens. Only the page's main timeline has `functions`, which its script calls by name."""

    def resend(request: list) -> str | None:
        return runs.resend(request)

    main = "true" if functions else "false"
    return markup(
        value,
        html_template='<div class="la-timeline"></div>',
        js_on_load=f"lookaheadPage.component.mount({{element, props, watch, server}}, {main});",
        server_functions=[resend, *functions],
        elem_id=elem_id,
    )
