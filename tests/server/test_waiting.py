"""The start: a page that answers before anything is loaded, says how far loading is, and gives way without a gap."""

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

pytestmark = pytest.mark.models

ANSWERS_S = 8  # 4 s on a quiet machine
STATE = "window.lookahead.state()"


@pytest.fixture
def waiting():
    """A page that waits, for nothing."""
    here = WebServer("127.0.0.1", 0)
    yield here
    here.close()


def asked(port, path="/", **more):
    """(status, headers, text) of a request."""
    request = urllib.request.Request(f"http://127.0.0.1:{port}{path}", **more)
    try:
        with urllib.request.urlopen(request, timeout=5) as answer:
            return answer.status, answer.headers, answer.read().decode()
    except urllib.error.HTTPError as error:
        return error.code, error.headers, error.read().decode()


def test_it_needs_neither_torch_nor_gradio():
    look = (
        "import sys; from lookahead.server import logging, queue; from lookahead.server.limits import Limits;"
        "from lookahead.server.web import WebServer; WebServer('127.0.0.1', 0).page('');"
        "print([m for m in ('torch', 'transformers', 'gradio') if m in sys.modules])"
    )
    done = subprocess.run([sys.executable, "-c", look], cwd=ROOT, check=True, capture_output=True, text=True)
    assert done.stdout.strip() == "[]"


def test_a_function_named_like_a_room_stays_a_function():
    look = (
        "import lookahead.engine.decode; from lookahead.trace.race import Race; import lookahead;"
        "print(lookahead.decode.__module__, lookahead.race.__module__, lookahead.Race is Race)"
    )
    done = subprocess.run([sys.executable, "-c", look], cwd=ROOT, check=True, capture_output=True, text=True)
    assert done.stdout.split() == ["lookahead.engine.lane", "lookahead.trace.race", "True"]


def test_every_path_has_an_answer(waiting):
    waiting.tell("reading <torch>", 0.421)
    status, headers, text = asked(waiting.port, "/?lesson=03-rejection")
    assert status == 200 and headers["Cache-Control"] == "no-store" and '"run":"recording-story"' in text
    assert "default-src 'none'" in text and "connect-src 'self'" in text
    told = {"status": "loading", "ready": False, "text": "reading <torch>", "share": 0.42}
    status, _, text = asked(waiting.port, "/loading")
    assert status == 200 and json.loads(text) == told
    status, headers, text = asked(waiting.port, "/healthz")
    assert status == 503 and json.loads(text) == told and headers["Retry-After"]
    for more in ({}, {"data": b"{}"}, {"method": "HEAD"}):
        status, headers, text = asked(waiting.port, "/gradio_api/queue/join", **more)
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
        assert f'"run":"{run}"' in asked(waiting.port, f"/?{query}")[2], query


def test_a_connection_that_was_opened_during_loading_reaches_the_app(waiting):
    begun = []

    async def app(scope, receive, send):
        await PlainTextResponse("the app")(scope, receive, send)

    @asynccontextmanager
    async def lifespan(_):
        begun.append(True)
        yield
        begun.append(False)

    line = http.client.HTTPConnection("127.0.0.1", waiting.port, timeout=5)
    line.request("GET", "/loading")
    assert json.loads(line.getresponse().read())["ready"] is False
    held = line.sock
    waiting.app.router.lifespan_context = lifespan
    waiting.app.mount("", app)
    waiting.show([Route("/healthz", lambda request: PlainTextResponse("healthy"))])
    for path, text in (("/healthz", "healthy"), ("/loading", "the app"), ("/", "the app")):
        line.request("GET", path)
        assert line.getresponse().read().decode() == text
    assert line.sock is held, "without a new connection"
    assert begun == [True]
    waiting.close()
    assert begun == [True, False]


def test_an_app_that_cannot_begin_raises_where_it_is_shown(waiting):
    @asynccontextmanager
    async def lifespan(_):
        raise RuntimeError("no")
        yield

    waiting.app.router.lifespan_context = lifespan
    with pytest.raises(RuntimeError, match="no"):
        waiting.show([])
    assert json.loads(asked(waiting.port, "/loading")[2])["ready"] is False


