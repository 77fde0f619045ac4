"""The page: the header with the measurements of this machine, the tabs, the footer."""

import html
import os
from collections.abc import Iterator, Mapping
from functools import partial
from typing import Any

import gradio as gr
from starlette.middleware import Middleware
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from ..core import processor
from ..core.events import LookaheadError
from ..core.numbers import decimal, seconds
from ..core.version import VERSION
from ..family.models import Models
from ..server import loading_job
from ..server.limits import LogSettings
from ..server.queue import queue
from ..server.state import ServerState
from ..server.web import FRESH, TITLE
from ..servers.addresses import PREFIX, is_servers
from ..trace import assets
from . import api, gradio_internals, models_tab, race_tab
from .guard import Guard
from .lab import tab as lab
from .learn import tab as learn
from .parts import ESTIMATED, QUIET, exactness, markup

SPARE_THREADS = 64  # for page loads and clicks
MAX_QUEUED = 10_000


def build(server: ServerState, log_settings: LogSettings) -> gr.Blocks:
    """Return the app."""
    queue.visitor = gradio_internals.visitor
    with gr.Blocks(title=TITLE, analytics_enabled=False, fill_width=True) as page:
        header = markup(_header(server.models), elem_id="la-header")
        with gr.Tabs(elem_id="la-tabs") as tabs:
            with gr.Tab("Race") as racing:
                family, changes, class_chip = race_tab.tab(server, page)
            with gr.Tab("Lab", id=lab.NAME) as measuring:
                sections = lab.tab(server, measuring)
            with gr.Tab("Learn", id=learn.NAME) as reading:
                lesson = learn.tab(server, reading)
            with gr.Tab("Models", id=models_tab.NAME) as choosing:
                models_tab.tab(server, choosing)
        shown = class_chip.click(_class, None, [tabs, sections], queue=False, show_progress_on=class_chip, **QUIET)
        shown.then(None, js="() => lookaheadPage.load.teaching().then(({classroom}) => classroom.press())", **QUIET)
        for tab, name in ((racing, "race"), (measuring, lab.NAME), (choosing, models_tab.NAME)):
            tab.select(None, js=f"() => lookaheadPage.address.selected('{name}')", queue=False, **QUIET)
        # At every message of any run, Gradio copies the components that show progress, with their children: never the tabs.
        arrival = page.load(_arrive, None, [tabs, lesson], queue=False, show_progress_on=lesson, **QUIET)
        arrival.then(None, js="() => lookaheadPage.address.ready()", **QUIET)

        def machine(request: gr.Request, spec: str, shown: str) -> Any:
            current = _header(server.families.shown(spec).models, spec)
            return gr.skip() if current == shown else current

        for change in (page.load, *changes):
            change(machine, [family, header], header, queue=False, **QUIET)
        # The header is sometimes replaced, so its button clicks a permanent one (`assets/page/buttons.js`).
        measure = gr.Button("measure again", visible="hidden", elem_id="la-again")
        again = partial(_measure_again, server)
        measure.click(again, family, header, concurrency_limit=None, trigger_mode="once", **QUIET)
        markup(_footer(log_settings.revision), elem_id="la-footer")
        api.add(server)
        gradio_internals.change_template(assets.script("page/first.js"), _card())
        gradio_internals.forget_closed_sessions(page, server.forget)
        gradio_internals.report_errors(page)
    # Gradio's addresses that skip its queue are closed. `server.queue` limits how many wait; Gradio's limit is 1 with ZeroGPU.
    return page.queue(default_concurrency_limit=1, api_open=False, max_size=MAX_QUEUED)


def _class() -> list[gr.Tabs]:
    return [gr.Tabs(selected=lab.NAME), gr.Tabs(selected=lab.AT_ONCE)]


def _arrive(request: gr.Request) -> Any:
    lesson, tab = request.query_params.get("lesson"), request.query_params.get("tab")
    opened = learn.NAME if lesson is not None else tab if tab in (lab.NAME, models_tab.NAME) else None
    return [gr.Tabs(selected=opened) if opened else gr.skip(), gr.skip() if lesson is None else lesson]


def _measure_again(server: ServerState, spec: str) -> Iterator[str]:
    models, news = server.families.shown(spec).models, "Measured again just now."
    try:
        for update in loading_job.measure_again(server, models.spec).follow():
            yield _header(models, spec, update.waiting or "Measuring again.")
    except LookaheadError as error:
        news = str(error)
    yield _header(server.families.shown(spec).models, spec, news)


