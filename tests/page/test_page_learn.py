"""The Learn tab in a real browser: each lesson from its heading to its question, with each widget in use."""

from __future__ import annotations

import re
from io import BytesIO
from itertools import cycle

import pytest
from conftest import ROOT, daily
from PIL import Image
from playwright.sync_api import Locator, expect
from test_page import SHORT, race
from test_page_access import violations

from lookahead.measure import recordings
from lookahead.measure.bugs import BUGS, TEXT
from lookahead.page.learn.lanes import pass_number
from lookahead.page.learn.lessons import ANSWERS, TEACHER
from lookahead.page.learn.lessons import pages as learn_pages
from lookahead.page.learn.widgets import (
    Bug,
    Code,
    Cost,
    Dice,
    Exercise,
    Figure,
    Guess,
    Plan,
    Quiz,
    Race,
    Recording,
    WhatIf,
)

pytestmark = [pytest.mark.browser, pytest.mark.xdist_group("browser-1"), pytest.mark.long]
ALL = {lesson.name: lesson for lesson in learn_pages()}
FIRST = next(iter(ALL))


def learn(visit, name=FIRST, **options):
    """Open a lesson by its address, and return the page."""
    page = visit(f"?lesson={name}", **options)
    arrived(page, name)
    return page


def arrived(page, name):
    page.locator(".la-lessontitle", has_text=ALL[name].title).wait_for()
    page.locator(f"#la-lesson-{name}[aria-current]").wait_for()


