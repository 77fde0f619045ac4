"""A lesson's guess, quiz, costs and listing in a real page, fed with the data that the server sends.

No server, no model. The cases are those of lesson 3; the sum is small enough to compute by hand.
"""

import re

import pytest
from chromium import bare_page, exposed
from color import contrast, palette
from test_page_access import violations

from lookahead.page.learn.widgets import Case
from lookahead.trace import assets

pytestmark = pytest.mark.browser

HOSTILE = f"</script><img/src=x/onerror=window.hit=1/{'x' * 90}>"
CASES = [("cat", 0.5, 0.2, 0.93), ("dog", 0.3, 0.7, 0.21), ("fox", 0.02, 0.4, 0.11), ("hen", 0.45, 0.5, 0.94), ("owl", 0.0, 0.3, 0.0)]  # fmt: skip
COSTS = [(1, 1.0, 3.62), (2, 1.05, 3.8), (5, 1.2, 4.344), (9, 1.35, 4.887), (17, 1.7, 6.154), (33, 2.4, 8.69)]
# 1 + 0.8 + 0.64 + 0.512 + 0.4096 = 3.3616; 1.12 + 4 x 0.15 = 1.72; 3.3616 / 1.72 = 1.954; 3.3616 / 1.6 = 2.101
SUM = {"alpha": 0.8, "k": 4, "c": 0.15, "v": 1.12, "tokens": 3.3616, "cost": 1.72, "speedup": 1.9544, "plain": 2.101}
CODE = "def walk(n):\n    while n:\n\n        n -= 1  # down\n    return n"


def case(token, p, q, draw):
    return Case(token=token, p=p, q=q, draw=draw).model_dump()


def guess(*cases):
    return {"kind": "guess", "say": "Some are certain.", "cases": [case(*values) for values in cases or CASES]}


def quiz(say=""):
    answers = [(False, "two", "That forgets one."), (True, "three", "Two and the correction."), (False, "six", "No.")]
    keys = ("right", "text", "why")
    return {"kind": "quiz", "say": say, "question": "How many?", "answers": [dict(zip(keys, a, strict=True)) for a in answers]}  # fmt: skip


def cost(**more):
    rows = [{"rows": rows, "passes": passes, "ms": ms} for rows, passes, ms in COSTS]
    return {"kind": "cost", "say": "", "rows": rows, "predict": None, "sum": None, **more}


def code(**more):
    return {"kind": "code", "title": "The walk", "text": CODE, "first": 98, "marked": [99, 102], "source": "lookahead/core/accept.py", "say": "", **more}  # fmt: skip


def blank(browser, size=(1280, 900), theme="", **options):
    body = f'<body class="{theme}" style="background: var(--la-paper)"><main></main>'
    styles = assets.style("timeline/timeline.css") + assets.style("learn/widgets.css")
    script = exposed("learn/games.js") + "window.solved = 0;"
    return bare_page(browser, body, styles, script, size, **options)


def mount(page, data):
    """Mount a widget at the end of the page, and return it."""
    before = page.locator(".la-game").count()
    page.evaluate(
        """data => { const box = document.createElement("div"); document.querySelector("main").append(box);
                     modules.games.mount(box, data, {solved: () => window.solved++}); }""",
        data,
    )
    return page.locator(".la-game").nth(before)


def press(game, name, **options):
    game.get_by_role("button", name=name, exact=True).click(**options)


def focused(page):
    return page.evaluate("document.activeElement.textContent")


# ------------------------------------------------------------------ guess


def test_nothing_is_revealed_before_the_guess(page):
    game = mount(page, guess())
    assert "0.93" not in game.inner_text() and game.locator(".la-g-after").inner_text() == ""
    facts = " ".join(game.locator(".la-g-facts").inner_text().split())
    assert facts == "Drafted: cat target’s p 0.5 drafter’s q 0.2"
    widths = [n.evaluate("n => n.offsetWidth / n.parentElement.offsetWidth") for n in game.locator(".la-g-fill").all()]
    assert widths == pytest.approx([0.5, 0.2], abs=0.01)
    assert game.get_by_role("button").all_inner_texts() == ["it is accepted", "it is rejected"]