def _header(models: Models, spec: str = "", news: str = "") -> str:
    """Return the name and the facts about this machine or the chosen servers. With `news`, the facts are expanded."""
    summary, facts = _server_facts(spec) if is_servers(spec) else _machine_facts(models)
    facts = f'<p role="status">{html.escape(news)}</p>{facts}' if news else facts
    return (
        '<a class="la-skip" href="#la-tabs">Skip to the content</a><header class="la-header"><h1>Lookahead</h1>'
        "<p>One model writes the same text twice: one token per pass, and with drafts.</p>"
        f'<details class="la-machine"{" open" if news else ""}><summary>{summary}</summary><div>{facts}</div></details></header>'
    )


def _server_facts(spec: str) -> tuple[str, str]:
    names = html.escape(" and ".join(spec.removeprefix(PREFIX).split(",")))
    return (
        "servers, measured from this machine",
        f"<p>{names} run on other machines. Seconds are measured here from a text's first token on, network included.</p>"
        "<p>Servers on one machine take turns, because together they would share its cores. Servers report how many tokens "
        "were rejected, but not which ones.</p>",
    )


def _machine_facts(models: Models) -> tuple[str, str]:
    curve = models.costs.target
    costs = [(n, seconds(s), decimal(curve.ratio(n))) for n, s in zip(curve.rows, curve.seconds, strict=True)]
    rows = "".join(f"<tr><td>{n}</td><td>{time}</td><td>{ratio}</td></tr>" for n, time, ratio in costs)
    kind = f", {ESTIMATED}" if models.estimated else ""
    names = html.escape(", ".join(f"{role}: {name}" for role, name in models.names.items()))
    return (
        f"{models.exactness} · {models.dtype} · {processor.cores()} cores",
        f"<p>{exactness(models)}</p><p>The costs of the target's passes by their number of rows{kind}:</p>"
        f"<table><thead><tr><th>rows</th><th>time per pass</th><th>in one-row passes</th></tr></thead><tbody>{rows}</tbody></table>"
        f'<p>{names}</p><p><button type="button" class="la-again">measure again</button></p>',
    )


def _footer(revision: str) -> str:
    version = f"{VERSION} ({html.escape(revision)})" if revision else VERSION
    return (
        f'<footer class="la-footer">Lookahead {version}. The bundled models are small and were trained from scratch. '
        "Their texts are invented. Built with Llama.</footer>"
    )


def _card(environment: Mapping[str, str] = os.environ) -> dict[str, str]:
    """Return the preview of a link to the page. On a Space, the picture needs its full address."""
    host = environment.get("SPACE_HOST", "")
    text = "One model writes the same text twice: one token per pass, and with drafts that it checks several at a time."
    return {"thumbnail": f"https://{host}/card.png" if host else "card.png", "simple_description": text}


def teaching_routes() -> list[Route]:
    """Return the routes of the scripts and styles that `assets/page/load.js` requests."""

    async def code(request: Request) -> Response:
        is_style = request.url.path.endswith("css")
        text = assets.style("page/teaching.css") if is_style else assets.script("page/teaching.js")
        return Response(text, media_type="text/css" if is_style else "text/javascript", headers=FRESH)

    return [Route("/teaching.js", code), Route("/teaching.css", code)]


def mount_options(waiting: int = 64) -> dict[str, Any]:
    """Return the options of `gradio_internals.mount` if `waiting` visitors may wait."""
    fonts = ["system-ui", "-apple-system", "Segoe UI", "Roboto", "Helvetica Neue", "sans-serif"]
    mono = ["ui-monospace", "SFMono-Regular", "Menlo", "Consolas", "monospace"]
    return {
        "theme": gr.themes.Default(primary_hue="blue", neutral_hue="stone", font=fonts, font_mono=mono),
        "css": assets.style("page/app.css"),
        "head": f"<script>{assets.script('page/app.js')}</script><style>{assets.style('page/frame.css')}</style>",
        "footer_links": ["api"],
        "run_history": False,
        "mcp_server": True,  # assistants may call the endpoints of `api.py`
        "show_error": False,
        "ssr_mode": False,
        "app_kwargs": {"middleware": [Middleware(Guard)]},
        # Every run that computes or waits occupies one, which sleeps most of the time.
        "max_threads": waiting + SPARE_THREADS,
    }
