"""The teacher's plan: its file, its numbers, and every frame of all sessions on the page of a projector."""

import math
import re

import pytest
from playwright.sync_api import expect
from test_page import STATE, state
from test_page_access import violations

from lookahead.core import theory
from lookahead.measure import recordings
from lookahead.page.learn import deck
from lookahead.page.learn.lessons import LessonError

SESSIONS = deck.sessions()
FRAMES = {f"{name}-{i}": frame for name, session in SESSIONS.items() for i, frame in enumerate(session.frames, 1)}
DIFFERENT = next(frame.title for frame in FRAMES.values() if frame.compare)  # the first of several
P, Q, CORRECTED = (0.5, 0.3, 0.2), (0.2, 0.7, 0.1), 0.4  # the example of cat, dog and fox, and its rejections
VALID = "sessions:\n  '1':\n    title: One\n    minutes: 3\n    frames:\n      - {title: A, minutes: 3, notes: N, %s}\n"


# ------------------------------------------------------------------ the file


@pytest.mark.parametrize(("fields", "expected"), [
    ("figure: weights, quiz: 03-rejection", r"frames\.0 .*give one of recording, figure"),
    ("figure: unknown", r"frames\.0\.figure .*weights"),
    ("quiz: teacher", r"no lesson of this name with a quiz"),
    ("recording: unknown", r"frames\.0\.recording .*choose one of"),
    ("recording: story, at: 1000", r"the recording has 36 passes"),
    ("recording: story, title: 'Why?'", r"title is given twice"),
    ("question: Why", r"give an answer"),
    ("figure: weights, answer: Because", r"give an answer to a question and to compare, and only to these"),
    ("figure: weights, minute: 3", r"frames\.0\.minute .*Extra inputs"),
    ("compare: [{name: A, text: B}, {name: C}], answer: D", r"frames\.0\.compare\.1 .*either a text or a recording"),
])  # fmt: skip
def test_an_invalid_frame_is_refused_with_file_and_field(fields, expected):
    with pytest.raises(LessonError, match=rf"(?s)deck\.yaml.*{expected}"):
        deck.fields_of(deck.Deck, VALID % fields, "deck.yaml")


def test_minutes_must_add_up():
    text = (VALID % "figure: weights").replace("minutes: 3\n", "minutes: 4\n")
    with pytest.raises(LessonError, match=r"sessions\.1 .*3\.0 minutes in total, not 4"):
        deck.fields_of(deck.Deck, text, "deck.yaml")


def test_the_short_session_repeats_frames_of_the_others():
    titles = [frame.title for name in ("1", "2") for frame in SESSIONS[name].frames]
    assert {frame.title for frame in SESSIONS["short"].frames} <= {*titles}


def test_there_are_two_sessions_a_short_one_and_eight_misconceptions():
    assert {name: session.minutes for name, session in SESSIONS.items()} == {"1": 50, "2": 50, "short": 25}
    for session in SESSIONS.values():
        titles = [frame.title for frame in session.frames]
        assert len({*titles}) == len(titles) >= 12
        assert session.starts()[-1] + session.frames[-1].minutes == session.minutes
    corrected = [frame.corrects for name in ("1", "2") for frame in SESSIONS[name].frames if frame.corrects]
    assert len({*corrected}) == len(corrected) == 8
    assert all(text in deck.plan_html("misconceptions") for text in corrected)


@pytest.mark.parametrize("name", FRAMES)
def test_a_frame_has_plain_short_sentences(name):
    frame = FRAMES[name]
    for text in (frame.title, frame.question or "", frame.answer, frame.notes, frame.corrects):
        assert not re.search(r"[*`!\[\]]", text)
        for sentence in re.split(r"(?<=[.?:])\s+", text):
            assert len(sentence.split()) <= 20, sentence


def answer(title):
    return next(frame.answer for frame in FRAMES.values() if frame.title == title)


