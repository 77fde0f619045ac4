"""A drafter grown in a real browser: trained, raced, stopped, kept for the Race tab, downloaded and removed."""

import json
import re
import zipfile

import pytest
from playwright.sync_api import expect
from test_page import SHORT, race
from test_page_lab import open_section

pytestmark = pytest.mark.browser


def drafting(page):
    """The name of the drafter in the shown race."""
    return json.loads(page.evaluate("window.lookahead.trace()"))["models"]["heads"]["block"]["name"]


def test_a_drafter_is_grown_kept_and_downloaded(visit, tmp_path):
    page = visit(f"{SHORT}&method=block")
    page.get_by_role("tab", name="Lab", exact=True).click()
    open_section(page, "Grow a drafter")
    press = {name: page.get_by_role("button", name=name, exact=True).locator("visible=true") for name in
             ("Train", "Stop", "Keep for my races", "Remove", "Download")}  # fmt: skip
    for name in ("Keep for my races", "Download"):
        expect(press[name]).to_be_disabled()
    press["Train"].click()
    headline, lanes = page.locator(".la-worth"), page.locator("#la-grown")
    # The value before training is replaced after ten seconds, maybe before a busy machine shows it.
    begun = re.compile(r"1\.\d\d tokens per pass, (before training|after [\d.]+ s)")
    expect(headline).to_contain_text(begun, timeout=180_000)  # the target writes stories first
    expect(lanes).to_contain_text("Finished.")
    expect(page.locator(".la-section:visible .js-plotly-plot .legendtext")).to_have_text(["loss", "tokens per pass"])
    expect(page.get_by_text("of training.")).to_contain_text("tokens written by the target")
    expect(press["Keep for my races"]).to_be_enabled()
    press["Stop"].click()
    expect(page.get_by_text("Stopped. Keep the drafter")).to_be_visible()
    expect(press["Train"]).to_be_enabled()
    # A race may or may not have been running: then the lanes are finished, or stopped.
    expect(lanes).to_contain_text(re.compile(r"Finished\.|Stopped by you after \d+ tokens\."))
    assert page.locator(".la-section:visible .scatterlayer .trace").count() == 2
    with page.expect_download() as waiting:
        press["Download"].click()
    waiting.value.save_as(tmp_path / "head.zip")
    assert zipfile.ZipFile(tmp_path / "head.zip").namelist() == ["config.json", "model.safetensors"]
    press["Keep for my races"].click()
    page.get_by_text("the method block now drafts with your own, trained for").wait_for()
    page.get_by_role("tab", name="Race", exact=True).click()
    race(page)
    assert drafting(page).startswith("your own, trained for")
    page.get_by_role("tab", name="Lab", exact=True).click()
    press["Remove"].click()
    page.get_by_text("Removed").wait_for()
    expect(press["Remove"]).to_be_hidden()
