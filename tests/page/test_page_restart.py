"""A server that ends during a race and starts again: the page shows it, keeps the recording so far, and works again."""

from __future__ import annotations

import json
from urllib.parse import urlencode

import pytest
from conftest import PATIENT_MS, App
from prompts import ENDLESS

from lookahead.trace.trace import Trace

pytestmark = [pytest.mark.browser, pytest.mark.xdist_group("browser-1")]
STATE = "window.lookahead.state()"
ENDING = "Ended because this server is shutting down. The results so far are shown."


@pytest.fixture
def opened(chromium, tmp_path):
    """A page with the form of a long race, and its server."""
    server = App(tmp_path)
    context = chromium.new_context()
    context.set_default_timeout(PATIENT_MS)
    page = context.new_page()
    page.goto(
        f"{server.url}?{urlencode({'prompt': ENDLESS, 'methods': 'self,lookahead,ngram', 'max_new_tokens': 900})}"
    )
    page.wait_for_function("window.lookahead && window.lookahead.state().run")
    yield page, server
    context.close()
    server.process.kill()
    server.process.wait()


def start_race(page):
    """Start a race, and wait until its second lane has more than ten tokens."""
    before = page.evaluate(STATE)["run"]
    page.get_by_role("button", name="Race", exact=True).click()
    page.wait_for_function(
        f"{STATE}.run !== {json.dumps(before)} && !/^(recording|asked)/.test({STATE}.run)"
        f" && {STATE}.lanes.length === 4 && {STATE}.lanes[1].tokens > 10"
    )


def saved(page, tmp_path):
    """Save the shown recording, and return it."""
    with page.expect_download() as waiting:
        page.get_by_role("button", name="recording", exact=True).click()
    waiting.value.save_as(tmp_path / "saved.json")
    return Trace.from_json((tmp_path / "saved.json").read_text(encoding="utf-8"))


def test_a_server_is_killed_and_started_again_and_stopped(opened, tmp_path):
    page, server = opened
    start_race(page)
    server.process.kill()
    server.process.wait()
    page.locator(".la-statustext", has_text="Connection lost: the received part is shown.").wait_for()
    lost = page.evaluate(STATE)
    assert not lost["done"] and lost["lanes"][1]["tokens"] > 10
    again = App(tmp_path, server.port)
    try:
        page.wait_for_function(f"window.lookahead && {STATE}.restored && {STATE}.done")
        shown = page.evaluate(STATE)
        assert shown["run"] == lost["run"]
        assert [lane["text"] for lane in shown["lanes"]] == [lane["text"] for lane in lost["lanes"]]
        assert "server was restarted" in shown["error"]
        assert "Restored after a reload. The run ended early." in page.inner_text(".la-statustext")
        trace = saved(page, tmp_path)
        assert [len(lane.tokens) for lane in trace.lanes] == [lane["tokens"] for lane in lost["lanes"]]
        page.get_by_role("button", name="more", exact=True).click()
        page.get_by_label("new tokens, at most").fill("24")
        start_race(page)
        page.wait_for_function(f"{STATE}.done")
        shown = page.evaluate(STATE)
        assert shown["error"] is None and all(lane["finished"] for lane in shown["lanes"])
        page.get_by_label("new tokens, at most").fill("900")
        start_race(page)
    finally:
        assert again.stop() == 0
    page.wait_for_function(f"{STATE}.done")
    shown = page.evaluate(STATE)
    assert shown["error"] == ENDING
    assert shown["received"] == shown["expected"] and shown["lanes"][1]["tokens"] > 10
    assert [len(lane.tokens) for lane in saved(page, tmp_path).lanes] == [lane["tokens"] for lane in shown["lanes"]]
