"""The running app in a real headless browser: race, stop, queue, bad input, lost updates."""

from __future__ import annotations

import json
import re
import time
from urllib.parse import urlencode

import pytest
from conftest import PATIENT_MS, daily
from playwright.sync_api import TimeoutError as TooLate
from prompts import ENDLESS

from lookahead import METHODS
from lookahead.measure import recordings
from lookahead.measure.scenarios import SCENARIOS
from lookahead.page.page import _card
from lookahead.trace import wire

pytestmark = [pytest.mark.browser, pytest.mark.xdist_group("browser-1"), pytest.mark.long]
STATE = "window.lookahead.state()"
EVENTS = """[...document.querySelectorAll('#la-race-timeline, #la-race-timeline *')].find(element => element.laTimeline)
    .laTimeline.log.events.map(event => JSON.stringify(event))"""
SHORT = "?" + urlencode(
    {"prompt": SCENARIOS[0].prompt, "max_new_tokens": 24}
)  # for tests in which the length of a race does not matter
# For tests that need a race of many seconds on any machine.
LONG = "?" + urlencode({"prompt": ENDLESS, "max_new_tokens": 1900, "methods": "self,lookahead,hybrid"})


def state(page):
    return page.evaluate(STATE)


def press_race(page):
    before = state(page)["run"]
    page.get_by_role("button", name="Race", exact=True).click()
    return before


def wait_done(page, before, timeout=PATIENT_MS):
    # The race of a link is done before it has run, and may arrive after the press of a button.
    over = f"(s => s.done && s.run !== {json.dumps(before)} && !s.run.startsWith('asked-'))({STATE})"
    try:
        page.wait_for_function(over, timeout=timeout)
    except TooLate as error:
        shown = {name: value for name, value in state(page).items() if name != "lanes"}
        buttons = page.locator("button:visible").all_inner_texts()
        raise AssertionError(f"after {before}: {shown}, buttons {buttons[:12]}") from error
    # New events are drawn with the playhead's next frame, which may be requested after this one.
    page.evaluate("""new Promise(done => requestAnimationFrame(function frame() {
        requestAnimationFrame(function frame() { done(); });
    }))""")
    return state(page)


def race(page):
    return wait_done(page, press_race(page))


def test_the_first_view_is_a_playing_recording(visit):
    page = visit()
    page.wait_for_function(f"{STATE}.playing && {STATE}.t > 0")
    shown = state(page)
    assert shown["run"] == "recording-story"
    assert shown["done"]
    assert page.locator(".la-statustext").get_by_text("Press Race to run it here").is_visible()


# The layout shifts without an input just before: [value, what moved].
MOVED = """new Promise(done => {
    const rect = ({left, top, width, height}) => [left, top, width, height].map(Math.round).join();
    const moved = ({node, previousRect, currentRect}) => `${node?.id || node?.className} ${rect(previousRect)} > ${rect(currentRect)}`;
    new PerformanceObserver(list => done(list.getEntries().filter(entry => !entry.hadRecentInput)
        .map(({value, sources}) => [value, sources.map(moved)]))).observe({type: 'layout-shift', buffered: true});
    setTimeout(() => done([]), 500);
})"""
PLACES = """['.la-head', '.la-strip', '.la-stage', '.la-chart'].map(name =>
    Math.round(document.querySelector(`#la-race-timeline ${name}`).getBoundingClientRect().top + scrollY))"""


def test_nothing_moves_during_a_visit(visit):
    page = visit()
    page.wait_for_function(f"{STATE}.playing && {STATE}.t > 0")
    places = [page.evaluate(PLACES)]
    assert places[0][-1] < 800, "the chart is on the first screen"
    page.locator("#la-chip-records").click()
    page.wait_for_function(f"{STATE}.run === 'recording-records'")
    places.append(page.evaluate(PLACES))
    race(page)
    places.append(page.evaluate(PLACES))
    page.locator("body").press("End")
    page.locator(".la-lanes .la-own").first.click()
    page.locator(".la-inspector").wait_for()
    places.append(page.evaluate(PLACES))
    page.get_by_role("button", name="Close the inspector").click()
    page.locator("#la-chip-generations").click()
    page.wait_for_function(f"{STATE}.lanes.length === 4")
    places.append(page.evaluate(PLACES))
    page.get_by_label("Prompt", exact=True).fill(ENDLESS)
    page.get_by_role("button", name="more", exact=True).click()
    page.get_by_label("new tokens, at most").fill("1900")
    page.get_by_role("button", name="more", exact=True).click()
    before = press_race(page)
    page.wait_for_function(f"{STATE}.run !== {json.dumps(before)} && {STATE}.received > 5")
    page.get_by_role("button", name="Stop", exact=True).click()
    page.wait_for_function(f"{STATE}.done")
    places.append(page.evaluate(PLACES))
    assert places == [places[0]] * len(places)
    shifts = page.evaluate(MOVED)
    assert sum(value for value, _ in shifts) < 0.02, sorted(shifts, reverse=True)[:5]


