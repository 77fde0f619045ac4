"""The Lab in a real browser: claims, sweeps, recomputed passes and advice."""

from __future__ import annotations

import json
import re

import pytest
from playwright.sync_api import expect
from test_page import press_race, race
from test_page_access import SCREENS, in_other_colors, violations

pytestmark = pytest.mark.browser


LOSSY = "How much may the text change?"
SECTIONS = (
    "Claims", "Should I turn it on?", "How many at once?", "Draft length", LOSSY, "This machine", "Grow a drafter",
)  # fmt: skip


def lab(visit, section, **options):
    page = visit(**options)
    page.get_by_role("tab", name="Lab", exact=True).click()
    open_section(page, section)
    return page


def open_section(page, section):
    """Open a section of the Lab; on a phone, some sections are in a menu."""
    tab = page.get_by_role("tab", name=section, exact=True)
    if not tab.is_visible():
        page.locator("#la-lab .overflow-menu > button").click()
        tab = page.locator("#la-lab .overflow-dropdown button", has_text=section)
    tab.click()


@SCREENS
def test_no_section_has_a_violation(visit, scheme, size):
    page = lab(visit, "Draft length", color_scheme=scheme, viewport={"width": size[0], "height": size[1]})
    page.get_by_role("button", name="use the displayed race").click()
    page.locator(".js-plotly-plot").locator("visible=true").first.wait_for()
    for section in SECTIONS:
        open_section(page, section)
        assert violations(page) == [], section
    assert violations(in_other_colors(page, scheme)) == []


@pytest.mark.parametrize(("scheme", "ink"), [("light", "rgb(28, 27, 25)"), ("dark", "rgb(236, 235, 229)")])
def test_claims_are_drawn_at_first_in_the_pages_color(visit, scheme, ink):
    page = lab(visit, "Claims", color_scheme=scheme)
    row = page.locator(".js-plotly-plot .ytick text", has_text="Block drafters")
    expect(row).to_have_css("fill", ink)
    legend = page.locator(".js-plotly-plot .legendtext")
    claimed, elsewhere = legend.all_text_contents()
    assert claimed == "claimed" and re.fullmatch(r"measured on.+, \d+ cores", elsewhere)


def test_a_claim_is_measured(visit):
    page = lab(visit, "Claims")
    page.get_by_label("number input for repetitions").first.fill("1")
    row = page.locator(".la-claim").filter(has_text="Short outputs")
    row.get_by_role("button", name="Run").click()
    row.locator("em").filter(has_text=re.compile("claimed|inconclusive")).wait_for(timeout=120_000)
    assert "x to " in row.inner_text()
    page.locator(".la-prose").filter(has_text="naive passes (").wait_for(timeout=120_000)
    page.locator(".js-plotly-plot").locator("visible=true").first.wait_for()


def test_batches_are_measured_here(visit):
    page = lab(visit, "How many at once?")
    section = page.locator(".la-section").filter(has_text="texts at once").locator("visible=true")
    section.locator(".la-answer", has_text="Measured on another machine (").wait_for()
    section.locator(".js-plotly-plot .xtick", has_text="64").wait_for()
    section.get_by_role("button", name="Measure").click()
    section.locator("tbody tr").nth(1).wait_for(timeout=180_000)
    section.get_by_role(
        "button", name="Stop", disabled=False
    ).click()  # the measurements of larger batches take most of the time
    expect(section.locator(".la-status-line").first).to_contain_text("Stopped. The results so far are shown.")
    cells = [row.locator("td").all_inner_texts() for row in section.locator("tbody tr").all()]
    assert [row[0] for row in cells[:2]] == ["1", "2"] and {row[-1] for row in cells} == {"yes"}
    assert "for one text at a time" in section.inner_text()
    expect(section.locator(".js-plotly-plot")).to_have_count(2)
    expect(section.get_by_label("show a pass of")).to_have_value(re.compile(r"\d texts?"))
    drawn = section.locator(".js-plotly-plot").nth(1)
    assert "drafted, accepted" in drawn.inner_text() and "root (the text's last token)" in drawn.inner_text()


def test_the_slider_shows_speed_and_damage_of_a_lossy_rule(visit):
    page = lab(visit, LOSSY)
    section = page.locator(".la-section").filter(has_text="lossy").locator("visible=true")
    for field, value in (("prompts", "2"), ("repetitions", "1")):
        section.get_by_label(f"number input for {field}").fill(value)
    section.get_by_role("radio", name="relaxed").click()
    section.get_by_role("button", name="Measure").click()
    expect(section.locator(".la-status-line")).to_contain_text("Done.", timeout=180_000)
    answer = section.locator(".la-answer")
    expect(answer).to_have_text(re.compile(r"^\d.*x( faster|: slower), \d+% of tokens changed\.$"))
    assert re.search(r"\w+ \d+%", section.locator(".la-lossy ruby rt").first.inner_text())
    exact, relaxed = section.locator(".la-table").all()
    assert "Exact rules" in exact.inner_text() and "relaxed: changes the text" in relaxed.inner_text()
    assert exact.locator("tbody tr").count() == 4 and relaxed.locator("tbody tr").count() == 11
    expect(section.locator(".js-plotly-plot")).to_have_count(2)
    assert "relaxed, changes the text" in section.locator(".js-plotly-plot").first.inner_text()
    weight = section.get_by_label(re.compile("^number input for how much"))
    weight.fill("0")
    weight.press("Tab")
    expect(answer).to_have_text(re.compile("no token changed"))
    expect(section.locator(".la-lossy ruby")).to_have_count(0)
    assert "At weight 0 it is exact" in section.inner_text()


