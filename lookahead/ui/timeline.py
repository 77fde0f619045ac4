"""The timeline as a Gradio component: one HTML element, our own script, values that are batches.

The script lives in `assets/*.js`; it is handed over as the component's on-load code, so the page
loads nothing else and needs no build step. A value is a JSON string with the new events only.
"""

from __future__ import annotations

from pathlib import Path

import gradio as gr

ASSETS = Path(__file__).parent.parent.parent / "assets"
SCRIPTS = ("player.js", "chart.js", "lane.js", "skeleton.js", "timeline.js")
STYLES = ("timeline.css", "page.css")
MOUNT = (
    "lookaheadTimeline.mount({element, read: () => props.value, watch: fn => watch('value', fn), "
    "resend: (run, first) => server.resend([run, first])});"
)


class Timeline(gr.HTML):
    """Lanes of tokens, drawn by `assets/timeline.js`; `resend` repairs gaps."""

    def __init__(self, value: str, resend, **options):
        script = "\n".join((ASSETS / name).read_text(encoding="utf-8") for name in SCRIPTS)
        super().__init__(
            value,
            html_template='<div class="la-timeline"></div>',
            js_on_load=f"{script}\n{MOUNT}",
            apply_default_css=False,
            server_functions=[resend],
            **options,
        )

    def get_block_name(self) -> str:
        return "html"

    def postprocess(self, value: str | None) -> str | None:
        return value
