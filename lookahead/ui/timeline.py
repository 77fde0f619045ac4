"""The timeline as a Gradio component: one HTML element, our own script, values that are batches.

The script lives in `assets/*.js`; it is handed over as the component's on-load code, so the page
loads nothing else and needs no build step. A value is a JSON string with the new events only.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import gradio as gr

from .. import assets

MOUNT = (
    "lookaheadTimeline.mount({element, read: () => props.value, watch: fn => watch('value', fn), "
    "resend: (run, first) => server.resend([run, first]), make: (kind, trace) => server.make([kind, trace]), "
    "open: text => server.open_(text)});"
)


def timeline(value: str, functions: Sequence[Callable], elem_id: str) -> gr.HTML:
    """Lanes of tokens, drawn by `assets/timeline.js`.

    `functions` are what the page may call, by their names: `resend` repairs gaps, `make` and `open_` are for files.
    """
    return gr.HTML(
        value,
        html_template='<div class="la-timeline"></div>',
        js_on_load=f"{assets.script()}\n{MOUNT}",
        apply_default_css=False,
        server_functions=list(functions),
        elem_id=elem_id,
    )