@pytest.mark.parametrize(
    ("values", "side", "sum_", "sentence"),
    [
        (("cat", 0.5, 0.2, 0.93), "it is accepted", "min(1, 0.5/0.2) = 1", "The draw is 0.93, below 1: it is accepted. You were right. This one was certain: p is not below q, so it is always accepted."),
        (("cat", 0.4, 0.4, 0.93), "it is rejected", "min(1, 0.4/0.4) = 1", "The draw is 0.93, below 1: it is accepted. Not right. This one was certain: p is not below q, so it is always accepted."),
        (("owl", 0.0, 0.3, 0.0), "it is accepted", "min(1, 0/0.3) = 0", "The draw is 0, not below 0: it is rejected. Not right. This one was certain: p is 0, so it is always rejected."),
        (("dog", 0.3, 0.7, 0.21), "it is accepted", "min(1, 0.3/0.7) = 0.43", "The draw is 0.21, below 0.43: it is accepted. You were right, by luck. The better guess was “it is rejected”: 0.43 is below a half, so a rejection was likelier."),
        (("dog", 0.3, 0.7, 0.21), "it is rejected", "min(1, 0.3/0.7) = 0.43", "The draw is 0.21, below 0.43: it is accepted. Not right, but a good guess and bad luck: 0.43 is below a half, so a rejection was likelier."),
        (("hen", 0.45, 0.5, 0.84), "it is accepted", "min(1, 0.45/0.5) = 0.9", "The draw is 0.84, below 0.9: it is accepted. You were right, and it was the better guess: 0.9 is above a half, so acceptance was likelier."),
        (("hen", 0.45, 0.5, 0.84), "it is rejected", "min(1, 0.45/0.5) = 0.9", "The draw is 0.84, below 0.9: it is accepted. Not right. The better guess was “it is accepted”: 0.9 is above a half, so acceptance was likelier."),
        (("elk", 0.2, 0.4, 0.5), "it is accepted", "min(1, 0.2/0.4) = 0.5", "The draw is 0.5, not below 0.5: it is rejected. Not right. Both outcomes were equally likely."),
        (("dog", 0.3, 0.7, 0.43), "it is accepted", "min(1, 0.3/0.7) = 0.429", "The draw is 0.43, not below 0.429: it is rejected. Not right. The better guess was “it is rejected”: 0.429 is below a half, so a rejection was likelier."),
        (("emu", 0.4996, 1.0, 0.1), "it is accepted", "min(1, 0.4996/1) = 0.4996", "The draw is 0.1, below 0.4996: it is accepted. You were right, by luck. The better guess was “it is rejected”: 0.4996 is below a half, so a rejection was likelier."),
    ],
)  # fmt: skip
def test_the_arithmetic_and_the_verdict(page, values, side, sum_, sentence):
    game = mount(page, guess(values))
    press(game, side)
    paragraphs = game.locator(".la-g-after p").all_inner_texts()
    assert paragraphs[0] == f"chance = min(1, p/q) = {sum_}"
    assert paragraphs[1] == sentence


def test_the_draw_is_a_dot_on_the_line(page):
    game = mount(page, guess(("dog", 0.3, 0.7, 0.21)))
    press(game, "it is accepted")
    inner = game.locator(".la-draws").evaluate(
        """n => { const box = n.getBoundingClientRect(), at = s => n.querySelector(s).getBoundingClientRect(), w = n.clientWidth, left = box.left + n.clientLeft;
                  const dot = at(".la-draws-dot"); return [at(".la-draws-accepting").width / w, ((dot.left + dot.right) / 2 - left) / w]; }"""
    )
    assert inner == pytest.approx([3 / 7, 0.21], abs=0.005)
    assert game.locator(".la-g-line").get_attribute("aria-hidden") == "true", "the text has its meaning"


def test_score_and_again_by_keyboard(page):
    game = mount(page, guess())
    head = game.locator(".la-g-head")
    page.keyboard.press("Tab")
    for i, (side, score) in enumerate(zip((0, 1, 1, 0, 1), (1, 1, 2, 2, 3), strict=True)):
        assert head.inner_text().split("\n")[0] == f"Case {i + 1} of 5"
        if side:
            page.keyboard.press("Tab")
        page.keyboard.press("Enter")
        assert head.inner_text().split("\n")[-1] == f"{score} of {i + 1} right"
        assert focused(page) == ("next" if i < 4 else "again")
        chosen = game.locator('[aria-pressed="true"]')
        assert chosen.all_inner_texts() == [("it is accepted", "it is rejected")[side]] and chosen.is_disabled()
        if i < 4:
            page.keyboard.press("Enter")
            assert focused(page) == "it is accepted"
    # likelier outcomes: cat accepted, dog rejected (wrong), fox rejected, hen accepted (wrong), owl rejected
    end = "3 of 5 right. Always choosing the likelier outcome gets 3 of 5 here."
    assert game.locator(".la-g-end").inner_text() == end
    page.keyboard.press("Space")
    assert head.inner_text().strip() == "Case 1 of 5" and focused(page) == "it is accepted"
    page.keyboard.press("Space")
    assert "1 of 1 right" in head.inner_text(), "counted anew"