def use(box, widget, press):
    """Use a widget as a reader does, and check its reaction. `press` presses a button or a radio button."""
    if isinstance(widget, Race):
        press(box.get_by_role("button", name="Race", exact=True))
        box.locator(".la-timeline[data-state=finished]").wait_for(timeout=180_000)
        lanes = box.locator(".la-cell[role=rowheader]").all_inner_texts()
        assert lanes[0] == "naive" and len(lanes) == 1 + len(widget.methods)
        press(box.locator(".la-timeline").get_by_role("button", name="open the pass"))
        assert box.locator(".la-inspector").is_visible()
        press(box.get_by_role("button", name="Close the inspector"))
    elif isinstance(widget, Recording):
        number = pass_number(recordings.read(widget.recording).lanes[-1], widget.at)
        if widget.at in ("partly", "mixed"):
            assert not box.locator(".la-passline").inner_text().startswith(f"pass {number} "), "the outcome is hidden"
            press(box.get_by_role("group", name="The draft is").get_by_role("button").first)
            box.get_by_text("Not right, you chose 0").first.wait_for()
        assert box.locator(".la-passline").inner_text().startswith(f"pass {number}")
        press(box.get_by_role("button", name="Previous pass"))
        assert not box.locator(".la-passline").inner_text().startswith(f"pass {number} ")
    elif isinstance(widget, Guess):
        for i in range(len(widget.cases)):
            press(box.get_by_role("button", name="it is accepted"))
            if i < len(widget.cases) - 1:
                press(box.get_by_role("button", name="next"))
        right = sum(case.accepted for case in widget.cases)
        box.get_by_text(f"{right} of {len(widget.cases)} right", exact=True).wait_for()
        assert box.get_by_role("button", name="again").is_visible()
        press(box.get_by_role("button", name="Guess on a real run"))
        box.get_by_text("Drafted and tested just now").wait_for()
        press(box.get_by_role("button", name="it is rejected"))
        box.get_by_text(re.compile("^[01] of 1 right$")).wait_for()
    elif isinstance(widget, Dice):
        press(box.get_by_role("button", name="Throw"))
        box.get_by_text("It does not converge to p." if widget.bug else "It converges to p.").wait_for()
        box.locator(".js-plotly-plot").wait_for()
    elif isinstance(widget, Bug):
        bug, run = BUGS[widget.bug], box.get_by_role("button", name="Run with and without the bug")
        assert run.is_disabled() and bug.test not in box.inner_text(), "a prediction comes first"
        press(box.get_by_label("the text", exact=True))
        press(run)
        for kind in ("passes", "fails"):
            finding = box.locator(f".la-finding.la-{kind}")
            finding.wait_for()
            assert bug.test in finding.inner_text()
        box.get_by_text("Right." if bug.harm == TEXT else "Not right, you chose").wait_for()
        if widget.scenario:
            box.locator(".la-timeline[data-state=finished]").wait_for(timeout=180_000)
            lanes = box.locator(".la-cell[role=rowheader]").all_inner_texts()
            assert lanes == ["naive", "draft", "draft, with the bug"], "side by side"
            ratio = box.locator(".la-ratio.la-final")
            ratio.wait_for()
            assert (ratio.inner_text() == "the text is wrong") == (bug.harm == TEXT), "no speed of a wrong text"
    elif isinstance(widget, Cost):
        if widget.predict:
            assert not box.get_by_text(re.compile(r"[\d.]+ ms")).count()
            press(box.get_by_role("button", name="show"))
            box.get_by_text(re.compile("You guessed")).wait_for()
        box.get_by_text(re.compile(r"[\d.]+ ms")).first.wait_for()
        if widget.alpha:
            assert re.search(r"speedup\W+=?\s*[\d.]+ / [\d.]+ = [\d.]+", box.inner_text())
    elif isinstance(widget, WhatIf):
        press(box.get_by_role("button", name="count the passes"))
        box.get_by_text(f"{widget.method}, k = {widget.k}").wait_for()
        box.locator(".js-plotly-plot").wait_for()
        box.get_by_label("number input for draft length k").fill("7")
        box.get_by_label("number input for draft length k").press("Enter")
        box.get_by_text(f"{widget.method}, k = 7").wait_for()
    elif isinstance(widget, Plan):
        assert box.locator("a[href^='?present=']").count() >= 8
    elif isinstance(widget, Code):
        if widget.ask:
            assert box.get_by_role("mark").count() == 0
            press(box.get_by_role("button", name="show the marks"))
        assert widget.text.split("\n")[0].strip() in box.inner_text()
        assert box.get_by_role("mark").count() == len(widget.marked)
    elif isinstance(widget, Exercise):
        for run in box.get_by_role("button", name="Run the tests").all():
            press(run)
        box.get_by_text("Tests passed: 0 of 3.").wait_for()
        box.get_by_text("Tests passed: 0 of 1.").wait_for()
    elif isinstance(widget, Figure) and widget.ask:
        press(box.get_by_role("button", name="3", exact=True).or_(box.get_by_role("button", name="6", exact=True)))
        press(box.get_by_role("button", name="verify"))
        box.get_by_text(re.compile("2 of 4 accepted")).wait_for()
    elif isinstance(widget, Quiz):
        for answer in sorted(widget.answers, key=lambda answer: answer.right):
            press(box.get_by_role("button", name=answer.text).first)
            box.get_by_text(answer.why).wait_for()


def by_keyboard(node):
    node.press("Space" if node.get_attribute("type") == "radio" else "Enter")


PRESSES = {"mouse": Locator.click, "keyboard": by_keyboard, "touch": Locator.tap}
PHONE = {"viewport": {"width": 390, "height": 844}}


@pytest.fixture(scope="module")
def reader(pages, request):
    """The page of a reader, and how this reader presses a button."""
    options = {**PHONE, "has_touch": True} if request.param == "touch" else {}
    with pages() as visit:
        yield learn(visit, **options), PRESSES[request.param]


READERS = sorted(zip(ALL, cycle(PRESSES)), key=lambda pair: pair[1])  # one page per way


