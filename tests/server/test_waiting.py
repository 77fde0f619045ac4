"""The start: a page that responds before anything is loaded, shows the progress, and becomes the app without a gap."""

from __future__ import annotations

import http.client
import json
import signal
import subprocess
import sys
import time
import urllib.error
import urllib.request
from contextlib import asynccontextmanager

import pytest
from chromium import until
from conftest import LEAVING, ROOT, App
from starlette.responses import PlainTextResponse
from starlette.routing import Route

from lookahead.server.web import WebServer

RESPONSE_S = 8  # 4 s on a quiet machine
STATE = "window.lookahead.state()"


@pytest.fixture
def waiting():
    """A loading page without an app."""
    server = WebServer("127.0.0.1", 0)
    yield server
    server.close()


def get(port, path="/", **more):
    """Send a request and return (status, headers, text)."""
    request = urllib.request.Request(f"http://127.0.0.1:{port}{path}", **more)
    try:
        with urllib.request.urlopen(request, timeout=5) as response:
            return response.status, response.headers, response.read().decode()
    except urllib.error.HTTPError as error:
        return error.code, error.headers, error.read().decode()


def test_it_needs_neither_torch_nor_gradio():
    script = (
        "import sys; from lookahead.server import logging, queue; from lookahead.server.limits import Limits;"
        "from lookahead.server import web; web.WebServer('127.0.0.1', 0); web._page(web.ALL_SCENARIOS[0].id, None);"
        "print([m for m in ('torch', 'transformers', 'gradio') if m in sys.modules])"
    )
    done = subprocess.run([sys.executable, "-c", script], cwd=ROOT, check=True, capture_output=True, text=True)
    assert done.stdout.strip() == "[]"


@pytest.mark.long
def test_a_function_named_like_a_package_stays_a_function():
    script = (
        "import lookahead.engine.decode; from lookahead.trace.race import Race; import lookahead;"
        "print(lookahead.decode.__module__, lookahead.race.__module__, lookahead.Race is Race)"
    )
    done = subprocess.run([sys.executable, "-c", script], cwd=ROOT, check=True, capture_output=True, text=True)
    assert done.stdout.split() == ["lookahead.engine.lane", "lookahead.trace.race", "True"]


def test_every_path_has_a_response(waiting):
    waiting.set_progress("reading <torch>", 0.421)
    status, headers, text = get(waiting.port, "/?lesson=03-rejection")
    assert status == 200 and headers["Cache-Control"] == "no-store" and '"run":"recording-story"' in text
    assert "default-src 'none'" in text and "connect-src 'self'" in text
    report = {"status": "loading", "ready": False, "text": "reading <torch>", "share": 0.42}
    status, _, text = get(waiting.port, "/loading")
    assert status == 200 and json.loads(text) == report
    status, headers, text = get(waiting.port, "/healthz")
    assert status == 503 and json.loads(text) == report and headers["Retry-After"]
    for more in ({}, {"data": b"{}"}, {"method": "HEAD"}):
        status, headers, text = get(waiting.port, "/gradio_api/queue/join", **more)
        assert status == 503 and headers["Content-Type"].startswith("text/plain") and headers["Retry-After"]
        assert text == "" or "loading: reading <torch>, 42%" in text


def test_a_link_to_a_recording_shows_it(waiting):
    for query, run in (
        ("recording=tale", "recording-tale"),
        ("recording=tale&pass=5", "recording-tale-5"),
        ("recording=nothing", "recording-story"),
        ("recording=tale&pass=x", "recording-tale"),
        ("pass=5", "recording-story"),
    ):
        assert f'"run":"{run}"' in get(waiting.port, f"/?{query}")[2], query


def test_a_connection_that_was_opened_during_loading_reaches_the_app(waiting):
    running = []

    async def app(scope, receive, send):
        await PlainTextResponse("the app")(scope, receive, send)

    @asynccontextmanager
    async def lifespan(_):
        running.append(True)
        yield
        running.append(False)

    line = http.client.HTTPConnection("127.0.0.1", waiting.port, timeout=5)
    line.request("GET", "/loading")
    assert json.loads(line.getresponse().read())["ready"] is False
    connection = line.sock
    waiting.app.router.lifespan_context = lifespan
    waiting.app.mount("", app)
    waiting.serve_routes([Route("/healthz", lambda request: PlainTextResponse("healthy"))])
    for path, text in (("/healthz", "healthy"), ("/loading", "the app"), ("/", "the app")):
        line.request("GET", path)
        assert line.getresponse().read().decode() == text
    assert line.sock is connection, "without a new connection"
    assert running == [True]
    waiting.close()
    assert running == [True, False]


def test_an_app_that_cannot_start_raises_in_serve_routes(waiting):
    @asynccontextmanager
    async def lifespan(_):
        raise RuntimeError("no")
        yield

    waiting.app.router.lifespan_context = lifespan
    with pytest.raises(RuntimeError, match="no"):
        waiting.serve_routes([])
    assert json.loads(get(waiting.port, "/loading")[2])["ready"] is False


@pytest.mark.timed
def test_a_port_in_use_is_reported_immediately(waiting, capsys):
    from lookahead.page import app

    with pytest.raises(OSError, match="in use"):
        WebServer("127.0.0.1", waiting.port)
    start = time.monotonic()
    assert app.main(["--port", str(waiting.port)]) == 2
    assert app.main(["--port", "70000"]) == 2
    assert time.monotonic() - start < 2
    first, second = capsys.readouterr().err.splitlines()
    assert first == f"lookahead: port {waiting.port} at 127.0.0.1: Address already in use. Choose another with --port."
    assert "70000" in second and "0 to 65535" in second