# ------------------------------------------------------------------ quiz


def test_quiz_continues_after_a_wrong_answer_and_ends_with_the_right_one(page):
    game = mount(page, quiz())
    assert game.get_by_role("group", name="How many?").count() == 1
    assert "forgets" not in game.inner_text()
    press(game, "two")
    assert game.inner_text().count("Not quite. That forgets one.") == 1 and "✕" in game.inner_text()
    assert game.locator("button:disabled").count() == 0 and page.evaluate("solved") == 0
    page.get_by_role("button", name="three").focus()
    page.keyboard.press("Enter")
    assert "Right. Two and the correction." in game.inner_text() and "✓" in game.inner_text()
    assert game.locator("button:disabled").all_inner_texts() == ["✕\ntwo", "○\nsix"]
    page.keyboard.press("Enter")
    press(game, "six", force=True)
    assert page.evaluate("solved") == 1 and "No." not in game.inner_text()
    assert game.locator(".la-g-why").evaluate_all("all => all.every(n => n.getAttribute('aria-live') === 'polite')")


def test_hooks_may_be_left_out(page):
    page.evaluate("data => modules.games.mount(document.querySelector('main'), data)", quiz("A caption."))
    press(page.locator(".la-game"), "three")
    assert page.locator(".la-g-say").inner_text() == "A caption."


# ------------------------------------------------------------------ cost


def shares(game, selector):
    """The share of its track that each bar fills."""
    return game.locator(f".la-g-track {selector}").evaluate_all(
        "all => all.map(n => n.offsetWidth / n.parentElement.offsetWidth)"
    )


def test_costs_as_bars(page):
    game = mount(page, cost(say="Measured here."))
    assert game.locator(".la-g-row .la-g-value").all_inner_texts() == [
        "1 pass, 3.62 ms", "1.05 passes, 3.80 ms", "1.20 passes, 4.34 ms", "1.35 passes, 4.89 ms", "1.70 passes, 6.15 ms", "2.40 passes, 8.69 ms",
    ]  # fmt: skip
    assert shares(game, ".la-g-p") == pytest.approx([passes / 9 for _, passes, _ in COSTS], abs=0.01), (
        "the axis ends at 9"
    )
    assert shares(game, ".la-g-whole") == pytest.approx([1 / 9, 2 / 9, 5 / 9, 1, 1, 1], abs=0.01)
    assert game.locator(".la-g-out + * + .la-g-far").all_inner_texts() == ["17 passes →", "33 passes →"]
    assert game.locator("input, dl").count() == 0 and "Measured here." in game.inner_text()


def test_bars_are_not_cut_if_rows_have_their_full_cost(page):
    rows = [{"rows": n, "passes": 1.1 * n if n > 1 else 1, "ms": 120 * n} for n in (1, 2, 9)]
    game = mount(page, cost(rows=rows))
    assert shares(game, ".la-g-p") == pytest.approx([1 / 9.9, 2.2 / 9.9, 1], abs=0.01)
    assert game.locator(".la-g-far").count() == 0
    assert game.locator(".la-g-row").last.inner_text().split("\n")[-1] == "9.90 passes, 1.08 s"


def test_the_reader_guesses_first(page):
    game = mount(page, cost(predict=9, sum=SUM))
    slider = page.get_by_label("How many one-row passes does a pass of 9 rows cost on this machine?")
    assert game.locator(".la-g-row, dl").count() == 0 and "1.35" not in game.inner_text()
    assert [slider.get_attribute(n) for n in ("min", "max", "step")] == ["1", "9", "0.1"]
    slider.focus()
    page.keyboard.press("Home")
    for _ in range(20):
        page.keyboard.press("ArrowRight")
    assert game.locator("output").inner_text() == slider.get_attribute("aria-valuetext") == "3.0 passes"
    page.keyboard.press("Tab")
    page.keyboard.press("Enter")
    assert focused(page) == "You guessed 3.0; it is 1.35."
    assert (
        game.locator(".la-g-row").count() == 6
        and game.locator("dl").count() == 1
        and game.locator("input").count() == 0
    )
    mine = game.locator(".la-g-track .la-g-mine")
    assert mine.count() == 1 and "9 rows" in mine.locator("xpath=ancestor::li").inner_text()
    assert float(mine.evaluate("n => n.style.left.replace('%', '')")) == pytest.approx(100 * 3 / 9, abs=0.01)


