"""A strategy of one file and one line, in the running app: in the menus, in the API, and in the inspector after a race."""

import re

import pytest
from conftest import ROOT, started
from playwright.sync_api import expect
from test_page import race
from toy_drafters import Echo

pytestmark = pytest.mark.browser


@pytest.fixture(scope="module")
def app(tmp_path_factory):
    """A separate app, whose process has the strategy in the registry."""
    with started(tmp_path_factory.mktemp("toy"), program="tests/toy_app.py", PYTHONPATH=str(ROOT)) as running:
        yield running


@pytest.fixture(scope="module")
def address(app):
    return app.url


def test_a_new_strategy_is_in_the_menus_races_and_is_drawn_by_the_inspector(visit, address):
    from gradio_client import Client

    listed = {method["name"]: method for method in Client(address, verbose=False).predict(api_name="/methods")}
    assert listed[Echo.name] == {"name": Echo.name, "summary": Echo.summary, "needs_draft": False}
    page = visit("?prompt=Once upon a time&methods=hybrid&max_new_tokens=24&k=2")
    page.get_by_label("Method", exact=True).click()
    option = page.get_by_role("option", name=re.compile(f"^{Echo.name}:"))
    expect(option).to_have_text(re.compile(re.escape(Echo.summary.removeprefix("drafts "))))
    option.click()
    shown = race(page)
    assert [lane["method"] for lane in shown["lanes"]] == ["naive", Echo.name]
    assert shown["lanes"][0]["text"] == shown["lanes"][1]["text"]
    page.locator("body").press("End")
    page.get_by_role("button", name="open the pass").click()
    panel = page.get_by_role("region", name="Pass inspector")
    while not panel.locator(".la-i-rows").count():  # a text's last pass may have no draft
        panel.get_by_role("button", name="Previous pass of this lane").click()
    expect(panel.locator(".la-i-title")).to_have_text(re.compile(f"^{Echo.name}: "))
    figure = panel.get_by_role("table", name="Drafted rows, their tests, and the emitted tokens")
    assert figure.locator("th.la-i-drafted").count() > 1, "a line for each drafted row, and the target's own token"
    expect(panel.get_by_text("drafted) in the target’s pass")).to_be_visible()
    assert page.faults == []