@pytest.mark.timed
def test_it_responds_before_the_models_are_loaded_and_becomes_the_app_without_a_gap(tmp_path):
    start = time.monotonic()
    server = App(tmp_path, ready=False)
    try:
        status, text = server.get("/")
        assert status == 200 and 'id="waiting-batch"' in text and server.get("/healthz")[0] == 503
        assert time.monotonic() - start < RESPONSE_S
        shares, healthy = [], []
        while not (report := json.loads(server.get("/loading")[1]))["ready"]:
            assert server.process.poll() is None and time.monotonic() - start < 180, server.output()
            shares.append(report["share"])
            healthy.append(server.get("/healthz")[0])  # raises for a connection that is refused
            time.sleep(0.1 if report["share"] < 0.9 else 0)
        assert shares == sorted(shares) and shares[0] < 0.5 < shares[-1] and len(set(shares)) > 4
        assert set(healthy[:-1]) == {503}
        assert server.get("/healthz")[0] == 200 and "gradio" in server.get("/")[1]
        assert f"Running on local URL:  {server.url}" in server.output()
        assert server.stop() == 0
    finally:
        server.process.kill()


@pytest.mark.timed
@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_a_signal_during_loading_ends_it_immediately(tmp_path, number):
    server = App(tmp_path, ready=False)
    time.sleep(1)
    start = time.monotonic()
    server.process.send_signal(number)
    assert server.process.wait(timeout=10) == 0
    assert time.monotonic() - start < 3 and "traceback" not in server.output().lower()


# ------------------------------------------------------------------ in a browser


def opened(chromium, url, **options):
    """Open a page that collects its errors."""
    context = chromium.new_context(**{"viewport": {"width": 1440, "height": 900}, **options})
    context.add_init_script(LEAVING)
    page = context.new_page()
    page.faults = []
    page.on("console", lambda m: page.faults.append(m.text) if m.type == "error" else None)
    page.on("pageerror", lambda e: page.faults.append(str(e)))
    page.goto(url)
    until(page, f"window.lookahead && {STATE}.run")
    return page


@pytest.mark.browser
@pytest.mark.parametrize(
    ("width", "scheme", "query", "dark"),
    [(1440, "light", "", False), (390, "dark", "", True), (390, "light", "?__theme=dark", True)],
)
def test_it_plays_and_shows_the_progress(chromium, waiting, width, scheme, query, dark):
    waiting.set_progress("reading torch", 0.02)
    options = {"viewport": {"width": width, "height": 844}, "color_scheme": scheme}
    page = opened(chromium, f"http://127.0.0.1:{waiting.port}/{query}", **options)
    until(page, f"{STATE}.playing && {STATE}.t > 0.01")
    waiting.set_progress("measuring the costs of passes", 0.45)
    race = page.get_by_role("button", name="Race 45 %")
    race.wait_for()
    assert page.get_by_text("Getting ready: measuring the costs of passes.").is_visible()
    for pressed, shown in (("true", True), ("false", False)):
        race.press("Enter")
        assert race.get_attribute("aria-pressed") == pressed
        assert page.get_by_text("Your race then starts by itself.").is_visible() == shown
    assert page.evaluate("document.body.classList.contains('dark')") is dark
    assert page.evaluate("document.documentElement.scrollWidth <= innerWidth")
    assert not page.faults
    page.context.close()


@pytest.mark.browser
def test_a_loading_page_becomes_the_app(chromium, tmp_path):
    """At a first start, whose kernels and costs are not stored. What it has deferred is done after the race."""
    server = App(tmp_path, ready=False, LOOKAHEAD_CACHE=str(tmp_path / "cache"), NUMBA_CACHE_DIR=str(tmp_path / "code"))
    try:
        page = opened(chromium, f"{server.url}/?lesson=03-rejection")
        playing = opened(chromium, f"{server.url}/?recording=story")
        until(playing, f"window.lookahead && {STATE}.t > 0.05")
        playing.keyboard.press(" ")
        until(playing, f"window.lookahead && !{STATE}.playing")
        page.get_by_role("button", name="Race").click()  # the page of a lesson has no race to start
        racing = opened(chromium, server.url)
        racing.get_by_role("button", name="Race").click()
        before = playing.evaluate(STATE)
        assert before["run"] == "recording-story" and not before["playing"]
        assert server.wait()["ready"]
        page.locator("#la-learn-head, [role=tab][aria-selected=true]:has-text('Learn')").first.wait_for(timeout=60_000)
        assert page.url == f"{server.url}/?lesson=03-rejection"
        playing.get_by_role("button", name="Stop", exact=True).wait_for(timeout=60_000)
        until(playing, f"window.lookahead && {STATE}.run === 'recording-story'")
        playing.wait_for_timeout(1500)  # the recording of a link has arrived too
        shown = playing.evaluate(STATE)
        assert shown["t"] == pytest.approx(before["t"]) and not shown["playing"]
        until(racing, f"window.lookahead && !{STATE}.run.startsWith('recording')")
        until(racing, f"{STATE}.done")
        assert not page.faults + playing.faults + racing.faults
        while "finish loading" not in server.errors():
            assert server.process.poll() is None, server.output()
            time.sleep(0.1)
        assert [*(tmp_path / "cache").glob("*.json")] and [*(tmp_path / "code").glob("*/complete-*")]
        for opened_page in (page, playing, racing):
            opened_page.context.close()
        assert server.stop() == 0
    finally:
        server.process.kill()