def test_the_sum_is_written_out(page):
    game = mount(page, cost(sum=SUM))
    assert game.locator("dd").all_inner_texts() == [
        "1 + α + ... = 1 + 0.8 + 0.8² + 0.8³ + 0.8⁴ = 3.36",
        "v + k × c = 1.12 + 4 × 0.15 = 1.72",
        "3.36 / 1.72 = 1.95",
        "3.36 / (1 + 4 × 0.15) = 2.10, Leviathan’s formula: v = 1, as if rows were free",
    ]
    assert "v, a pass of 5 rows" in game.inner_text()
    loss = {**SUM, "alpha": 0.1, "k": 12, "tokens": 1.1111, "cost": 3.0, "speedup": 0.3704, "plain": 0.3968}
    lines = mount(page, cost(sum=loss)).locator("dd").all_inner_texts()
    assert "1 + 0.1 + 0.1² + ... + 0.1¹² = 1.11" in lines[0]
    assert lines[2] == "1.11 / 3.00 = 0.37, slower than naive decoding: do not draft"


def test_costs_that_were_never_measured(page):
    game = mount(page, cost(rows=[], predict=9))
    assert game.inner_text() == "Nothing has been measured on this machine yet."


# ------------------------------------------------------------------ code


def test_listing_has_numbers_and_marks(page):
    game = mount(page, code(say="One screen."))
    lines = game.locator(".la-g-codeline")
    assert lines.evaluate_all("all => all.map(n => Number(n.dataset.line))") == [98, 99, 100, 101, 102]
    assert [line.inner_text().strip() for line in game.get_by_role("mark").all()] == ["while n:", "return n"]
    seen = lines.evaluate_all(
        "all => all.map(n => [getComputedStyle(n).backgroundColor, getComputedStyle(n).borderLeftColor])"
    )
    assert seen[1] == seen[4] and seen[0] == seen[2] == seen[3] and all(a != b for a, b in zip(seen[0], seen[1], strict=True))  # fmt: skip
    heights = lines.evaluate_all("all => all.map(n => n.offsetHeight)")
    assert set(heights) == {24}, "an empty line is a line, and none counts twice"
    assert game.locator(".la-g-head p").all_inner_texts() == ["The walk", "lookahead/core/accept.py, from line 98"]
    assert game.get_by_role("group", name="The walk; marked lines: 99, 102").get_attribute("tabindex") == "0"
    assert game.locator(".la-g-say").inner_text() == "One screen."
    assert mount(page, code(source="", marked=[])).locator(".la-g-head p").all_inner_texts() == ["The walk"]


def test_only_the_code_is_copied(chromium):
    page = blank(chromium, permissions=["clipboard-read", "clipboard-write"])
    game = mount(page, code())
    press(game, "copy: The walk")
    page.wait_for_function("document.querySelector('[role=status]').textContent === 'copied'")
    assert page.evaluate("navigator.clipboard.readText()") == CODE
    page.evaluate("getSelection().selectAllChildren(document.querySelector('.la-g-listing'))")
    assert page.evaluate("getSelection().toString().trimEnd()") == CODE, "no line numbers, no doubled lines"
    page.keyboard.press("Control+C")
    assert page.evaluate("navigator.clipboard.readText()").rstrip("\n") == CODE
    page.evaluate(
        "navigator.clipboard.writeText = () => Promise.reject(new Error('forbidden')); getSelection().empty()"
    )
    press(game, "copy: The walk")
    page.wait_for_function("document.querySelector('[role=status]').textContent.startsWith('selected')")
    assert page.evaluate("getSelection().toString().trimEnd()") == CODE
    assert page.problems == []
    page.close()


def test_hostile_text_stays_text_and_in_its_box(page):
    page.set_viewport_size({"width": 390, "height": 844})
    games = [
        mount(page, code(text=HOSTILE, title=HOSTILE, source=HOSTILE, marked=[98], say=HOSTILE)),
        mount(
            page, {**quiz(HOSTILE), "question": HOSTILE, "answers": [{"text": HOSTILE, "right": True, "why": HOSTILE}]}
        ),
        mount(page, guess((HOSTILE, 0.3, 0.7, 0.21))),
    ]
    games[1].get_by_role("button").click()
    press(games[2], "it is accepted")
    assert [game.inner_text().count(HOSTILE) for game in games] == [4, 4, 1]
    assert page.locator("img").count() == 0 and page.evaluate("window.hit") is None
    assert page.evaluate("document.documentElement.scrollWidth <= innerWidth")


# ------------------------------------------------------------------ access