@pytest.mark.parametrize(("name", "reader"), daily(READERS), indirect=["reader"])
def test_every_lesson_can_be_completed(reader, name):
    (page, press), lesson = reader, ALL[name]
    press(page.locator(f"#la-lesson-{name}"))
    arrived(page, name)
    boxes, prose = page.locator(".la-widgetbox"), page.locator(".la-read:not(.la-widgetbox *)")
    widgets = [part for part in lesson.parts if not isinstance(part, str)]
    boxes.nth(len(widgets) - 1).wait_for() if widgets else None
    assert boxes.count() == len(widgets) and prose.count() == len(lesson.parts) - len(widgets)
    bugs = daily((widget for widget in widgets if isinstance(widget, Bug)), 4)
    for i, widget in enumerate(widgets):
        if isinstance(widget, Bug) and widget not in bugs:
            continue  # `test_lessons` runs every bug
        boxes.nth(i).scroll_into_view_if_needed()
        use(boxes.nth(i), widget, press)
    assert violations(page) == []
    assert page.evaluate("document.documentElement.scrollWidth") <= page.viewport_size["width"]
    following = page.get_by_role("link", name=re.compile("^Next: "))
    after = list(ALL)[list(ALL).index(name) + 1 :]
    assert following.count() == bool(after)
    if widgets and isinstance(widgets[-1], Quiz):
        page.locator(f"#la-lesson-{name}.la-solved").wait_for()
    if after:
        press(following)
        arrived(page, after[0])


def test_every_lesson_fits_a_phone(visit):
    """In dark mode, too, each kind of widget is readable."""
    page, seen = learn(visit, color_scheme="dark", **PHONE), set()
    for name, lesson in ALL.items():
        page.locator(f"#la-lesson-{name}").click()
        arrived(page, name)
        if new := {type(part) for part in lesson.parts} - seen:
            assert violations(page) == [], name
            seen |= new
        assert page.evaluate("document.documentElement.scrollWidth") <= 390, name


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_forced_colors_replace_the_palette_and_keep_the_bars(visit, scheme):
    page = learn(visit, forced_colors="active", color_scheme=scheme)
    color = "n => getComputedStyle(n).getPropertyValue('--la-own')"
    for node in ("body", ".la-header", "#la-lesson .la-game"):
        assert page.locator(node).first.evaluate(color) == "LinkText", node
    bar = page.locator(".la-f-time").first
    pixels = Image.open(BytesIO(bar.locator("..").screenshot())).convert("L")
    assert abs(pixels.getpixel((4, 4)) - pixels.getpixel((pixels.width - 4, 4))) > 60, "the bar differs from its rail"


def test_a_lesson_has_an_address_and_keeps_the_race(visit):
    page = visit(SHORT)
    shown = race(page)
    page.get_by_role("tab", name="Learn", exact=True).click()
    arrived(page, FIRST)
    page.wait_for_url(f"**/?lesson={FIRST}")
    page.locator("#la-lesson-03-rejection").click()
    arrived(page, "03-rejection")
    page.get_by_role("link", name="lesson 2", exact=True).first.click()
    arrived(page, "02-draft-and-verify")
    page.wait_for_url("**/?lesson=02-draft-and-verify")
    page.go_back()
    arrived(page, "03-rejection")
    page.get_by_role("tab", name="Race", exact=True).click()
    assert page.evaluate("window.lookahead.state().run") == shown["run"]
    page.wait_for_url(lambda url: "lesson" not in url)
    page.get_by_role("tab", name="Learn", exact=True).click()
    arrived(page, "03-rejection")
    page.wait_for_url("**/?lesson=03-rejection")  # the address changes a moment after the lesson
    page.reload()
    arrived(page, "03-rejection")


