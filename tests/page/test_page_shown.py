"""The tour, the projector mode, the card and the film of a race, acceptance records, a class of eight."""

import json
import re
import struct
from urllib.parse import parse_qsl

import pytest
from conftest import daily
from playwright.sync_api import expect
from test_page import STATE, race, state
from test_page_access import violations

from lookahead.page.learn.lessons import pages

pytestmark = [pytest.mark.browser, pytest.mark.xdist_group("browser-1")]


def test_the_tour_goes_through_the_recording_and_ends_with_a_guess(visit):
    page = visit()
    page.get_by_role("button", name="one-minute tour").click()
    tour = page.get_by_role("dialog", name="A tour in six stops")
    texts = []
    for number in range(1, 7):
        expect(tour.locator(".la-t-place")).to_have_text(f"{number} of 6")
        texts.append(tour.locator("p").inner_text())
        if number < 6:
            tour.get_by_role("button", name="Next").click()
    assert len(set(texts)) == 6 and violations(page) == []
    tour.get_by_role("button", name="Not all").click()
    expect(tour.locator("p")).to_contain_text("accepted. Now press Race")
    page.keyboard.press("Escape")
    tour.get_by_role("button", name="Close").click()
    expect(tour).to_have_count(0)


def test_a_link_starts_the_tour(visit):
    page = visit("?tour")
    expect(page.get_by_role("dialog", name="A tour in six stops")).to_be_visible()


def test_the_recording_chosen_last_is_shown(visit):
    page, late = visit("?present=1"), []
    expect(page.locator(".la-p-title")).to_contain_text("One text, written in two ways")
    page.wait_for_function(f"{STATE}.done")
    page.route("**/component_server/**", lambda route: route.continue_() if late else late.append(route))
    page.keyboard.press("Home")  # the first recording again, whose reply arrives late
    page.keyboard.press("End")
    page.keyboard.press("ArrowLeft")
    page.wait_for_function(f"{STATE}.run === 'recording-mismatch'")
    with page.expect_response("**/component_server/**"):
        late[0].continue_()
    page.wait_for_timeout(500)
    assert state(page)["run"] == "recording-mismatch"


def test_the_browser_draws_a_card_and_a_film(visit, tmp_path):
    page = visit()
    with page.expect_download() as card:
        page.get_by_role("button", name="share card").click()
    picture = tmp_path / "card.png"
    card.value.save_as(picture)
    head = picture.read_bytes()[:24]
    assert head[:8] == b"\x89PNG\r\n\x1a\n" and struct.unpack(">II", head[16:24]) == (1200, 630)
    assert card.value.suggested_filename.endswith(".png")
    with page.expect_download(timeout=30_000) as film:
        page.get_by_role("button", name="clip").click()
    film.value.save_as(tmp_path / "film.webm")
    assert (tmp_path / "film.webm").read_bytes()[:4] == b"\x1aE\xdf\xa3", "a Matroska file"


def test_acceptance_records_are_played(visit, tmp_path):
    page = visit()
    record = {
        "engine": "vllm", "mean_acceptance_length": 2.0, "draft_acceptance_rate": 1 / 3, "num_accepted_draft_tokens": 3,
        "acceptance_histogram": {"0": 1, "1": 1, "2": 1}, "num_draft_tokens": 9, "num_spec_steps": 3,
        "per_step_accepted": [0, 2, 1], "per_step_drafted": [3, 3, 3],
    }  # fmt: skip
    path = tmp_path / "records.jsonl"
    path.write_text(f"{json.dumps(record)}\n{json.dumps(record)}\n", encoding="utf-8")
    page.set_input_files(".la-home input", path)
    page.wait_for_function(f"{STATE}.run.startsWith('opened-') && {STATE}.t > 0.29")
    assert [lane["method"] for lane in state(page)["lanes"]] == ["vllm, text 1", "vllm, text 2"]
    assert state(page)["lanes"][0]["tokens"] == 6
    assert "without text and times" in page.locator(".la-statustext").inner_text()
    assert "3 rejected" in page.locator(".la-lane").first.inner_text() or page.locator(".la-hatched").count() > 0
    path.write_text(json.dumps({**record, "per_step_accepted": None, "per_step_drafted": None}), encoding="utf-8")
    page.set_input_files(".la-home input", path)
    page.wait_for_function(f"({STATE}.error || '').includes('nothing to play')")


def test_a_class_of_eight_writes_together(visit):
    page = visit()
    page.get_by_role("button", name="class of eight").click()
    lanes = page.locator(".la-c-lane")
    expect(lanes).to_have_count(16)
    expect(page.locator(".la-c-outcome")).to_contain_text("instead of")
    assert page.locator(".la-c-accepted").count() > 20, "drafts are seen"
    scrub = page.get_by_role("slider", name="time")
    scrub.evaluate("node => { node.value = 0; node.dispatchEvent(new Event('input')); }")
    assert page.locator(".la-c-words").all_inner_texts() == [""] * 16
    assert violations(page) == []


def test_the_outcome_is_shown_in_passes(visit):
    page = visit()
    race(page)
    page.wait_for_function(f"!{STATE}.playing")
    expect(page.locator(".la-big")).to_contain_text("passes instead of")
    expect(page.locator(".la-sub")).to_contain_text("naive's passes took")
    first = page.locator(".la-next-races button").first
    first.click()
    page.wait_for_function(f"{STATE}.run.startsWith('recording-')")


