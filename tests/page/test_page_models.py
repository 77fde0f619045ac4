"""The Models tab in a real browser, with a small test hub: models are checked, loaded, raced and unloaded."""

from __future__ import annotations

import re

import pytest
from conftest import PATIENT_MS, App, started, tiny
from fakehub import serving
from playwright.sync_api import expect
from test_page import SHORT, race
from test_page_access import SCREENS, in_other_colors, violations
from test_page_lab import open_section

pytestmark = [pytest.mark.browser, pytest.mark.xdist_group("browser-1")]
PAIR = "org/tiny-target+org/tiny-draft"
SLOW_S = 0.03


@pytest.fixture(scope="module")
def served(tmp_path_factory):
    """A hub with a pair, and with a model that cannot be used."""
    root = tmp_path_factory.mktemp("models")
    with serving() as hub:
        hub.add("org/tiny-target", tiny("qwen3", root / "target", layers=3))
        hub.add("org/tiny-draft", tiny("qwen3", root / "draft", layers=1), license="mit")
        hub.add("org/stuck", tiny("openai-gpt", root / "stuck"))
        yield hub


@pytest.fixture(scope="module")
def app(served, tmp_path_factory):
    """The app with this hub and a separate cache."""
    folder = tmp_path_factory.mktemp("app")
    environment = {"HF_HUB_OFFLINE": "0", "HF_ENDPOINT": served.url, "HF_HUB_CACHE": str(folder / "cache")}
    with started(folder, **environment) as running:
        yield running


@pytest.fixture(scope="module")
def address(app):
    """The app's address."""
    return app.url


def models_tab(visit, **options):
    page = visit(SHORT, **options)
    page.get_by_role("tab", name="Models", exact=True).click()
    page.get_by_role("heading", name="In use").wait_for()
    return page


def press(page, name, spec=None):
    if spec is not None:
        page.get_by_label("target+draft").fill(spec)
    page.locator("#la-models").get_by_role("button", name=name, exact=True).click()


def refusal(page):
    message = page.locator("#la-models .la-refused")
    message.wait_for()
    return message.inner_text()


def in_use(page):
    return page.locator("#la-models .la-table").first.inner_text()


@SCREENS
def test_no_violation_and_nothing_wider_than_the_page(visit, scheme, size):
    page = models_tab(visit, color_scheme=scheme, viewport={"width": size[0], "height": size[1]})
    assert violations(page) == [], "first visit"
    press(page, "Check", PAIR)
    page.locator(".la-answer", has_text="can be loaded").wait_for()
    assert violations(page) == [], "a pair that can be used"
    press(page, "Check", "org/stuck+org/missing")
    page.locator(".la-fails").first.wait_for()
    assert violations(page) == [], "a pair that cannot"
    assert violations(in_other_colors(page, scheme)) == []
    assert page.evaluate("document.documentElement.scrollWidth") <= size[0]


def test_models_in_use_are_listed_with_licenses(visit):
    page = models_tab(visit)
    table = in_use(page)
    for word in ("target", "draft", "offdomain", "self", "ms", "Built with Llama"):
        assert word in table
    assert re.search(r"target\s+Llama-pocket target\s+[\d.]+ M\s+[\d.]+ MB", table)
    text = page.locator("#la-models").inner_text()
    assert "Copyright © Meta Platforms" in text
    assert "bfloat16 on the processor" in text or "float32 on the processor" in text
    assert "is added to the others" in text


def test_a_button_fills_in_a_suggestion(visit):
    page = models_tab(visit)
    page.locator(".la-suggested", has_text="SmolLM2").get_by_role("button", name="fill in").click()
    field = page.get_by_label("target+draft")
    assert field.input_value() == "HuggingFaceTB/SmolLM2-360M-Instruct+HuggingFaceTB/SmolLM2-135M-Instruct"
    field.press("Enter")  # Enter checks the pair
    page.locator(".la-fails", has_text="the hub shows no such model").first.wait_for()


def test_refusals_show_a_message_and_change_nothing(visit, served):
    page = models_tab(visit)
    for spec, message in (
        ("", "a name is missing"),
        ("/etc/passwd", "folders cannot be opened from the page"),
        ("pockets", "no such bundled family"),
    ):
        press(page, "Load", spec)
        assert message in refusal(page)
        press(page, "Check", "pocket")
        page.locator(".la-status-line", has_text="Checked").wait_for()
    press(page, "Load", "org/stuck+org/tiny-draft")
    assert "does not accept a cache" in refusal(page)
    assert "Llama-pocket target" in in_use(page)
    assert not [path for _, path, _ in served.log if path.startswith("/org/stuck/") and path.endswith(".safetensors")]