def test_the_decision_to_draft(visit):
    page = lab(visit, "Should I turn it on?")
    section = page.locator(".la-section").filter(has_text="Enter your own prompts").locator("visible=true")
    section.get_by_label("your prompts").fill("Once upon a time\n<img src=x onerror=alert(1)>")
    section.get_by_label("measure for").click()
    page.get_by_role("option", name="15 seconds").click()
    section.get_by_role("button", name="Find out").click()
    expect(section.locator(".la-status-line").first).to_contain_text("Done.", timeout=120_000)
    answer = section.locator(".la-answer").inner_text()
    assert answer.startswith(("On: ", "Off: "))
    expect(page.locator("body > .la-unseen[role=status]")).to_contain_text(answer)  # announced
    expect(section.locator("tbody tr").first).to_be_visible()
    with page.expect_download() as download:
        section.get_by_role("link", name="decision.json").click()
    decision = json.loads(download.value.path().read_text())
    measured = {row["question"] for row in decision["rows"]}  # a slow machine measures only the first prompt
    assert measured in ({"1"}, {"1", "2"}) and decision["sentence"]
    if decision["levels"]:  # a slow machine has no time left for batches
        section.locator(".js-plotly-plot").wait_for()
    link = section.get_by_role("link", name="race it").get_attribute("href")
    assert "prompt=Once+upon+a+time" in link and f"methods={decision['method']}" in link


def long_sweep(visit):
    """Return a page with a sweep of output lengths, its longest, and the cells of its first and last row."""
    page = lab(visit, "Draft length")
    page.get_by_label("sweep", exact=True).locator("visible=true").click()
    page.get_by_role("option", name="output length").click()
    page.get_by_label("number input for repetitions").locator("visible=true").fill("5")
    page.get_by_role("button", name="Sweep", exact=True).click()
    first, last = (page.get_by_role("cell", name=f"{n} tokens", exact=True) for n in (8, 256))
    first.wait_for()
    return page, first, last


def test_a_stopped_sweep_keeps_its_rows_and_frees_the_engine(visit):
    page, first, last = long_sweep(visit)
    page.get_by_role("button", name="Stop").locator("visible=true").click()
    page.wait_for_timeout(1500)
    assert first.is_visible()
    assert last.count() == 0
    page.get_by_role("tab", name="Race", exact=True).click()
    assert race(page)["lanes"][1]["finished"]


def test_a_race_after_the_visitors_own_sweep_waits_with_a_message(visit):
    page, *_ = long_sweep(visit)
    page.get_by_role("tab", name="Race", exact=True).click()
    press_race(page)
    page.locator(".la-statustext", has_text="Waiting: this starts after your own run").wait_for()
    page.get_by_role("button", name="Stop", exact=True).locator("visible=true").click()
    page.get_by_role("tab", name="Lab", exact=True).click()
    page.get_by_role("button", name="Stop").locator("visible=true").click()
    expect(page.locator(".la-status-line").locator("visible=true")).to_have_text(
        "Stopped. The results so far are shown."
    )


def test_what_if_recomputes_the_shown_race(visit):
    page = lab(visit, "Draft length")
    page.get_by_role("button", name="use the displayed race").click()
    table = page.locator(".la-table").filter(has_text="oracle").locator("visible=true")
    table.get_by_text("oracle, k = 6").wait_for()
    assert "ngram, k = 6" in table.inner_text()
    page.locator(".js-plotly-plot").locator("visible=true").first.wait_for()
    page.get_by_role("radio", name="suffix").click()
    table.get_by_text("suffix, k = 6").wait_for()


def test_this_machine_shows_the_cost_of_a_pass(visit):
    page = lab(visit, "This machine")
    page.get_by_role("button", name="details").click()
    facts = page.locator(".la-table").locator("visible=true").inner_text()
    assert "GB/s" in facts and re.search(r"W = \d+, N = \d, G = \d+: \d+ rows cost \d\.\d\d one-row", facts)
    page.locator(".js-plotly-plot").locator("visible=true").first.wait_for()


def test_the_shown_race_predicts_whether_to_draft(visit):
    page = lab(visit, "Should I turn it on?")
    page.get_by_role("button", name="Ask").click()
    answer = page.locator(".la-answer").locator("visible=true")
    expect(answer).to_have_text(re.compile("^(Yes: |Don't)"))


def test_formats_and_threads_are_compared_and_rows_stay_after_stop(visit):
    page = lab(visit, "This machine")
    page.get_by_role("button", name="details").click()
    compare = page.get_by_role("button", name="Compare formats and threads")
    table = page.locator(".la-table").filter(has_text="weights\u00a0read")
    compare.click()
    table.locator("td", has_text="ms").first.wait_for()
    page.get_by_role("button", name="Stop", disabled=False).locator("visible=true").click()
    expect(compare).to_be_enabled()
    assert "in\u00a0use" in table.inner_text()
    assert page.locator(".la-status-line", has_text="Done.").count() == 0
    compare.click()
    page.locator(".la-status-line", has_text="Done.").wait_for()
    assert "is in use" in page.locator(".la-answer").locator("visible=true").last.inner_text()
    assert "GB/s" in table.inner_text()
    page.locator(".js-plotly-plot").locator("visible=true").first.wait_for()
    expect(compare).to_be_enabled()
    assert violations(page) == []
    page.get_by_role("tab", name="Race", exact=True).click()
    assert race(page)["lanes"][1]["finished"]