def test_back_and_forward_select_the_tab_of_the_address(visit):
    page = visit(SHORT)
    selected = page.locator("#la-tabs > .tab-wrapper").get_by_role("tab", selected=True)
    for name in ("Lab", "Learn", "Models", "Race"):
        page.get_by_role("tab", name=name, exact=True).click()
        page.wait_for_url(
            {"Lab": "**tab=lab", "Learn": f"**/?lesson={FIRST}", "Models": "**tab=models", "Race": f"**/{SHORT}"}[name]
        )
    for name in ("Models", "Learn", "Lab", "Race"):
        page.go_back()
        expect(selected).to_have_text(name)
    page.go_forward()
    page.go_forward()
    arrived(page, FIRST)
    page.get_by_role("link", name=re.compile("^Next: ")).click()
    arrived(page, "02-draft-and-verify")
    assert page.evaluate("document.activeElement.className") == "la-lessontitle"
    page.go_back()
    arrived(page, FIRST)
    page.go_back()
    expect(selected).to_have_text("Lab")
    page.reload()
    expect(selected).to_have_text("Lab")


def test_an_unknown_lesson_is_named(visit):
    page = visit("?lesson=%3Cimg src=x onerror=alert(1)%3E")
    refused = page.get_by_role("alert").filter(has_text="choose one of")
    refused.wait_for()
    assert "<img src=x" in refused.inner_text() and FIRST in refused.inner_text()
    page.locator(f"#la-lesson-{FIRST}").click()
    arrived(page, FIRST)


def test_a_lesson_whose_scripts_do_not_arrive_shows_an_error_until_they_do(visit):
    page = visit(SHORT)
    page.route("**/teaching.js", lambda route: route.abort())
    page.get_by_role("tab", name="Learn", exact=True).click()
    error = page.get_by_role("alert").filter(has_text="The server does not answer. Reload the page.")
    error.wait_for()
    assert error.count() == 1 and not page.locator(".la-game *").count()
    page.unroute("**/teaching.js")
    page.locator("#la-lesson-03-rejection").click()
    page.locator(".la-game-guess").wait_for()
    expect(error).to_have_count(0)
    assert {*page.faults} == {"Failed to load resource: net::ERR_FAILED"}
    page.faults.clear()


def test_leaving_a_lesson_stops_its_race(visit):
    page = learn(visit)
    box = page.locator(".la-widgetbox.la-race").first
    box.get_by_role("button", name="Race", exact=True).click()
    page.locator("#la-lesson-02-draft-and-verify").click()  # leave the lesson while the race runs
    arrived(page, "02-draft-and-verify")
    page.get_by_role("tab", name="Race", exact=True).click()
    assert race(page)["lanes"][1]["finished"]


def test_a_lesson_race_is_scrolled_into_view_and_survives_a_reload(visit):
    page = learn(visit)
    box = page.locator(".la-widgetbox.la-race").first
    box.get_by_role("button", name="Race", exact=True).press("Enter")
    box.locator(".la-timeline[data-state=finished]").wait_for(timeout=180_000)
    expect(box.locator(".la-stage")).to_be_in_viewport()
    box.locator("input.la-scrub").press("End")
    words = box.locator(".la-pass > .la-tok")
    text = words.all_inner_texts()
    page.reload()
    arrived(page, FIRST)
    expect(box.locator(".la-statustext")).to_contain_text("Restored after a reload. Finished.")
    box.locator("input.la-scrub").press("End")
    assert words.all_inner_texts() == text


def test_a_print_has_the_whole_lesson_and_a_quiz_without_answers(visit):
    page = learn(visit, "02-draft-and-verify")
    quiz = page.locator(".la-game-quiz")
    quiz.get_by_role("button").first.press("Enter")
    quiz.locator(".la-g-why", has_text="Right.").wait_for()
    page.emulate_media(media="print")
    assert quiz.get_by_role("button").first.is_visible() and not quiz.locator(".la-g-why").first.is_visible()
    assert (
        page.locator(".la-game-figure table").first.is_visible()
        and not page.get_by_role("link", name="Skip").is_visible()
    )
    choices = page.locator(".la-game-figure button:visible").all_inner_texts()
    assert choices == [str(n) for n in range(6)], "the choices of the prediction, and no action"
    outside = (
        "n => { const seen = []; for (; n; n = n.parentElement) seen.push(getComputedStyle(n).overflow); return seen; }"
    )
    assert set(quiz.evaluate(outside)) <= {"visible", "auto"}, "no ancestor cuts the pages"
    page.emulate_media(media="screen")
    page.locator("#la-lesson-07-the-sketch").click()
    arrived(page, "07-the-sketch")
    page.emulate_media(media="print")
    lines = page.locator(".la-g-codeline")
    lines.first.wait_for()
    assert lines.count() > 30 and all(line.is_visible() for line in lines.all()), "a listing with a question"
    page.emulate_media(media="screen")