def test_the_form_dims_the_race_until_the_next_one(visit):
    page = visit(SHORT)
    race(page)
    page.get_by_label("Prompt", exact=True).fill("The dog")
    page.locator(".la-timeline.la-stale").wait_for()
    assert "press Race for the new settings" in page.inner_text(".la-statustext")
    assert page.locator(".la-chosen").count() == 0
    race(page)
    assert page.locator(".la-timeline.la-stale").count() == 0


def test_an_error_is_shown_under_its_field(visit):
    page = visit()
    page.get_by_role("button", name="more", exact=True).click()
    page.get_by_label("temperature").fill("-3")
    page.get_by_role("button", name="more", exact=True).click()
    page.get_by_role("button", name="Race", exact=True).click()
    error = page.locator("#la-field-temperature .la-field-error")
    error.wait_for()
    assert error.inner_text().startswith("temperature (0: greedy) is -3"), "in the words of the label"
    field = page.get_by_label("temperature")
    assert field.is_visible() and field.get_attribute("aria-invalid") == "true"
    assert not page.locator(".la-error").locator("visible=true").count()
    field.fill("0")
    page.wait_for_function("!document.querySelector('.la-field-error')")
    page.get_by_label("Prompt", exact=True).fill(" ")
    page.get_by_role("button", name="Race", exact=True).click()
    assert page.locator("#la-prompt .la-field-error").inner_text() == "Prompt is empty: type some text to continue."


def test_the_shown_race_needs_no_network(visit):
    page = visit()
    page.context.set_offline(True)
    page.locator("body").press("Home")
    page.wait_for_function(f"{STATE}.t === 0")
    page.locator("body").press("Space")
    page.wait_for_function(f"{STATE}.playing && {STATE}.t > 0")
    page.locator("body").press("End")
    page.get_by_role("button", name="open the pass").click()
    page.get_by_role("heading", name="The target’s probabilities").wait_for()
    page.get_by_role("button", name="failures").click()
    with page.expect_download():
        page.get_by_role("button", name="recording", exact=True).click()
    page.get_by_role("button", name="replay.html").click()
    page.locator(".la-export-status", has_text="The server did not reply").wait_for()
    page.context.set_offline(False)
    page.faults[:] = [fault for fault in page.faults if "ERR_INTERNET_DISCONNECTED" not in fault]


def test_a_race_runs_and_both_lanes_have_the_same_text(visit):
    page = visit()
    shown = race(page)
    naive, draft = shown["lanes"]
    assert naive["method"] == "naive"
    assert draft["method"] == "hybrid"
    assert naive["text"] == draft["text"]
    assert naive["tokens"] == draft["tokens"] > 100
    assert naive["finished"]
    assert draft["finished"]
    assert shown["received"] == shown["expected"]
    assert shown["speedup"] == pytest.approx(naive["clock_s"] / draft["clock_s"], rel=1e-6)
    events = [wire.EVENT.validate_json(event) for event in page.evaluate(EVENTS)]  # all events match the schema
    assert {event.kind for event in events} >= {"begin", "step", "end"} and len(events) == shown["received"]
    page.locator("body").press("End")
    assert naive["text"].strip()[-30:].split("\n")[-1] in page.locator(".la-lanes .la-text").inner_text()
    assert re.fullmatch(r"\d+ passes instead of \d+", page.locator(".la-big").inner_text())
    assert re.match(r"[0-9.]+x", page.locator(".la-ratio").inner_text())
    assert page.locator(".la-verdict").is_visible()
    assert "tokens per pass" in page.locator(".la-verdict").inner_text()
    assert "identical" in page.locator(".la-match").inner_text()


