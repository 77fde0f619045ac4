"""The timeline as a Gradio component: one HTML element, our own script, values that are batches.

The script lives in `assets/*.js`; it is handed over as the component's on-load code, so the page
loads nothing else and needs no build step. A value is a JSON string with the new events only.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import gradio as gr

ASSETS = Path(__file__).parent.parent.parent / "assets"
SCRIPTS = ("player.js", "chart.js", "lane.js", "skeleton.js", "timeline.js")
STYLES = ("timeline.css", "page.css")
MOUNT = (
    "lookaheadTimeline.mount({element, read: () => props.value, watch: fn => watch('value', fn), "
    "resend: (run, first) => server.resend([run, first])});"
)


def timeline(value: str, resend: Callable[[list], str | None], elem_id: str) -> gr.HTML:
    """Lanes of tokens, drawn by `assets/timeline.js`; the page calls `resend` to repair gaps."""
    script = "\n".join((ASSETS / name).read_text(encoding="utf-8") for name in SCRIPTS)
    return gr.HTML(
        value,
        html_template='<div class="la-timeline"></div>',
        js_on_load=f"{script}\n{MOUNT}",
        apply_default_css=False,
        server_functions=[resend],
        elem_id=elem_id,
    )
