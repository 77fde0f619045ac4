"""The timeline as a Gradio component: one HTML element, drawn by our own script from values that are batches.

The script is in `assets/timeline/` and comes once, with the page's head. A value is a JSON string with the new events only.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import gradio as gr

from ..server.runs import Runs
from .parts import markup

# A link's own race takes the place of the recording that everybody else begins with.
OF_LINK = "/[?&](prompt=|recording=(?!story))/.test(location.search)"
HOST = (
    "{element, main: %s, read: () => (%s && props.value === first ? '' : props.value), watch: fn => watch('value', fn), "
    "first, resend: (run, first) => server.resend([run, first]), make: (kind, trace) => server.make([kind, trace, location.origin + location.pathname]), "
    "open: text => server.open_(text)%s}"
)
MAIN = (
    ", recording: id => server.recorded(id), run: () => document.getElementById('la-race').click(), "
    "tour: () => lookaheadPage.tour.begin(stage), next: run => lookaheadPage.chips.after(run.replace(/^recording-/, '')), "
    "press: id => lookaheadPage.chips.press(id)"
)
MOUNT = "const first = props.value; const stage = lookaheadPage.timeline.mount(%s);"
CONNECT = (
    " lookaheadPage.tour.connect(stage); lookaheadPage.present.connect(stage); lookaheadPage.embed.connect(stage);"
)


def timeline(value: str, runs: Runs, functions: Sequence[Callable] = (), elem_id: str | None = None) -> gr.HTML:
    """Lanes of tokens, drawn by `assets/timeline/timeline.js`.

    `functions` are what the page may call, by their names: `make` and `open_`, which are for files, and `recorded`. A timeline that has
    them is the page's main one: keys work wherever the focus is, and a reload brings it back.
    """

    def resend(request: list) -> str | None:
        return runs.resend(request)

    return markup(
        value,
        html_template='<div class="la-timeline"></div>',
        js_on_load=MOUNT % HOST % (("true", OF_LINK, MAIN) if functions else ("false", "false", ""))
        + (CONNECT if functions else ""),
        server_functions=[resend, *functions],
        elem_id=elem_id,
    )