def test_the_page_and_the_api_have_the_same_text(visit, address):
    from gradio_client import Client

    page = visit(SHORT)
    shown = race(page)
    client = Client(address, verbose=False)
    trace = client.predict(SCENARIOS[0].prompt, "draft", 24, "auto", 0.0, 0, api_name="/race")
    texts = ["".join(p for step in lane["steps"] for p in step["pieces"]) for lane in trace["lanes"]]
    assert texts[0] == texts[1] == shown["lanes"][0]["text"]
    assert {m["name"] for m in client.predict(api_name="/methods")} >= {"naive", "draft", "ngram"}


def test_the_api_advises_and_gives_links(visit, address):
    from gradio_client import Client
    from gradio_client.exceptions import AppError

    client = Client(address, verbose=False)
    advice = client.predict(SCENARIOS[0].prompt, 48, api_name="/advise")
    assert advice["sentence"].startswith(("Yes: ", "Don't: ")) and advice["options"]
    assert {option["method"] for option in advice["options"]} >= {"draft", "ngram", "suffix"}
    link = client.predict("Once & upon", "draft", "4", 0.5, api_name="/link")
    assert link.startswith(address)
    page = visit(link.removeprefix(address).lstrip("/"))
    page.wait_for_function(f"{STATE}.status === 'asked'")
    assert page.get_by_label("Prompt", exact=True).input_value() == "Once & upon"
    for wrong in (("a", "telepathy", "auto", 0.0), ("a", "draft", "minus", 0.0), ("a", "draft", "auto", -3.0)):
        with pytest.raises(AppError):
            client.predict(*wrong, api_name="/link")
    with pytest.raises(AppError, match="prompt is empty"):
        client.predict(" ", 48, api_name="/advise")


def test_a_link_has_a_preview_card(address):
    from urllib.request import urlopen

    with urlopen(f"{address}/card.png") as response:
        assert response.headers["content-type"] == "image/png" and response.read(4) == b"\x89PNG"
    with urlopen(address) as response:
        html = response.read().decode()
    assert 'property="og:image" content="card.png"' in html and "One model writes the same text twice" in html
    assert _card({"SPACE_HOST": "me.hf.space"})["thumbnail"] == "https://me.hf.space/card.png"


@pytest.mark.timed
def test_stop_stops_at_once_and_the_next_race_runs(visit):
    page = visit()
    page.get_by_role("button", name="more").click()
    page.get_by_label("new tokens, at most").fill("800")
    before = press_race(page)
    page.wait_for_function(f"{STATE}.run !== {json.dumps(before)} && {STATE}.received > 20")
    page.evaluate(
        f"""() => {{ const t0 = performance.now(); document.querySelector('#la-stop').click();
        const watch = () => {STATE}.done ? (window.stoppedAfter = performance.now() - t0) : setTimeout(watch, 5); watch(); }}"""
    )
    page.wait_for_function("window.stoppedAfter")
    assert page.evaluate("window.stoppedAfter") < 500
    assert state(page)["status"] == "stopped"
    assert page.locator(".la-statustext").get_by_text("Stopped by you").is_visible()
    received, before = state(page)["received"], -1
    while received > before:  # the page requests the steps that were computed until the server stopped
        time.sleep(1)
        received, before = state(page)["received"], received
    assert received < 600, "the server computes no further"
    page.get_by_label("new tokens, at most").fill("40")
    page.wait_for_function("!document.querySelector('#la-race').disabled")
    assert race(page)["lanes"][1]["tokens"] == 40


def test_a_second_tab_queues_and_both_finish(visit):
    first, second = visit(SHORT), visit(SHORT)
    for page, prompt in ((first, "Tom had a red kite and"), (second, "The old woman by the sea")):
        page.get_by_label("Prompt", exact=True).fill(prompt)
    before = [press_race(first), press_race(second)]
    for page, run in zip((first, second), before, strict=True):
        shown = wait_done(page, run)
        assert shown["lanes"][0]["text"] == shown["lanes"][1]["text"]
        assert all(lane["finished"] for lane in shown["lanes"])
    assert state(first)["lanes"][0]["text"] != state(second)["lanes"][0]["text"]


