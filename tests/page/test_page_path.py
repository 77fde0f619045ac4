"""The app behind a proxy that removes its path, with and without a slash at the end of the address."""

from __future__ import annotations

import pytest
from chromium import until
from conftest import LEAVING, PATIENT_MS
from prefix_proxy import PREFIX, below_a_path

from lookahead.server.web import WebServer

STATE = "window.lookahead.state()"
FORWARDED = [("X-Forwarded-Prefix", PREFIX)]


@pytest.fixture
def waiting():
    """A server that shows the loading page and never gets ready."""
    server = WebServer("127.0.0.1", 0)
    yield server
    server.close()


def opened(chromium, address):
    """Open an address, and return the page."""
    context = chromium.new_context(viewport={"width": 1440, "height": 900})
    context.set_default_timeout(PATIENT_MS)
    context.add_init_script(LEAVING)
    page = context.new_page()
    page.goto(address)
    return page


@pytest.mark.browser
@pytest.mark.parametrize(("end", "headers"), [("", ()), ("/", FORWARDED), ("?recording=tale", FORWARDED)])
def test_the_loading_page_polls_below_the_path(chromium, waiting, end, headers):
    waiting.tell("reading torch", 0.45)
    with below_a_path(f"http://127.0.0.1:{waiting.port}", headers) as proxy:
        page = opened(chromium, proxy.url + end)
        page.get_by_role("button", name="Race 45 %").wait_for()
        assert page.url == proxy.url + end and not proxy.elsewhere
        page.context.close()


@pytest.mark.browser
def test_the_app_replaces_the_loading_page_and_races(chromium, waiting, address):
    with below_a_path(f"http://127.0.0.1:{waiting.port}") as proxy:
        page = opened(chromium, f"{proxy.url}?recording=story")
        page.get_by_role("button", name="Race 0 %").wait_for()
        proxy.app = address
        page.get_by_role("button", name="Stop", exact=True).wait_for()
        until(page, f"window.lookahead && {STATE}.run === 'recording-story'")
        page.get_by_role("button", name="Race", exact=True).first.click()
        until(page, f"!{STATE}.run.startsWith('recording') && {STATE}.t > 0")
        assert page.url.startswith(proxy.url)
        assert not [path for path in proxy.elsewhere if "gradio_api" in path or "loading" in path]
        page.goto("about:blank")  # ends the race
        page.context.close()