def test_a_chip_is_marked_and_names_its_settings(visit):
    page = visit()
    story, hot = (page.locator(f"#la-chip-{name}") for name in ("story", "hot"))
    expect(story).to_have_attribute("aria-pressed", "true")
    hot.click()
    page.wait_for_function(f"{STATE}.run === 'recording-hot'")
    expect(hot).to_have_attribute("aria-pressed", "true")
    expect(story).to_have_attribute("aria-pressed", "false")
    expect(page.locator(".la-statustext").first).to_contain_text("(temperature 1)")


def test_the_pass_is_a_drawer_that_moves_nothing_and_follows_the_playhead(visit):
    page = visit()
    page.wait_for_function(f"{STATE}.t > 0.02")
    page.locator("body").press("Space")  # so that the playhead does not reach the next pass before the click
    page.wait_for_function(f"!{STATE}.playing")
    place = "[scrollY + document.querySelector('.la-stage').getBoundingClientRect().top, document.querySelector('.la-stage').offsetWidth]"
    before = page.evaluate(place)
    page.get_by_role("button", name="open the pass").click()
    panel = page.get_by_role("region", name="Pass inspector")
    box = panel.bounding_box()
    assert box["x"] + box["width"] == 1440 and page.evaluate(place) == before
    time, title = state(page)["t"], panel.locator(".la-i-title").inner_text()
    panel.get_by_role("button", name="Next pass of this lane").click()
    page.wait_for_function(f"{STATE}.t > {time} && !{STATE}.playing")
    assert panel.locator(".la-i-title").inner_text() != title
    page.get_by_role("button", name="Previous pass", exact=True).first.evaluate("node => node.click()")
    expect(panel.locator(".la-i-title")).to_have_text(title)
    expect(page.locator(".la-pass.la-marked")).to_have_count(1)
    crumbs = panel.get_by_role("navigation", name="From the text to its token ids")
    assert crumbs.get_by_role("button").all_inner_texts()[0] == "text" and violations(page) == []
    crumbs.get_by_role("button", name="text").click()
    expect(panel).to_be_hidden()


def test_two_lanes_have_plain_names_and_more_lanes_have_methods(visit):
    page = visit()
    page.get_by_role("button", name="side by side").click()
    heads = page.locator("#la-race-timeline .la-lanehead")
    expect(heads.first).to_contain_text("one token per pass")
    expect(heads.last).to_contain_text("draft and verify")
    page.locator("#la-chip-generations").click()
    page.wait_for_function(f"{STATE}.run === 'recording-generations'")
    assert "draft and verify" not in " ".join(heads.all_inner_texts())


LINKS = sorted({
    link for lesson in pages() for part in lesson.parts if isinstance(part, str)
    for link in re.findall(r"\((\?(?:recording|prompt)=[^)]*)\)", part)
})  # fmt: skip


@pytest.mark.parametrize("link", daily(LINKS, 2))
def test_every_link_of_the_lessons_opens_the_race_it_names(visit, link):
    page, query = visit(link), dict(parse_qsl(link[1:]))
    if "recording" in query:
        page.wait_for_function(f"{STATE}.run.startsWith({json.dumps('recording-' + query['recording'])})")
        assert len(state(page)["lanes"]) >= 2
        return
    page.wait_for_function(f"{STATE}.status === 'asked'")
    assert page.get_by_label("Prompt", exact=True).input_value() == query["prompt"]
    settings = page.locator(".la-setting").all_inner_texts()
    assert settings[0] == f"{query['methods']} and naive" and all(
        f"k = {query[name]}" in settings for name in {"k"} & query.keys()
    )
    page.get_by_role("button", name="Run this race").click()
    page.wait_for_function(f"{STATE}.done && {STATE}.lanes.length === 2")
    assert [lane["method"] for lane in state(page)["lanes"]] == ["naive", query["methods"]]


def test_an_embedded_race_links_to_the_full_page(visit):
    page = visit("?recording=tale&embed")
    page.wait_for_function(f"{STATE}.run.startsWith('recording-tale')")
    assert page.locator("#la-prompt").is_hidden() and page.locator(".la-strip").is_visible()
    link = page.get_by_role("link", name="Lookahead: race it yourself")
    assert link.get_attribute("href").endswith("?recording=tale") and link.get_attribute("target") == "_blank"


def test_the_badge_measures_again(visit):
    page = visit()
    page.locator(".la-machine summary").click()
    page.get_by_role("button", name="measure again", exact=True).click()
    expect(page.locator(".la-machine")).to_contain_text("Measured again just now.")
    page.locator(".la-machine summary").click()
    assert race(page)["error"] is None


def test_the_lab_opens_with_measurements(visit):
    page = visit()
    page.get_by_role("tab", name="Lab", exact=True).click()
    expect(page.locator(".js-plotly-plot .legendtext").filter(has_text="measured on")).to_have_count(1)
    for section in ("How many at once?", "Draft length", "This machine"):
        page.get_by_role("tab", name=section, exact=True).click()
        shown = page.locator(".la-section").locator("visible=true").locator(".js-plotly-plot")
        expect(shown.first).to_be_visible()


def test_on_a_phone_errors_are_on_the_screen(visit):
    page = visit(viewport={"width": 390, "height": 844})
    page.get_by_label("Prompt", exact=True).fill("")
    page.wait_for_function("!document.querySelector('#la-race').disabled")
    page.get_by_role("button", name="Race", exact=True).click()
    expect(page.locator(".la-field-error").filter(has_text="type some text")).to_be_in_viewport(ratio=1)