def everything(page):
    """Mount each widget in each of its states."""
    mount(page, guess())
    press(mount(page, guess()), "it is rejected")
    last = mount(page, guess(CASES[1]))
    press(last, "it is rejected")
    mount(page, quiz("A caption."))
    done = mount(page, quiz())
    press(done, "two")
    press(done, "three")
    mount(page, cost(predict=9))
    press(mount(page, cost(predict=9, sum=SUM)), "show")
    mount(page, code(text=f"{CODE}\n{'long = ' * 60}", say="A caption."))
    mount(page, code(text="x", title="", source="", marked=[98]))


@pytest.mark.parametrize("theme", ["", "dark"])
@pytest.mark.parametrize("size", [(1440, 900), (390, 844)], ids=["desktop", "phone"])
def test_no_violation_and_nothing_too_wide(chromium, size, theme):
    page = blank(chromium, size, theme)
    everything(page)
    assert violations(page) == []
    assert page.evaluate("document.documentElement.scrollWidth <= innerWidth")
    wide = """[...document.querySelectorAll('.la-game *')].filter(n => !n.closest('.la-g-listing') && n.getBoundingClientRect().right > innerWidth).map(n => n.className)"""
    assert page.evaluate(wide) == []
    low = page.evaluate("[...document.querySelectorAll('.la-game button, .la-game input')].filter(n => n.offsetHeight < 40).length")  # fmt: skip
    assert low == 0
    assert page.locator(".la-g-listing").first.evaluate("n => n.scrollWidth > n.clientWidth"), (
        "it scrolls in its own box"
    )
    assert page.problems == []
    page.close()


def test_every_control_is_reached_by_tab_and_visible(page):
    everything(page)
    wanted = page.locator(".la-game button:enabled, .la-game input, .la-g-listing").count()
    page.evaluate("scrollTo(0, 0); document.activeElement.blur(); getSelection().removeAllRanges(); document.body.prepend(Object.assign(document.createElement('a'), {href: '#', textContent: 'top'})); document.querySelector('a').focus()")  # fmt: skip
    reached = 0
    for _ in range(wanted):
        page.keyboard.press("Tab")
        assert page.evaluate("getComputedStyle(document.activeElement).outlineStyle") == "solid"
        reached += page.evaluate("Number(Boolean(document.activeElement.closest('.la-game')))")
    assert reached == wanted


@pytest.mark.parametrize("block", [":root", ".dark"])
def test_contrast(block):
    colors = palette(block)
    texts = ["ink paper", "ink-2 paper", "ink-2 field", "ink field", "ink draft-tint", "ink-2 draft-tint", "ink own-tint", "ink-2 own-tint", "ink accepted-tint", "accent accepted-tint", "rejected rejected-tint", "rejected field"]  # fmt: skip
    shapes = ["own draft-tint", "own paper", "draft paper", "draft draft-tint", "accepted paper", "accepted field", "ink accepted-tint", "ink-2 paper", "rejected paper"]  # fmt: skip
    for pairs, minimum in ((texts, 4.5), (shapes, 3)):
        for pair in pairs:
            front, back = pair.split()
            assert contrast(colors[front], colors[back]) >= minimum, pair


def test_only_the_palette_has_colors():
    css = assets.style_sheet("learn/widgets.css")
    assert re.findall(r"#[0-9a-f]{3,8}\b|rgba?\(|hsl", css.replace("#000", "")) == []
    outermost = re.findall(r"^([^\s{}][^{}]*) \{", re.sub(r"/\*.*?\*/", "", css, flags=re.DOTALL), re.MULTILINE)
    assert outermost and all(rule.startswith((".la-game.la-game", "@keyframes")) for rule in outermost)


def test_the_marks_of_a_listing_are_hidden_until_the_reader_has_selected_lines(page):
    game = mount(page, code(ask=True))
    assert game.get_by_role("mark").count() == 0 and violations(page) == []
    game.get_by_role("button", name="while n:").press("Enter")
    page.keyboard.press("ArrowDown")
    page.keyboard.press("ArrowDown")
    page.keyboard.press("Space")
    assert game.locator("[aria-pressed=true]").all_inner_texts() == ["    while n:", "        n -= 1  # down"]
    press(game, "show the marks")
    assert focused(page) == (
        "You selected 1 of the 2 marked lines. Not marked, but selected: 101. A dashed outline shows your selection."
    )
    assert game.get_by_role("mark").count() == 2 and violations(page) == []
    chosen = game.locator(".la-g-chosen").evaluate_all("all => all.map(n => Number(n.dataset.line))")
    assert chosen == [99, 101]
