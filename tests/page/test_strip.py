"""The pass in slow motion: the strip at a given time, the slow playhead, and both on the page."""

import pytest
from playwright.sync_api import expect
from test_page_access import violations
from test_timeline import blank, raced, seek  # noqa: F401  (`page` asks for `blank`)

pytestmark = pytest.mark.browser

SCENE = """t => { const log = full(); const lane = log.lanes.at(-1);
  return modules.strip.sceneAt(lane, P.frameAt(log, t).lanes.at(-1), t); }"""


@pytest.mark.parametrize(
    ("t", "phase", "index"),
    [
        (0.002, "draft", 1),
        (0.01, "verify", 1),
        (0.02, "accept", 1),
        (0.021, "draft", 2),
        (0.04, "accept", 2),
        (0.05, "accept", 2),
    ],
)
def test_a_scene_depends_only_on_the_time(page, t, phase, index):
    scene = page.evaluate(SCENE, t)
    assert (scene["phase"], scene["index"]) == (phase, index)


def test_captions_of_the_phases(page):
    captions = "p => modules.strip.caption(modules.strip.partsOf(full().lanes.at(-1).steps[p[0]]), p[1])"
    assert page.evaluate(captions, [1, "draft"]) == ["1 draft", "the drafter proposes 4 tokens"]
    assert page.evaluate(captions, [1, "verify"]) == ["2 verify", "the target verifies all 4 in one pass"]
    assert page.evaluate(captions, [1, "accept"]) == [
        "3 accept",
        "2 of 4; instead of the third, the target writes its own token",
    ]
    assert page.evaluate(captions, [2, "accept"]) == ["3 accept", "all 4 are accepted, and the target adds one more"]
    last = "modules.strip.caption({drafted: [{kind: 'accepted'}, {kind: 'accepted'}], added: []}, 'kept')"
    assert page.evaluate(last) == ["3 accept", "all 2 are accepted, and the text ends"]


def test_the_strip_draws_boxes_marks_and_the_targets_own_token(page):
    raced(page, 0.02)
    columns = page.locator(".la-s-column")
    assert columns.locator(".la-s-box").all_inner_texts() == [" a", " b", " x", " y"]
    marks = ["✓ accepted", "✓", "✕ rejected", "· not tested"]
    assert columns.locator(".la-s-mark").all_inner_texts() == marks, "the first of each state has its name"
    assert [text for text in columns.locator(".la-s-own").all_inner_texts() if text] == [" c"], "below the rejected one"
    assert page.locator(".la-s-past").inner_text() == "Once"
    seek(page, 0.002)
    assert page.locator(".la-s-column:not(.la-s-unseen)").count() == 2, "half of the drafting is over"
    expect(page.locator(".la-s-mark").first).to_be_hidden()


def test_the_end_of_a_text_has_no_half_character(page):
    ends = page.evaluate("[1, 2, 3, 9].map(length => modules.dom.ending('a🐢b', length))")
    assert ends == ["b", "b", "🐢b", "a🐢b"]


SLOW = """live => { const log = full(); log.live = live; const head = new modules.playhead.Playhead(log, {moved() {}, ticked() {}});
  head.rate = 1; const out = []; for (const t of [0, 0.02, 0.041]) { head.t = t; out.push(head.slowed && head.slowed.readerSeconds); } return out; }"""


def test_a_recording_begins_in_slow_motion_and_a_live_race_does_not(page):
    assert page.evaluate(SLOW, False) == [2, 2, None]
    assert page.evaluate(SLOW, True) == [None, None, None]


def test_one_pass_takes_two_seconds_live_too(page):
    script = """() => { const log = full(); log.live = true; const head = new modules.playhead.Playhead(log, {moved() {}, ticked() {}});
      head.passByPass(); return [head.onePass, head.teaching, head.slowed.readerSeconds, P.RATES[0]]; }"""
    assert page.evaluate(script) == [True, False, 2, 1 / 64]


ARRIVAL_S = 10