def test_a_waiting_visitor_sees_the_queue_and_can_leave(visit):
    first, second = visit(LONG), visit(SHORT)
    before = press_race(first)
    first.wait_for_function(f"{STATE}.run !== {json.dumps(before)} && {STATE}.received > 20")
    press_race(second)
    second.locator(".la-statustext", has_text="Waiting: one run is before yours").wait_for()
    assert [lane["method"] for lane in state(second)["lanes"]] == ["naive", "hybrid"]
    second.get_by_role("button", name="Stop", exact=True).click()
    second.locator(".la-statustext", has_text="Stopped by you after 0 tokens").wait_for()
    first.get_by_role("button", name="Stop", exact=True).click()
    second.wait_for_function("!document.querySelector('#la-race').disabled")
    second.get_by_label("Prompt", exact=True).fill("The dog")
    assert race(second)["lanes"][1]["finished"]


def test_nothing_is_lost_if_updates_are_dropped(visit):
    page = visit()
    page.evaluate("window.lookahead.drop = 0.3")
    shown = race(page)
    page.evaluate("window.lookahead.drop = 0")
    assert shown["received"] == shown["expected"]
    assert shown["lanes"][0]["text"] == shown["lanes"][1]["text"]
    assert all(lane["tokens"] > 100 for lane in shown["lanes"])


def test_every_scenario_and_method_races(visit):
    page = visit()
    page.get_by_role("button", name="more", exact=True).click()
    for scenario in daily(SCENARIOS):
        page.locator(f"#la-chip-{scenario.id}").click()
        page.wait_for_function(f"{STATE}.run === 'recording-{scenario.id}'")
        page.get_by_label("new tokens, at most").fill("12")  # a scenario sets its own length
        shown = race(page)
        assert [lane["method"] for lane in shown["lanes"]] == ["naive", *scenario.methods]
        assert len({lane["text"] for lane in shown["lanes"]}) == 1, scenario.id
        assert shown["lanes"][0]["tokens"] > 0
    page.locator(f"#la-chip-{SCENARIOS[0].id}").click()
    page.wait_for_function(f"{STATE}.run === 'recording-{SCENARIOS[0].id}'")
    page.get_by_label("new tokens, at most").fill("24")
    for method in daily(METHODS[1:]):
        page.get_by_label("Method", exact=True).click()
        page.get_by_role("option", name=re.compile(f"^{method}:")).click()
        shown = race(page)
        assert shown["lanes"][1]["method"] == method
        assert shown["lanes"][0]["text"] == shown["lanes"][1]["text"], method


# Successive messages differ, because the test waits for each.
BAD = [
    ("Prompt", "", "prompt is empty"),
    ("Prompt", "word " * 20_000, "shorten it"),
    ("Prompt", "   ", "prompt is empty"),
    ("Prompt", "Once " * 1100, "shorten it"),
    ("Prompt", "a\u0007b", "control character"),
    ("new tokens, at most", "0", "max_new_tokens is 0"),
    ("new tokens, at most", "-1", "max_new_tokens is -1"),
    ("new tokens, at most", "1000000000", "max_new_tokens is 1000000000"),
    ("new tokens, at most", "1.5", "max_new_tokens is 1.5"),
    ("temperature (0: greedy)", "-1", "temperature is -1"),
    ("new tokens, at most", "", "max_new_tokens"),
    ("temperature (0: greedy)", "", "temperature"),
    ("top-p (1: off)", "0", "top_p"),
    ('draft length k, or "auto"', "many", "k is 'many'"),
    ('draft length k, or "auto"', "-3", "k is -3"),
    ("seed", "-5", "seed"),
]


def test_bad_input_shows_a_message_and_loses_nothing(visit):
    page = visit(SHORT)
    page.get_by_role("button", name="more").click()
    good = race(page)
    for label, value, word in BAD:
        box = page.get_by_label(label, exact=True)
        kept = box.input_value()
        box.fill(value)
        page.wait_for_function("!document.querySelector('#la-race').disabled")
        with page.expect_request("**/queue/join*"):  # after this, the fields may be filled again
            page.get_by_role("button", name="Race", exact=True).click()
        page.wait_for_function(f"({STATE}.error || '').includes({json.dumps(word)})")
        shown = state(page)
        assert shown["run"] == good["run"], "the shown race stays"
        assert "Traceback" not in page.locator("body").inner_text()
        box.fill(kept)
    page.get_by_label("Prompt", exact=True).fill("Zo\u00eb \U0001f438 said: na\u00efve")
    shown = race(page)
    assert shown["error"] is None, "a good run clears the message"
    assert shown["lanes"][0]["text"] == shown["lanes"][1]["text"]


