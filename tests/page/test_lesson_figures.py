"""The lessons' figures: their arithmetic, and the reaction of each to a drag and a key within a frame."""

import json

import pytest
from chromium import bare_page, exposed
from test_page_access import serious

from lookahead.page.learn.lessons import lessons
from lookahead.page.learn.widgets import Figure
from lookahead.trace import assets

pytestmark = pytest.mark.browser

NAMES = ("weights", "pencil", "shelf", "overlap", "matching", "window", "costs")


def blank(browser, size=(900, 900), **options):
    styles = assets.style("page/app.css")
    script = exposed("learn/games.js", *(f"learn/figures/{name}.js" for name in NAMES))
    return bare_page(browser, "<body><div id=host></div>", styles, script, size, **options)


def mounted(page, name):
    data = json.dumps({"kind": "figure", "figure": name, "say": "Try it."})
    page.evaluate(f"modules.games.mount(document.getElementById('host'), {data})")
    return page.locator("#host")


def test_every_lesson_of_the_first_six_has_its_figure():
    used = [part.figure for lesson in lessons() for part in lesson.parts if isinstance(part, Figure)]
    assert sorted(used) == sorted(NAMES)
    assert all(any(isinstance(part, Figure) for part in lesson.parts) for lesson in lessons()[:6])


def test_speedups_are_the_lessons_own(page):
    pass_of = "([at, k]) => modules.costs.passOf(at, k).speedup"
    at = {"c": 0.1, "row": 0.03}
    for alpha, k, expected in ((0.8, 4, 2.21), (0.3, 1, 1.15), (0.3, 4, 0.94), (0.1, 16, 0.36)):
        assert page.evaluate(pass_of, [{**at, "alpha": alpha}, k]) == pytest.approx(expected, abs=0.005)


def test_the_residual(page):
    p, q = [0.5, 0.3, 0.2], [0.2, 0.7, 0.1]
    assert page.evaluate("([p, q]) => modules.overlap.residual(p, q)", [p, q]) == pytest.approx([0.75, 0, 0.25])
    assert page.evaluate("p => modules.overlap.residual(p, p)", p) is None
    assert page.evaluate("p => modules.overlap.withShare(p, 0, 0.8)", p) == pytest.approx([0.8, 0.12, 0.08])
    assert page.evaluate("modules.overlap.withShare([1, 0, 0], 0, 0.4)") == pytest.approx([0.4, 0.3, 0.3])


def test_dice_settle_on_p(page):
    host = mounted(page, "overlap")
    for _ in range(30):
        host.get_by_role("button", name="throw 200 dice").click()
    advice = host.locator(".la-f-advice").inner_text()
    assert "After 6000 throws" in advice
    cat, dog, fox = (float(advice.split(f"{word} ")[-1].split(",")[0].rstrip(".")) for word in ("cat", "dog", "fox"))
    assert (cat, dog, fox) == pytest.approx((0.5, 0.3, 0.2), abs=0.04), "though q is 0.2, 0.7, 0.1"


def test_a_pass_by_pencil(page):
    pass_of = "draft => modules.pencil.passOf(draft)"
    assert page.evaluate(pass_of, ["quick", "brown", "fox", "jumps"]) == {
        "outcomes": ["accepted", "accepted", "rejected", "not tested"], "written": ["quick", "brown", "dog"], "kept": 3,
    }  # fmt: skip
    assert len(page.evaluate(pass_of, ["quick", "brown", "dog", "sleeps"])["written"]) == 5, "the bonus"
    host = mounted(page, "pencil")
    host.get_by_label("drafted word 3").fill("dog")
    assert "Written: quick brown dog sleeps. 4 tokens in one pass." in host.inner_text()
    assert host.locator(".la-f-swept").all_inner_texts() == ["jumps"]
    host.get_by_label("drafted word 1").fill("<img src=x onerror=window.hit=1>")
    assert page.evaluate("window.hit") is None and host.locator("img").count() == 0


