"""The page: the header with the measurements of this machine, the tabs, the footer."""

import html
import json
import os
from collections.abc import Iterator, Mapping
from functools import partial
from typing import Any

import gradio as gr
from starlette.middleware import Middleware

from ..core import processor
from ..core.events import LookaheadError
from ..core.numbers import decimal, seconds
from ..core.version import VERSION
from ..family.models import Models
from ..server import loading_job
from ..server.limits import LogSettings
from ..server.queue import queue
from ..server.state import ServerState
from ..server.web import TITLE
from ..servers.addresses import PREFIX, is_servers
from ..trace import assets
from . import api, gradio_internals, models_tab, race_tab
from .guard import Guard
from .lab import classroom
from .lab import tab as lab
from .learn import tab as learn
from .learn.lessons import plan
from .parts import QUIET, exactness, markup

SPARE_THREADS = 64  # for page loads and clicks
MOST_QUEUED = 10_000


def build(server: ServerState, log_settings: LogSettings) -> gr.Blocks:
    """The whole app."""
    queue.visitor = gradio_internals.visitor
    with gr.Blocks(title=TITLE, analytics_enabled=False, fill_width=True) as page:
        header = markup(_header(server.models), elem_id="la-header")
        with gr.Tabs(elem_id="la-tabs") as tabs:
            with gr.Tab("Race") as racing:
                family, changes, eight = race_tab.tab(server, page)
            with gr.Tab("Lab", id=lab.NAME) as measuring:
                sections = lab.tab(server, measuring)
            with gr.Tab("Learn", id=learn.NAME) as reading:
                lesson = learn.tab(server, reading)
            with gr.Tab("Models", id=models_tab.NAME) as choosing:
                models_tab.tab(server, choosing)
        shown = eight.click(_class, None, [tabs, sections], queue=False, show_progress_on=eight, **QUIET)
        shown.then(None, js=classroom.PRESS, **QUIET)
        for other in (racing, measuring, choosing):
            other.select(None, js="() => lookaheadPage.learn.left()", queue=False, api_visibility="private")
        # Gradio copies what shows progress with all that is in it, at every message of any run: never the tabs.
        page.load(_arrive, None, [tabs, lesson], queue=False, show_progress_on=lesson, **QUIET)

        def machine(request: gr.Request, spec: str, shown: str) -> Any:
            now = _header(server.families.shown(spec).models, spec)
            return gr.skip() if now == shown else now

        for change in (page.load, *changes):
            change(machine, [family, header], header, queue=False, **QUIET)
        # The header is replaced now and then, so its button presses a permanent one (`assets/page/buttons.js`).
        again = gr.Button("measure again", visible="hidden", elem_id="la-again")
        again.click(partial(_again, server), family, header, concurrency_limit=None, trigger_mode="once", **QUIET)
        markup(_footer(log_settings.revision), elem_id="la-footer")
        api.add(server)
        gradio_internals.change_template(assets.script("page/first.js"), _card())
        gradio_internals.forget_closed_sessions(page, server.forget)
        gradio_internals.report_errors(page)
    # Gradio's addresses that skip its queue are closed. `server.queue` limits how many wait; Gradio's limit is 1 with ZeroGPU.
    return page.queue(default_concurrency_limit=1, api_open=False, max_size=MOST_QUEUED)


def _class() -> list[gr.Tabs]:
    return [gr.Tabs(selected=lab.NAME), gr.Tabs(selected=lab.CLASS)]


def _arrive(request: gr.Request) -> Any:
    lesson, tab = request.query_params.get("lesson"), request.query_params.get("tab")
    opened = learn.NAME if lesson is not None else models_tab.NAME if tab == models_tab.NAME else None
    return [gr.Tabs(selected=opened) if opened else gr.skip(), gr.skip() if lesson is None else lesson]


def _again(server: ServerState, spec: str) -> Iterator[str]:
    models, news = server.families.shown(spec).models, "Measured again just now."
    try:
        for update in loading_job.measure_again(server, models.spec).follow():
            yield _header(models, spec, update.waiting or "Measuring again.")
    except LookaheadError as error:
        news = str(error)
    yield _header(server.families.shown(spec).models, spec, news)