def test_the_numbers_of_the_answers():
    tokens = theory.expected_tokens(0.3, 4)
    assert f"= {tokens:.2f} tokens per pass" in answer("One calculation")
    assert f"{tokens:.2f} / 1.52 = {tokens / 1.52:.2f}" in answer("One calculation")
    assert f"1.3 / 1.13 = {theory.expected_tokens(0.3, 1) / 1.13:.2f}" in answer("One calculation")
    assert f"= {sum(p * p for p in P):.2f}" in answer("Two draws from one distribution")
    assert f"= {sum(p * q for p, q in zip(P, Q, strict=True)):.2f}" in answer("A rule that compares two draws")
    assert f"0.3 / 0.7 = {0.3 / 0.7:.2f}" in answer("The acceptance probability")
    assert f"= {sum(map(min, P, Q)):.1f}" in answer("The overlap")
    wrong = [min(p, q) + CORRECTED * p for p, q in zip(P, Q, strict=True)]
    assert f"= {wrong[1]:.2f}" in answer("A correction that is drawn from p")
    residual = [max(0, p - q) / CORRECTED for p, q in zip(P, Q, strict=True)]
    assert "{:.2f}, {:.0f}, {:.2f}".format(*residual) in answer("The residual")
    bug = next(frame.compare for frame in FRAMES.values() if frame.title.endswith("Bug 2"))
    assert [re.findall(r"[\d.]+", side.text) for side in bug] == [[f"{x:.2f}" for x in shares] for shares in (P, wrong)]
    assert f"0.2 / 0.5 = {0.2 / 0.5}" in answer("Exit question on sampling")
    for title, noise in (
        ("The same noise for both models", (0.2, 1.5, -0.3)),
        ("The same models with other noise", (1.2, 0.3, 0.1)),
    ):
        question = next(frame.question for frame in FRAMES.values() if frame.title == title)
        sums = [math.log(x) + n for xs in (P, Q) for x, n in zip(xs, noise, strict=True)]
        assert [float(x) for x in re.findall(r"-?\d\.\d\d", question)] == pytest.approx(sums, abs=0.0051)


def test_the_recordings_are_as_the_notes_describe():
    def step(scenario, number):
        return recordings.read(scenario).lanes[-1].verified[number - 1]

    assert [step("story", n).accepted for n in (2, 6, 9)] == [1, 0, 4]
    assert [len(step("story", n).pieces) for n in (2, 6, 9)] == [2, 1, 5]
    assert (step("story", 2).pieces[-1], step("story", 6).pieces[-1]) == (" The", " around")
    assert step("records", 16).draft.pieces == ["Name", ":", " Jack", "\n"] and step("records", 16).accepted == 4
    assert (step("hot", 2).pieces, step("hot", 2).draft.pieces) == (["ver", "se"], ["ver", "ke"])
    good, wrong = (recordings.read(name).lanes[-1] for name in ("same-text", "same-text-wrong-draft"))
    counts = (
        f"{len(good.tokens)} tokens take {len(good.verified)} passes on one side and {len(wrong.verified)} on the other"
    )
    assert good.tokens == wrong.tokens and counts in answer(DIFFERENT)


# ------------------------------------------------------------------ on a projector

FIGURES = {
    "weights": "memory-bound", "02-draft-and-verify": "quick", "matching": "words read", "costs": "tokens for",
    "overlap": "throw 200 dice", "09-break-it": "words are in the cache",
}  # fmt: skip
HIDDEN = ".la-big, .la-match, .la-ratio, .la-s-caption, .la-s-mark, .la-s-own, .la-hung"
SEEN = f"[...document.querySelectorAll('{HIDDEN}')].filter(node => node.checkVisibility({{visibilityProperty: true}}) && node.textContent).length"


def minutes(clock):
    whole, seconds = clock.split(":")
    return int(whole) + int(seconds) / 60


def assert_stage(page, frame):
    """Assert that the page shows the frame's stage and nothing else."""
    expect(page.locator(".la-p-title")).to_have_text(frame.title)
    panel = page.locator(".la-p-panel")
    assert page.locator(".la-stage").is_visible() == (frame.kind == "recording") != panel.is_visible()
    if frame.kind == "recording":
        page.wait_for_function(f"{STATE}.run === 'recording-{frame.recording}'")
        number = frame.pass_number()
        page.wait_for_function(f"{STATE}.playing === {str(not number).lower()}")
        if number:
            ends = recordings.read(frame.recording).lanes[-1].verified[: number - frame.hide]
            page.wait_for_function(f"{STATE}.t >= {0.999 * sum(step.seconds for step in ends)}")
        assert bool(page.evaluate(SEEN)) != frame.hide
        return
    assert not state(page)["playing"]
    shown = panel.inner_text()
    if frame.kind == "question":
        assert shown.split() == frame.question.split()
    elif frame.kind == "compare":
        for side in frame.compare:
            assert side.name in shown and (side.text or "".join(side.passes())).strip() in shown
    elif frame.kind == "figure":
        assert FIGURES[frame.figure] in shown
    else:
        assert {"guess": "Will it be accepted?", "cost": "How many one-row passes"}.get(frame.kind, frame.kind) in (
            shown if frame.kind != "quiz" else "quiz"
        )
        if frame.kind == "quiz":
            assert frame._widget().question == panel.locator("legend").inner_text()
    assert not frame.answer or frame.answer.split("\n")[0] not in shown