def test_hostile_text_is_only_text(visit):
    page = visit(SHORT)
    page.get_by_label("Prompt", exact=True).fill(
        '</script><img src=x onerror="window.owned=1"><b>bold</b> \u202e \u200d ' + "e\u0301" * 50
    )
    race(page)
    assert page.evaluate("window.owned") is None
    assert page.locator(".la-lanes img, .la-lanes b").count() == 0
    assert "<b>bold</b>" in page.locator(".la-lanes .la-text").first.inner_text()


@pytest.mark.parametrize(
    "options", [{}, {"viewport": {"width": 390, "height": 844}, "has_touch": True}], ids=["desktop", "phone"]
)
def test_it_fits_the_screen(visit, options):
    page = visit(**options)
    race(page)
    for scheme in ("light", "dark"):
        page.emulate_media(color_scheme=scheme)
        assert page.evaluate("document.documentElement.scrollWidth <= window.innerWidth")
        if not options:
            bottom = page.locator(".la-transport").bounding_box()
            assert bottom["y"] + bottom["height"] <= 900, "lanes and transport are above the fold"


def test_playback_by_keyboard(visit):
    page = visit(SHORT)
    race(page)
    body = page.locator("body")
    page.evaluate("document.activeElement.blur()")
    body.press("Home")
    page.wait_for_function(f"{STATE}.t === 0")
    body.press("ArrowRight")
    step = state(page)["t"]
    assert step > 0
    body.press("ArrowRight")
    assert state(page)["t"] > step
    body.press("ArrowLeft")
    assert state(page)["t"] == pytest.approx(step)
    rate = state(page)["rate"]
    body.press("]")
    assert state(page)["rate"] == 2 * rate
    body.press("End")
    assert state(page)["t"] == pytest.approx(max(lane["clock_s"] for lane in state(page)["lanes"]), abs=1e-6)


def test_four_lanes_on_one_prompt(visit):
    page = visit()
    page.get_by_role("button", name="more", exact=True).click()
    page.get_by_label("new tokens, at most").fill("48")
    box = page.get_by_label("further lanes, up to 2")
    for name in ("ngram", "lookahead"):
        box.click()
        page.get_by_role("option", name=name, exact=True).click()
    box.press("Escape")
    shown = race(page)
    assert [lane["method"] for lane in shown["lanes"]] == ["naive", "ngram", "lookahead", "hybrid"]
    assert len({lane["text"] for lane in shown["lanes"]}) == 1
    page.locator(".la-sub", has_text="hybrid compared with naive").wait_for()


def test_a_chip_leaves_a_running_races_form_alone(visit):
    page = visit(LONG)
    prompt = page.get_by_label("Prompt", exact=True)
    text, before = prompt.input_value(), press_race(page)
    page.wait_for_function(f"{STATE}.run !== {json.dumps(before)} && {STATE}.received > 5")
    page.locator("#la-chip-tale").click()
    page.wait_for_timeout(300)
    assert prompt.input_value() == text and not state(page)["done"]
    page.get_by_role("button", name="Stop", exact=True).click()
    page.wait_for_function(f"{STATE}.done")
    page.get_by_role("button", name="your own", exact=True).click()
    assert prompt.input_value() == text, "to be typed over, not lost"
    assert page.evaluate("document.activeElement.matches('#la-prompt textarea')")
    page.locator("#la-chip-tale").click()
    page.wait_for_function(f"{STATE}.run === 'recording-tale'")
    assert prompt.input_value().startswith("Write a bedtime story")


def test_a_chip_may_add_lanes(visit):
    page = visit()
    page.locator("#la-chip-generations").click()
    page.wait_for_function(f"{STATE}.run === 'recording-generations'")
    recorded = recordings.read("generations").lanes
    assert len(recorded) == 4 and [lane["method"] for lane in state(page)["lanes"]] == [
        lane.method for lane in recorded
    ]
    page.get_by_role("button", name="more", exact=True).click()
    assert page.locator("#la-also .token").all_inner_texts() == ["mtp", "eagle"]
    page.locator("body").press("End")
    page.wait_for_function(f"{STATE}.t > 0")