def _header(models: Models, spec: str = "", news: str = "") -> str:
    """The name, and the measurements of this machine, or the facts about the chosen servers. With `news` it is open."""
    summary, facts = _of_servers(spec) if is_servers(spec) else _of_machine(models)
    facts = f'<p role="status">{html.escape(news)}</p>{facts}' if news else facts
    return (
        '<header class="la-header"><h1>Lookahead</h1>'
        "<p>One model writes the same text twice: one token per pass, and with drafts.</p>"
        f'<details class="la-machine"{" open" if news else ""}><summary>{summary}</summary><div>{facts}</div></details></header>'
    )


def _of_servers(spec: str) -> tuple[str, str]:
    names = html.escape(" and ".join(spec.removeprefix(PREFIX).split(",")))
    return (
        "servers, as seen from here",
        f"<p>{names} run elsewhere. Seconds are counted here, from a text's first token on, with the network in them.</p>"
        "<p>Servers on one machine take turns, for together they would share its cores. Which words were rejected no server "
        "tells, only how many.</p>",
    )


def _of_machine(models: Models) -> tuple[str, str]:
    curve = models.costs.target
    rows = "".join(
        f"<tr><td>{n}</td><td>{seconds(s)}</td><td>{decimal(curve.ratio(n))}</td></tr>"
        for n, s in zip(curve.rows, curve.seconds, strict=True)
    )
    names = html.escape(", ".join(f"{role}: {name}" for role, name in models.names.items()))
    return (
        f"{models.exactness} · {models.dtype} · {processor.cores()} cores",
        f"<p>{exactness(models)}</p><p>The costs of the target's passes by their number of rows:</p>"
        f"<table><thead><tr><th>rows</th><th>a pass</th><th>in one-row passes</th></tr></thead><tbody>{rows}</tbody></table>"
        f'<p>{names}</p><p><button type="button" class="la-again">measure again</button></p>',
    )


def _footer(revision: str) -> str:
    version = f"{VERSION} ({html.escape(revision)})" if revision else VERSION
    return (
        f'<footer class="la-footer">Lookahead {version}. The bundled models are small and were trained from scratch; '
        "they invent what they write. Built with Llama.</footer>"
    )


def _card(environment: Mapping[str, str] = os.environ) -> dict[str, str]:
    """The preview of a link to the page. On a Space the picture needs its whole address."""
    host = environment.get("SPACE_HOST", "")
    text = "One model writes the same text twice: one token per pass, and with drafts that it checks several at a time."
    return {"thumbnail": f"https://{host}/card.png" if host else "card.png", "simple_description": text}


def mount_options(waiting: int = 64) -> dict[str, Any]:
    """Options of `gradio_internals.mount` if so many visitors may wait."""
    fonts = ["system-ui", "-apple-system", "Segoe UI", "Roboto", "Helvetica Neue", "sans-serif"]
    mono = ["ui-monospace", "SFMono-Regular", "Menlo", "Consolas", "monospace"]
    return {
        "theme": gr.themes.Default(primary_hue="blue", neutral_hue="stone", font=fonts, font_mono=mono),
        "css": assets.style("page/app.css"),
        # Gradio's own footer, where a style sheet of ours does not reach: no dot behind the last link, and not on paper.
        "head": f"<script>{assets.script('page/app.js')}lookaheadPage.present.follow({json.dumps(plan())});</script>"
        "<style>footer .divider { display: none } @media print { footer { display: none } }</style>",
        "footer_links": ["api"],
        "run_history": False,
        "mcp_server": True,  # an assistant may call what `api.py` has
        "show_error": False,
        "ssr_mode": False,
        "app_kwargs": {"middleware": [Middleware(Guard)]},
        # Every run that computes or waits keeps one, asleep nearly all the time.
        "max_threads": waiting + SPARE_THREADS,
    }