def test_matches_windows_and_shelves(page):
    words = ["the", "cat", "sat", "on", "the", "mat", ".", "the", "dog", "saw", "the", "cat"]
    assert page.evaluate("w => modules.matching.matchOf(w)", words) == {
        "from": 0, "length": 2, "draft": ["sat", "on", "the", "mat"],
    }  # fmt: skip
    assert page.evaluate("w => modules.matching.followers(w)", [*words, "sat", "on", "the"]) == [
        ["cat", 2], ["mat", 1], ["dog", 1],
    ]  # fmt: skip
    predictions = page.evaluate("modules.window.passes().map(pass => pass.predictions.join(' '))")
    assert predictions == ["cat a sat .", "cat sat mat on", "cat sat on .", "cat sat on a"], "as in the lesson's table"
    assert "cat sat" in page.evaluate("modules.window.poolOf(1)")
    assert page.evaluate("modules.shelf.reads(2, true).join(' ')") == "Once there was a small green toad"
    assert page.evaluate("modules.shelf.reads(2, false).join(' ')") == "Once there was a small green frog who toad"
    assert page.evaluate("[1, 200, 400].map(modules.weights.passMs)") == [16, 16, 32]


@pytest.mark.parametrize("name", NAMES)
def test_each_reacts_to_the_keyboard(page, name):
    host = mounted(page, name)
    before = host.inner_text()
    handle = host.get_by_role("slider").first if name != "pencil" else host.get_by_label("drafted word 2")
    handle.focus()
    if name == "pencil":
        page.keyboard.type("er")
    else:
        page.keyboard.press("ArrowRight")
        assert handle.get_attribute("aria-valuetext")
    assert host.inner_text() != before


@pytest.mark.parametrize("size", [(900, 900), (390, 844)])
def test_none_is_wider_than_the_page(chromium, size):
    page = blank(chromium, size)
    for name in NAMES:
        mounted(page, name)
        assert page.evaluate("document.documentElement.scrollWidth") <= size[0], name
    page.close()


@pytest.mark.parametrize("theme", ["light", "dark"])
def test_axe_finds_nothing_in_them(chromium, theme):
    page = blank(chromium)
    page.evaluate(f"document.body.classList.toggle('dark', {json.dumps(theme == 'dark')})")
    for name in NAMES:
        mounted(page, name)
        assert serious(page) == [], name
    page.close()


# Milliseconds per move with layout, for 120 moves: of a dragged handle, a slider, or a text field.
MOVES = """async node => {
  const box = node.getBoundingClientRect(), x = box.x + box.width / 2, y = box.y + box.height / 2, range = node.type === 'range';
  const fire = (type, dx) => node.dispatchEvent(new PointerEvent(type, {clientX: x + dx, clientY: y - dx / 2, pointerId: 1, bubbles: true}));
  const set = i => { node.value = range ? +node.min + i % (node.max - node.min + 1) : ['dog', 'fox'][i % 2];
    node.dispatchEvent(new Event('input', {bubbles: true})); };
  const times = [], move = 'value' in node ? set : i => fire('pointermove', i);
  node.setPointerCapture = () => {}; fire('pointerdown', 0);
  for (let i = 0; i < 120; i++) {
    const start = performance.now(); move(i); document.body.offsetHeight; times.push(performance.now() - start);
    await new Promise(requestAnimationFrame); }
  fire('pointerup', 120); return times.sort((a, b) => a - b)[Math.floor(0.95 * times.length)]; }"""


@pytest.mark.timed
@pytest.mark.parametrize("name", NAMES)
def test_a_drag_is_drawn_within_a_frame(page, name):
    host = mounted(page, name)
    handle = host.locator(".la-f-scrub, .la-f-end, input").first
    handle.scroll_into_view_if_needed()
    before = host.inner_text()
    slowest = handle.evaluate(MOVES)
    assert host.inner_text() != before, "it was dragged"
    assert slowest < 20, f"{slowest} ms"