def test_a_chip_shows_its_recording_and_a_link_brings_it_back(visit):
    page = visit()
    page.locator("#la-chip-records").click()
    page.wait_for_function(f"{STATE}.run === 'recording-records'")
    assert state(page)["lanes"][1]["method"] == "ngram"
    again = visit("?recording=records&pass=5")
    again.wait_for_function(f"window.lookahead && {STATE}.run === 'recording-records-5'")
    assert not state(again)["playing"] and "pass 5 of" in again.inner_text(".la-passline")
    assert again.get_by_label("Prompt", exact=True).input_value().startswith("Name: Anna")
    for moment, shown in (("0.0123", 0.0123), ("-1", 0), ("nonsense", 0)):
        linked = visit(f"?recording=records&time={moment}")
        linked.wait_for_function(f"window.lookahead && {STATE}.run === 'recording-records' && !{STATE}.playing")
        assert state(linked)["t"] == pytest.approx(shown), "the moment that was copied"


def test_a_link_fills_the_form_without_a_run(visit):
    page = visit()
    page.get_by_role("button", name="more", exact=True).click()
    page.get_by_label("Prompt", exact=True).fill("A dog & a cat #1 <b>")
    page.get_by_label("new tokens, at most").fill("16")
    page.get_by_label("temperature (0: greedy)").fill("0.7")
    shown = race(page)
    query = state(page)["link"]
    again = visit(query)
    again.wait_for_function("document.querySelector('#la-prompt textarea')?.value.startsWith('A dog')")
    assert again.get_by_label("Prompt", exact=True).input_value() == "A dog & a cat #1 <b>"
    again.get_by_role("button", name="more", exact=True).click()
    assert again.get_by_label("new tokens, at most").input_value() == "16"
    assert state(again)["status"] == "asked" and state(again)["lanes"] == []
    assert again.locator(".la-setting").all_inner_texts() == [
        "hybrid and naive",
        "16 new tokens at most",
        "temperature 0.7",
    ]
    assert race(again)["lanes"][0]["text"] == shown["lanes"][0]["text"]


@pytest.mark.parametrize("query", ["prompt=a&methods=telepathy", "recording=../../../etc/passwd"])
def test_a_wrong_link_shows_a_message(visit, query):
    page = visit(f"?{query}")
    page.wait_for_function(f"window.lookahead && ({STATE}.error || '').includes('choose one of')")
    assert "Traceback" not in page.inner_text("body")
    assert state(page)["run"] == "recording-story", "the page still works"


def test_exports_can_be_opened_again(visit, tmp_path):
    page = visit(SHORT)
    shown = race(page)
    files = {}
    for name, ending in (("recording", ".json"), ("table", ".csv"), ("replay.html", ".html")):
        with page.expect_download() as waiting:
            page.get_by_role("button", name=name, exact=True).click()
        files[name] = tmp_path / waiting.value.suggested_filename
        assert files[name].suffix == ending
        waiting.value.save_as(files[name])
    assert files["table"].read_bytes().startswith(b"\xef\xbb\xbflane,method,pass")
    assert "timeline_timeline_js" in files["replay.html"].read_text(encoding="utf-8")
    other = visit()
    other.set_input_files(".la-home input", files["recording"])
    other.wait_for_function(f"{STATE}.run.startsWith('opened-')")
    assert [lane["text"] for lane in state(other)["lanes"]] == [lane["text"] for lane in shown["lanes"]]
    assert state(other)["speedup"] == pytest.approx(shown["speedup"], rel=1e-4)  # files have tenths of microseconds
    broken = tmp_path / "broken.json"
    broken.write_text(files["recording"].read_text(encoding="utf-8").replace('"verify"', '"vertigo"'), encoding="utf-8")
    other.set_input_files(".la-home input", broken)
    other.wait_for_function(f"({STATE}.error || '').includes('give a file that Lookahead saved')")


def test_figures_are_drawn_when_opened(visit):
    page = visit()
    assert page.locator(".js-plotly-plot").count() == 0
    page.get_by_text("figures of this race").click()
    page.wait_for_function("document.querySelectorAll('.js-plotly-plot').length === 6")


def test_a_closed_tab_frees_the_queue(visit, chromium, address):
    context = chromium.new_context()
    context.set_default_timeout(PATIENT_MS)
    gone = context.new_page()
    gone.goto(address + LONG)
    gone.wait_for_function("window.lookahead && window.lookahead.state().run")
    gone.get_by_role("button", name="Race", exact=True).click()
    gone.wait_for_function(f"{STATE}.run !== 'recording-story' && {STATE}.received > 10")
    context.close()
    start = time.monotonic()
    page = visit(SHORT)
    shown = race(page)
    assert time.monotonic() - start < 30
    assert shown["lanes"][1]["finished"]