@pytest.mark.browser
@pytest.mark.parametrize("name", ["1", "2"])  # the short session repeats their frames
def test_every_frame_shows_its_stage_at_its_time(visit, name):
    session, page = SESSIONS[name], visit(f"?present={name}", viewport={"width": 1280, "height": 720})
    page.locator(".la-p-title").wait_for()
    times, before = [], ""
    for i, frame in enumerate(session.frames, 1):
        assert_stage(page, frame)
        assert page.url.endswith(f"?present={name}#{i}")
        option = page.locator(".la-p-frames option:checked").inner_text()
        times.append(minutes(option.split()[0]))
        now = page.locator(".la-p-title, .la-p-panel, .la-lanes, .la-s-boxes").all_inner_texts()
        assert now != before and "".join(now[1:]) != "".join(before[1:]), "no frame repeats the last"
        before = now
        if frame.answer:
            page.keyboard.press("r")
            expect(page.locator(".la-p-answer")).to_have_text(frame.answer)
        elif frame.hide:
            page.keyboard.press("r")
            assert page.evaluate(SEEN) > 0
        page.keyboard.press("PageDown" if i % 2 else "ArrowRight")
    assert times == session.starts() and times[-1] + session.frames[-1].minutes == session.minutes
    expect(page.locator(".la-p-title")).to_have_text(session.frames[-1].title)


@pytest.mark.browser
def test_the_notes_follow_the_projector_and_control_it(visit):
    projector = visit("?present=1#11")
    with projector.context.expect_page() as opened:
        projector.get_by_role("link", name="notes").click()
    notes = opened.value
    notes.wait_for_load_state()
    frames = SESSIONS["1"].frames
    expect(notes.locator(".la-n-text")).to_have_text(frames[10].notes)
    expect(notes.locator(".la-n-plan")).to_contain_text("planned 26:30 to 28:30")
    expect(notes.locator(".la-n-next")).to_have_text(f"Next: {frames[11].title}")
    assert notes.locator(".la-n-time").inner_text().startswith("26:3")
    assert notes.locator(".la-stage, #la-prompt").locator("visible=true").count() == 0, "no race"
    assert violations(notes) == []
    assert projector.evaluate(SEEN) == 0
    notes.keyboard.press("r")
    projector.wait_for_function(f"{SEEN} > 0")
    expect(projector.locator(".la-s-caption")).to_contain_text("1 of 4")
    notes.keyboard.press("ArrowRight")
    expect(projector.locator(".la-p-title")).to_have_text(frames[11].title)
    projector.keyboard.press("ArrowRight")
    expect(notes.locator(".la-n-title")).to_have_text(frames[12].title)
    before = state(projector)["t"]
    notes.keyboard.press("n")
    projector.wait_for_function(f"{STATE}.t > {before}")
    projector.keyboard.press("Escape")
    expect(notes.get_by_role("link", name="Session 2")).to_be_visible()
    assert projector.locator("#la-prompt").is_visible() and "present" not in projector.url
    projector.keyboard.press("p")
    expect(projector.locator(".la-p-title")).to_have_text(frames[0].title)
    notes.close()


SIZES = [(1280, 720), (683, 512), (640, 360), (390, 844)]


@pytest.mark.browser
def test_frames_fit_every_projector_and_their_text_is_large(visit):
    page = visit("?present=1#4", viewport={"width": 1280, "height": 720})
    large = "node => parseFloat(getComputedStyle(node).fontSize) * node.currentCSSZoom"
    for width, height in SIZES:
        page.set_viewport_size({"width": width, "height": height})
        for number, selectors in (
            (4, (".la-p-question",)),
            (5, (".la-f-advice", ".la-f-label")),
            (11, (".la-text", ".la-s-caption")),
        ):
            page.evaluate(f"location.hash = '#{number}'")
            expect(page.locator(".la-p-title")).to_have_text(SESSIONS["1"].frames[number - 1].title)
            root = "document.querySelector('.la-projected')"
            assert page.evaluate(f"{root}.scrollWidth <= innerWidth && {root}.scrollHeight <= innerHeight"), (
                width,
                number,
            )
            for selector in selectors if width > 500 else ():
                least = 31.9 * width / 1280
                assert page.locator(selector).first.evaluate(large) >= least, (width, selector)
            assert page.get_by_role("button", name="Next frame").bounding_box()["height"] >= 44
    page.get_by_role("button", name="Next frame").focus()  # otherwise the bar fades after some seconds
    assert violations(page) == []