def test_a_stopped_load_changes_nothing(visit, served):
    page, served.delay_s = models_tab(visit), 10 * SLOW_S
    press(page, "Load", PAIR)
    page.locator(".la-status-line", has_text="Downloading").wait_for()
    press(page, "Stop")
    page.locator(".la-status-line", has_text="Stopped. The loaded models have not changed.").wait_for()
    expect(page.locator("#la-models").get_by_role("button", name="Load", exact=True)).to_be_enabled()
    expect(page.locator(".la-status-line")).to_have_text("Stopped. The loaded models have not changed.")
    page.wait_for_timeout(1000)  # the download process ends within this time
    served.delay_s = 0.0
    page.wait_for_timeout(1000)
    assert len(served.requested_ranges("model.safetensors")) <= 1, "the second model's weights were requested"
    page.reload()
    page.get_by_role("tab", name="Models", exact=True).click()
    assert "Llama-pocket target" in in_use(page)
    page.get_by_role("tab", name="Race", exact=True).click()
    assert race(page)["lanes"][1]["finished"]


def test_a_pair_is_loaded_raced_and_replaced_while_others_race(visit, served):
    other = visit(SHORT)
    page, served.delay_s = models_tab(visit), 4 * SLOW_S  # the download waits until the delay is removed
    press(page, "Load", PAIR)
    bar = page.locator("#la-models .la-status-line", has_text="Downloading")
    bar.locator(".la-bar").wait_for()
    assert race(other)["lanes"][1]["finished"], "a download delays no race"
    late = visit(SHORT)
    late.get_by_role("tab", name="Models", exact=True).click()
    press(late, "Load", PAIR)
    assert "Another visitor is loading models" in refusal(late)
    served.delay_s = 0.0
    page.wait_for_url("**/?tab=models&family=**")  # the page reloads
    page.locator("#la-models .la-table", has_text="org/tiny-target").wait_for()
    table = page.locator("#la-models .la-table", has_text="org/tiny-target").inner_text()
    assert "org/tiny-target" in table and "org/tiny-draft" in table and "apache-2.0" in table and "mit" in table
    assert "offdomain" not in table
    assert "Llama-pocket target" in in_use(page), "the family is added to the others"
    page.locator(".la-machine", has_text="org/tiny-target").wait_for(state="attached")
    page.get_by_role("tab", name="Race", exact=True).click()
    shown = race(page)
    assert all(lane["finished"] for lane in shown["lanes"])
    assert shown["lanes"][0]["text"] == shown["lanes"][1]["text"]
    page.get_by_role("button", name="more", exact=True).click()
    page.get_by_label("draft model").click()
    assert [option.split()[-1] for option in page.get_by_role("option").all_inner_texts()] == ["draft"]
    page.keyboard.press("Escape")
    page.get_by_role("tab", name="Lab", exact=True).click()
    open_section(page, "This machine")
    page.get_by_role("button", name="details").click()
    facts = page.locator(".la-section:visible .la-table").first
    expect(facts).to_contain_text("org/tiny-target")
    assert "draft: draft" in facts.inner_text() and "draft: offdomain" not in facts.inner_text()
    page.get_by_role("tab", name="Race", exact=True).click()
    page.get_by_label("Models").click()
    page.get_by_role("option", name="pocket: instant").click()
    page.locator(".la-machine", has_text="Llama-pocket target").wait_for(state="attached")
    page.get_by_role("tab", name="Lab", exact=True).click()
    expect(facts).to_contain_text("draft: offdomain")
    page.get_by_role("tab", name="Race", exact=True).click()
    assert race(page)["lanes"][1]["finished"]
    other.locator(".la-machine", has_text="Llama-pocket target").wait_for(state="attached")
    assert race(other)["lanes"][1]["finished"], "one visitor's choice does not change another's"


def test_a_host_may_disable_loading(chromium, tmp_path, served):
    running = App(
        tmp_path, HF_HUB_OFFLINE="0", HF_ENDPOINT=served.url, HF_HUB_CACHE=str(tmp_path), LOOKAHEAD_LOADING="none"
    )
    page = chromium.new_page()
    page.set_default_timeout(PATIENT_MS)
    try:
        page.goto(f"{running.url}/?tab=models")
        page.locator("#la-models", has_text="The host of this server has switched loading off.").wait_for()
        load = page.locator("#la-models").get_by_role("button", name="Load", exact=True)
        assert load.is_disabled() and page.get_by_label("target+draft").is_disabled()
        assert page.get_by_role("button", name="fill in").count() == 0
        assert "python app.py --models" in page.locator("#la-models").inner_text()
        assert violations(page) == []
    finally:
        page.close()
        running.stop()
