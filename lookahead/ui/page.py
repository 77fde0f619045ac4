"""The page: the header with what was measured of this machine, the tabs, the footer.

Knows what is where. What a tab does is in its own file.
"""

from __future__ import annotations

import html
from typing import Any

import gradio as gr
from starlette.middleware import Middleware

from .. import assets
from ..cost import BIT_EXACT, cores
from ..limits import Telling
from ..models import Models
from ..version import VERSION
from . import api, lab, learn, models_tab, race_tab, visitors
from .guard import Guard
from .stage import Stage

SPARE_THREADS = 64  # for page loads and clicks, beside those who wait
MOST_QUEUED = 10_000


def build(stage: Stage, telling: Telling) -> gr.Blocks:
    """The whole app."""
    with gr.Blocks(
        title="Lookahead: speculative decoding, seen and measured", analytics_enabled=False, fill_width=True
    ) as page:
        gr.HTML(lambda: _header(stage.models), apply_default_css=False, elem_id="la-header")
        with gr.Tabs(elem_id="la-tabs") as tabs:
            with gr.Tab("Race") as racing:
                race_tab.tab(stage, page)
            with gr.Tab("Lab") as measuring:
                lab.tab(stage)
            with gr.Tab("Learn", id=learn.NAME) as reading:
                lesson = learn.tab(stage, reading)
            with gr.Tab("Models", id=models_tab.NAME) as choosing:
                models_tab.tab(stage)
        for other in (racing, measuring, choosing):
            other.select(None, js="() => lookaheadLearn.left()", queue=False, api_visibility="private")
        page.load(_arrive, None, [tabs, lesson], queue=False, show_progress="hidden", api_visibility="private")
        gr.HTML(_footer(telling.revision), apply_default_css=False, elem_id="la-footer")
        api.add(stage, page)
        visitors.forget_gone(page)
    # Nothing is computed past the line: an address of Gradio's that skips its queue is closed.
    # How many may wait is the desk's business; Gradio's own limit would be 1 on a Space with ZeroGPU.
    return page.queue(default_concurrency_limit=1, api_open=False, max_size=MOST_QUEUED)


def _arrive(request: gr.Request) -> Any:
    """The tab and the lesson that a link asks for."""
    name = request.query_params.get("lesson")
    if name is None and request.query_params.get("tab") == models_tab.NAME:
        return [gr.Tabs(selected=models_tab.NAME), gr.skip()]
    return [gr.skip(), gr.skip()] if name is None else [gr.Tabs(selected=learn.NAME), name]


def _header(models: Models) -> str:
    """The name, and what was measured of this machine at start."""
    probe, costs = models.probe, models.costs
    rows = "".join(
        f"<tr><td>{n}</td><td>{s * 1e3:.2f} ms</td><td>{costs.ratio(n):.2f}</td></tr>"
        for n, s in zip(costs.rows, costs.seconds, strict=True)
    )
    differ, tested = probe.chain_differ + probe.tree_differ, probe.chain_rows + probe.tree_rows
    exact = (
        f"At start, {tested} rows were computed in passes of several rows, as chains and as trees, and each was compared "
        f"with the same row computed alone: {differ} differed"
        + (", bit for bit. Drafting cannot change the text here." if models.exactness == BIT_EXACT
           else f", by {probe.worst:.2g} at most. Two tokens that close may swap; the page says so when it happens.")
    )  # fmt: skip
    names = html.escape(", ".join(f"{role}: {name}" for role, name in models.names.items()))
    return (
        '<header class="la-header"><h1>Lookahead</h1>'
        "<p>One model writes the same text twice: a token a pass, and with drafts.</p>"
        f'<details class="la-machine"><summary>{models.exactness} · {models.dtype} · {cores()} cores</summary>'
        f"<div><p>{exact}</p><p>What a pass of so many rows costs the target:</p>"
        f"<table><thead><tr><th>rows</th><th>a pass</th><th>in one-row passes</th></tr></thead><tbody>{rows}</tbody></table>"
        f"<p>{names}</p></div></details></header>"
    )


def _footer(revision: str) -> str:
    version = f"{VERSION} ({html.escape(revision)})" if revision else VERSION
    return (
        f'<footer class="la-footer">Lookahead {version}. The bundled models are small and were trained from scratch; '
        "they invent what they write. Built with Llama.</footer>"
    )


def launch_options(waiting: int = 64) -> dict[str, Any]:
    """What the page needs of `Blocks.launch`, where so many visitors may wait."""
    fonts = ["system-ui", "-apple-system", "Segoe UI", "Roboto", "Helvetica Neue", "sans-serif"]
    mono = ["ui-monospace", "SFMono-Regular", "Menlo", "Consolas", "monospace"]
    return {
        "theme": gr.themes.Default(primary_hue="blue", neutral_hue="stone", font=fonts, font_mono=mono),
        "css": assets.style("page.css", "learn.css"),
        # Gradio's own footer, where a style sheet of ours does not reach: no dot behind the last link, and not on paper.
        "head": f"<script>{assets.script('learn.js')}</script>"
        "<style>footer .divider { display: none } @media print { footer { display: none } }</style>",
        "footer_links": ["api"],
        "run_history": False,
        "show_error": False,
        "ssr_mode": False,
        "app_kwargs": {"middleware": [Middleware(Guard)]},
        # Every run that is at work or waits holds one, asleep nearly all the time.
        "max_threads": waiting + SPARE_THREADS,
        "state_session_capacity": visitors.MOST,
    }