@pytest.mark.timed
def test_a_port_that_is_taken_is_found_at_once(waiting, capsys):
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
def test_it_answers_before_the_models_are_loaded_and_gives_way_without_a_gap(tmp_path):
    start = time.monotonic()
    server = App(tmp_path, ready=False)
    try:
        status, text = server.get("/")
        assert status == 200 and 'id="waiting-batch"' in text and server.get("/healthz")[0] == 503
        assert time.monotonic() - start < ANSWERS_S
        shares, healthy = [], []
        while not (said := json.loads(server.get("/loading")[1]))["ready"]:
            assert server.process.poll() is None and time.monotonic() - start < 180, server.output()
            shares.append(said["share"])
            healthy.append(server.get("/healthz")[0])  # raises for a connection that is refused
            time.sleep(0.1 if said["share"] < 0.9 else 0)
        assert shares == sorted(shares) and shares[0] < 0.5 < shares[-1] and len(set(shares)) > 4
        assert set(healthy[:-1]) == {503}
        assert server.get("/healthz")[0] == 200 and "gradio" in server.get("/")[1]
        assert f"Running on local URL:  {server.url}" in server.output()
        assert server.stop() == 0
    finally:
        server.process.kill()


@pytest.mark.timed
@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_a_signal_while_it_loads_ends_it_at_once(tmp_path, number):
    server = App(tmp_path, ready=False)
    time.sleep(1)
    start = time.monotonic()
    server.process.send_signal(number)
    assert server.process.wait(timeout=10) == 0
    assert time.monotonic() - start < 3 and "traceback" not in server.output().lower()


# ------------------------------------------------------------------ in a browser


def opened(chromium, url, **options):
    """A page, and what it logged as an error."""
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
def test_it_plays_and_says_how_far_loading_is(chromium, waiting, width, scheme, query, dark):
    waiting.tell("reading torch", 0.02)
    options = {"viewport": {"width": width, "height": 844}, "color_scheme": scheme}
    page = opened(chromium, f"http://127.0.0.1:{waiting.port}/{query}", **options)
    until(page, f"{STATE}.playing && {STATE}.t > 0.01")
    race = page.get_by_role("button", name="Race")
    assert race.is_disabled()
    waiting.tell("measuring what a pass costs", 0.45)
    page.get_by_role("button", name="Race 45 %").wait_for()
    assert page.get_by_text("Getting ready: measuring what a pass costs.").is_visible()
    assert page.evaluate("document.body.classList.contains('dark')") is dark
    assert page.evaluate("document.documentElement.scrollWidth <= innerWidth")
    assert not page.faults
    page.context.close()


@pytest.mark.browser
@pytest.mark.timed
def test_a_page_that_waits_becomes_the_app(chromium, tmp_path):
    server = App(tmp_path, ready=False, LOOKAHEAD_CACHE=str(tmp_path / "cache"))  # it has all to measure first
    try:
        page = opened(chromium, f"{server.url}/?lesson=03-rejection")
        playing = opened(chromium, f"{server.url}/?recording=story")
        until(playing, f"window.lookahead && {STATE}.t > 0.05")
        playing.keyboard.press(" ")
        until(playing, f"window.lookahead && !{STATE}.playing")
        held = playing.evaluate(STATE)
        assert held["run"] == "recording-story" and not held["playing"]
        assert server.wait()["ready"]
        page.locator("#la-learn-head, [role=tab][aria-selected=true]:has-text('Learn')").first.wait_for(timeout=60_000)
        assert page.url == f"{server.url}/?lesson=03-rejection"
        playing.get_by_role("button", name="Stop", exact=True).wait_for(timeout=60_000)
        until(playing, f"window.lookahead && {STATE}.run === 'recording-story'")
        playing.wait_for_timeout(1500)  # what a link asks for has arrived too
        shown = playing.evaluate(STATE)
        assert shown["t"] == pytest.approx(held["t"]) and not shown["playing"]
        assert not page.faults + playing.faults
        for one in (page, playing):
            one.context.close()
        assert server.stop() == 0
    finally:
        server.process.kill()