def test_a_link_over_the_header_moves_the_focus_to_the_content(visit):
    page = visit()
    page.keyboard.press("Tab")
    skip = page.get_by_role("link", name="Skip to the content")
    expect(skip).to_be_focused()
    skip.press("Enter")
    page.keyboard.press("Tab")
    assert page.evaluate("document.activeElement.closest('#la-tabs .tabitem') !== null")


def test_keys_act_on_the_focused_timeline(visit):
    page = learn(visit, "02-draft-and-verify")
    box = page.locator(".la-widgetbox.la-recording").first
    line = box.locator(".la-passline")
    box.get_by_role("button", name="Next pass").click()
    page.evaluate("document.activeElement.blur()")
    before = line.inner_text()
    page.locator("body").press("ArrowLeft")
    assert line.inner_text() == before
    box.get_by_role("button", name="Next pass").focus()
    page.keyboard.press("ArrowLeft")
    assert line.inner_text() != before


@pytest.mark.parametrize(("name", "section", "seen", "unseen"), [
    (TEACHER.stem, "worksheet", "Which tokens are written? ____", "0.92"),
    (ANSWERS.stem, "answer key", "1.75 / 1.9 = 0.92, so no", "____"),
])  # fmt: skip
def test_the_worksheet_and_the_answer_key_are_printed_from_their_own_pages(visit, name, section, seen, unseen):
    page = visit(f"?lesson={name}")
    button = page.get_by_role("button", name=f"Print the {section}")
    button.wait_for()
    assert seen in page.locator("#la-lesson").inner_text() and unseen not in page.locator("#la-lesson").inner_text()
    page.evaluate(
        "window.dialogs = 0; window.print = () => { window.dialogs++; window.printed = document.querySelector('#la-lesson').className; }; null"
    )
    button.click()
    page.wait_for_function("window.printed")
    assert "la-handout" in page.evaluate("window.printed")
    page.emulate_media(media="print")
    text = page.locator("body").inner_text()
    assert seen in text and unseen not in text and "Before class" not in text
    assert "Race" not in text.split("\n") and "Gradio" not in text
    pdf = page.pdf(format="A4")
    assert pdf.count(b"/Type /Page\n") + pdf.count(b"/Type /Page ") + pdf.count(b"/Type/Page/") <= 1, "one page"
    page.evaluate("dispatchEvent(new Event('afterprint'))")
    assert page.locator(".la-printed").count() == 0
    page.wait_for_timeout(500)
    assert page.evaluate("window.dialogs") == 1


def test_lesson_links_are_valid(visit):
    page = learn(visit, TEACHER.stem)
    hrefs = page.locator("#la-lesson a").evaluate_all("all => all.map(a => a.getAttribute('href'))")
    assert any(href.startswith("?prompt=") for href in hrefs)
    for href in hrefs:
        assert href.startswith(("?lesson=", "?recording=", "?prompt=", "?present="))
        if href.startswith("?lesson="):
            assert href.removeprefix("?lesson=") in {*ALL, ANSWERS.stem}
        if href.startswith("?recording="):
            assert (ROOT / "assets" / "traces" / f"{href.removeprefix('?recording=')}.json").is_file()