def test_a_draft_a_verification_and_a_rejection_are_shown_within_ten_seconds(visit):
    shown = visit()
    shown.evaluate("""() => { window.phases = new Set(); const strip = document.querySelector('.la-strip');
      const look = () => { const {phase} = strip.querySelector('.la-s-boxes').dataset;
        if (phase) window.phases.add(phase); if (strip.querySelector('[data-kind="rejected"]')) window.phases.add('rejected'); };
      new MutationObserver(look).observe(strip, {subtree: true, childList: true, attributes: true}); look(); }""")
    shown.wait_for_function(
        "['draft', 'verify', 'accept', 'rejected'].every(phase => window.phases.has(phase))", timeout=1000 * ARRIVAL_S
    )
    box = shown.locator(".la-strip").bounding_box()
    assert box["y"] >= 0 and box["y"] + box["height"] <= shown.viewport_size["height"], "without scrolling"


@pytest.mark.parametrize("size", [(1440, 900), (683, 512), (820, 1180), (390, 844)])
def test_the_strip_is_on_the_first_screen_and_nothing_covers_it(visit, size):
    shown = visit(viewport={"width": size[0], "height": size[1]})
    shown.wait_for_selector(".la-s-column")
    covered = shown.evaluate("""() => { const strip = document.querySelector('.la-s-caption').getBoundingClientRect();
      const at = document.elementFromPoint(strip.left + 20, strip.bottom + 20); return !at?.closest('.la-strip'); }""")
    assert not covered
    assert shown.evaluate("document.documentElement.scrollWidth") <= size[0]


def test_one_pass_asks_for_the_outcome_before_it_is_shown(page):
    raced(page, 0)
    height, question = (
        page.locator(".la-strip").bounding_box()["height"],
        page.get_by_role("group", name="The draft is"),
    )
    page.get_by_role("button", name="one pass").click()
    page.click(".la-play")
    question.wait_for()
    assert question.get_attribute("aria-label") == "The draft is “ a b x y”: how many of the 4 are accepted?"
    assert question.get_by_role("button").all_inner_texts() == ["0", "1", "2", "3", "4"]
    state = page.evaluate("lookahead.state()")
    assert not state["playing"] and 0.0199 < state["t"] < 0.02, "a moment before the outcome"
    expect(page.locator(".la-s-mark").first).to_be_hidden()
    assert "accepted" not in page.inner_text(".la-passline")
    assert page.inner_text(".la-s-caption").split() == ["Predict", "how", "many", "of", "the", "4", "are", "accepted?"]
    assert [rule for rule, *_ in violations(page) if rule != "label"] == [], "the fake form has no label"
    page.keyboard.press("3")
    caption = page.locator(".la-s-caption")
    expect(caption).to_contain_text("Not right, you chose 3: 2 of 4 accepted, because token 3 is rejected.")
    assert page.inner_text(".la-timeline [aria-live]") == caption.inner_text().split("accept ", 1)[1].strip()
    expect(page.locator(".la-s-mark").first).to_be_visible()
    assert question.is_hidden() and page.evaluate("lookahead.state().playing")
    assert page.locator(".la-strip").bounding_box()["height"] == height
    question.wait_for()
    page.keyboard.press("Escape")
    expect(page.locator(".la-s-caption")).to_contain_text("all 4 are accepted, and the target adds one more")
    assert question.is_hidden(), "skipped"


def test_the_question_is_skipped_by_play_and_forgotten_by_a_seek(page):
    raced(page, 0)
    page.get_by_role("button", name="one pass").click()
    page.click(".la-play")
    question = page.get_by_role("group", name="The draft is")
    question.wait_for()
    page.click(".la-play")
    expect(page.locator(".la-s-caption")).to_contain_text("2 of 4; instead of the third")
    seek(page, 0.001)
    page.click(".la-play")
    question.wait_for()
    question.get_by_role("button", name="2 tokens accepted").click()
    expect(page.locator(".la-s-caption")).to_contain_text("Right: 2 of 4 accepted")


def test_an_embedded_race_asks_nothing(page):
    raced(page, 0)
    page.evaluate("document.querySelector('.la-timeline').classList.add('la-embedded')")
    page.evaluate(
        "document.querySelector('.la-teach + .la-button').click(); document.querySelector('.la-play').click()"
    )
    page.wait_for_function("lookahead.state().t > 0.021")
    assert page.locator(".la-question").is_hidden()
