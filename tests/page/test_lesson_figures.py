"""The lessons' figures: their arithmetic, and the reaction of each to a drag and a key within a frame."""

import itertools
import json

import pytest
from chromium import bare_page, exposed
from conftest import POCKET
from test_page_access import violations

from lookahead.page.learn.lessons import lessons
from lookahead.page.learn.tab import to_html
from lookahead.page.learn.widgets import Figure
from lookahead.trace import assets

pytestmark = pytest.mark.browser

NAMES = ("weights", "pass", "overlap", "matching", "window", "costs", "towers", "counters", "tree", "state")
FIGURES = [(lesson.name[:2], part) for lesson in lessons() for part in lesson.parts if isinstance(part, Figure)]
PASSES = {lesson: part.model_dump() for lesson, part in FIGURES if part.figure == "pass"}
RACE = {
    "method": "draft", "k": 3.4, "alpha": 0.81, "share": 0.62, "tokens": 3.1, "speedup": 2.07, "cost": 1.5, "c": 0.09, "live": True,
}  # fmt: skip


def blank(browser, size=(900, 900), **options):
    styles = assets.style("page/app.css") + assets.style("page/teaching.css")
    modules = ("learn/games.js", "learn/terms.js", "timeline/log.js", "timeline/measured.js")
    script = exposed(*modules, *(f"learn/figures/{name}.js" for name in NAMES))
    return bare_page(browser, "<body><div id=host></div>", styles, script, size, **options)


def mounted(page, name, lesson="02"):
    fields = PASSES[lesson] if name == "pass" else {"figure": name}
    data = json.dumps({**fields, "kind": "figure", "say": "Try it."})
    page.evaluate(f"modules.games.mount(document.getElementById('host'), {data})")
    return page.locator("#host")


def test_every_lesson_of_the_first_six_has_its_figure():
    used = [part.figure for _, part in FIGURES if part.figure != "pass"]
    assert sorted(used) == sorted({*NAMES} - {"pass"})
    assert {lesson for lesson, _ in FIGURES} >= {lesson.name[:2] for lesson in lessons()[:6]}
    assert list(PASSES) == ["01", "02", "03", "07", "09"], "one drawing of a pass"


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


def test_the_dice_show_the_drawn_word_and_its_replacement(page):
    host = mounted(page, "overlap")
    levels = [" ".join(row.inner_text().split()) for row in host.locator(".la-f-levels").all()]
    assert levels == ["cat 0.30 dog 0.00 fox 0.10", "cat 0.75 dog 0.00 fox 0.25"], "max(0, p - q) and the residual"
    assert "Total variation TV = 1 − 0.60 = 0.40" in host.inner_text()
    page.evaluate("n => { const draws = [...n]; Math.random = () => draws.shift() }", [0.5, 0.9, 0.2, 0.1, 0.5])
    host.get_by_role("button", name="throw one die").click()
    assert "The last throw drew dog from q. It was rejected, and cat was drawn from the residual." in host.inner_text()
    host.get_by_role("button", name="throw one die").click()
    assert "The last throw drew cat from q. It was accepted." in host.inner_text()
    rows = [" ".join(row.split()) for row in host.locator(".la-f-table tbody tr").all_inner_texts()]
    assert rows == ["cat 1 1 0 —", "dog 1 0 1 cat 1", "fox 0 0 0 —"]


def words(*lines):
    return [line.split() for line in lines]


def test_a_pass_by_hand(page):
    pass_of = "([text, draft, rules, bug]) => modules.pass.passOf({text, draft, rules, bug})"
    rules = PASSES["02"]["rules"]

    def outcome(text, draft, bug=""):
        found = page.evaluate(pass_of, [*words(text, draft), rules, bug])
        return found["accepted"], " ".join(found["written"]), found["kept"], found["isRight"]

    assert outcome("The", "quick brown fox jumps") == (2, "quick brown dog", 3, True)
    assert outcome("the QUICK brown dog", "Sleeps in The SUN") == (4, "sleeps in the sun .", 8, True), "no case counts"
    assert outcome("The", "") == (0, "quick", 1, True)
    assert outcome("The", "quick brown fox jumps", "prefix-dropped") == (2, "dog", 1, False)
    assert outcome("The", "fox runs", "prefix-dropped") == (0, "quick", 1, True), "nothing to drop"
    assert outcome("The", "quick brown dog", "bonus-lost") == (3, "quick brown dog", 3, True)
    assert outcome("The", "quick brown fox jumps", "no-rollback") == (2, "quick brown dog", 5, False)


def press(host, *names):
    for name in names:
        host.get_by_role("button", name=name, exact=True).press("Enter")


def test_the_reader_predicts_a_pass_and_goes_on(page):
    host = mounted(page, "pass")
    for hidden in ("dog is", "✓", "a + 1", "after the pass"):
        assert hidden not in host.inner_text()
    assert host.get_by_role("button", name="verify").is_disabled()
    press(host, "2", "verify")
    text = host.inner_text()
    assert "Not right, you chose 2. 2 of 4 accepted. The target predicts “dog”, not “fox”: the correction." in text
    assert "Later rows have read “fox”" in text and "a + 1 = 2 + 1 = 3 tokens" in text
    assert host.locator(".la-s-mark").all_inner_texts() == ["✓ accepted", "✓", "✕ rejected", "· not tested"]
    assert host.locator(".la-f-swept").all_inner_texts() == ["✕ fox", "✕ jumps"]
    press(host, "next pass")
    assert host.get_by_text("The text so far: The quick brown dog", exact=True).is_visible()
    press(host, "draft sleeps", "draft in", "draft the", "draft sun")
    assert host.get_by_role("button", name="draft dog").is_disabled(), "four words at most"
    press(host, "5", "verify")
    text = host.inner_text()
    assert "Right. All 4 accepted." in text and "8 tokens in 2 passes; naive decoding needs 8 passes" in text
    press(host, "start again")
    assert host.locator(".la-s-box:not(:empty)").all_inner_texts() == ["quick", "brown", "fox", "jumps"]


def test_a_bug_changes_the_drawing_after_the_prediction(page):
    host = mounted(page, "pass", "07")
    assert host.get_by_role("button", name="accepted prefix dropped").get_attribute("aria-pressed") == "true"
    press(host, "3", "verify")
    assert "Not right, you chose 3." in host.inner_text() and "The text is wrong" in host.inner_text()
    press(host, "correct loop")
    assert "wrong" not in host.inner_text(), "another loop is another question"
    host = mounted(page, "pass", "09")
    press(host, "8", "verify")
    assert "Right." in host.inner_text() and "small green frog who toad" in host.inner_text()
    assert host.locator(".la-f-wrong").all_inner_texts() == ["≠ frog", "≠ who"]


def test_terms_of_the_prose_outline_their_part(page):
    parts = ("draft", "rows", "predictions", "accepted", "correction", "cache")
    terms = " ".join(f"[{part}](#{part})" for part in parts)
    page.evaluate(
        "html => { document.body.innerHTML = `<div id=la-lesson>${html}<div id=host></div></div>` }", to_html(terms)
    )
    page.evaluate("modules.terms.connect(document.getElementById('la-lesson'))")
    mounted(page, "pass", "01")
    lit = """() => [...document.querySelectorAll('#host [data-part], #host [data-part] *')]
      .filter(node => getComputedStyle(node).outline.includes('solid 3px')).map(node => node.closest('[data-part]').dataset.part)"""
    assert page.evaluate(lit) == []
    for part in parts:
        term = page.get_by_role("button", name=part, exact=True)
        term.hover()
        assert {*page.evaluate(lit)} == {part}, part
    term.press("Enter")
    page.mouse.move(0, 800)
    assert {*page.evaluate(lit)} == {"cache"} and term.get_attribute("aria-pressed") == "true", "it stays"
    term.press("Enter")
    term.blur()
    assert page.evaluate(lit) == []


def test_rows_fill_the_wait(page):
    host = mounted(page, "weights")
    slider = host.get_by_role("slider")
    blocks = "document.querySelector('.la-f-rows').getAttribute('d').match(/M/g).length"
    assert page.evaluate(blocks) == 1 and "still waits 15.9 ms" in host.inner_text()
    for _ in range(8):
        slider.press("ArrowRight")
    assert page.evaluate(blocks) == 200 and "The rows fill the wait exactly." in host.inner_text()
    wait, filled = (host.locator(name).bounding_box() for name in (".la-f-wait", ".la-f-rows"))
    assert filled["x"] + filled["width"] == pytest.approx(wait["x"] + wait["width"], abs=2)


def test_matches(page):
    words = ["the", "cat", "sat", "on", "the", "mat", ".", "the", "dog", "saw", "the", "cat"]
    assert page.evaluate("w => modules.matching.matchOf(w)", words) == {
        "from": 0, "length": 2, "draft": ["sat", "on", "the", "mat"],
    }  # fmt: skip
    assert page.evaluate("w => modules.matching.followers(w)", [*words, "sat", "on", "the"]) == [
        ["cat", 2], ["mat", 1], ["dog", 1],
    ]  # fmt: skip
    assert page.evaluate("[1, 200, 400].map(modules.weights.passMs)") == [16, 16, 32]


def test_a_verdict_is_hidden_until_the_next_step(page):
    host = mounted(page, "matching")
    drafted = host.locator(".la-f-text").first.locator(".la-f-drafted")
    assert drafted.all_inner_texts() == ["sat", "on", "the", "mat"]
    assert not host.locator(".la-f-accepted, .la-f-rejected").count() and "rejected" not in host.inner_text()
    host.get_by_role("button", name="words read: next").click()
    verdict = host.locator(".la-f-text").nth(1)
    assert verdict.locator(".la-f-rejected").inner_text().startswith("✕ sat")
    assert verdict.locator(".la-f-not-tested").count() == 3
    assert "0 of 4 words accepted" in verdict.inner_text()


def test_the_shortest_match_changes_the_passes(page):
    passes = page.evaluate("[1, 2, 3, 4].map(modules.matching.passesOf)")
    assert [entry["lookup"] for entry in passes] == [17, 18, 19, 20]
    assert {(entry["naive"], entry["oracle"]) for entry in passes} == {(22, 5)}
    host = mounted(page, "matching")
    assert "18 with lookup, 22 naive, 5 with an oracle" in host.inner_text()
    host.get_by_role("slider", name="shortest match").press("ArrowRight")
    assert "19 with lookup" in host.inner_text() and "No match of 3 words or more" in host.inner_text()


def test_a_window_moves_fills_the_pool_and_drafts_from_it(page):
    passes_of = "([columns, n, guesses]) => modules.window.passesOf({columns, n, guesses})"
    passes = page.evaluate(passes_of, [3, 3, 2])
    for before, after in itertools.pairwise(passes):
        assert after["levels"][-1] == before["predictions"]
        assert after["text"] == before["text"] + before["emitted"]
        assert before["rows"] == 1 + 3 * len(before["levels"]) + 2 * len(before["candidates"])
        assert all(candidate["words"][0] == before["text"][-1] for candidate in before["candidates"])
        added = {" ".join(ngram["words"]) for ngram in before["found"]}
        assert added <= {" ".join(ngram["words"]) for ngram in after["pool"]}
    naive = page.evaluate(passes_of, [3, 3, 0])
    text, other = passes[-1]["text"], naive[-1]["text"]
    assert text[: len(other)] == other and len(text) > len(other), "the same text in fewer passes"
    opened = passes[page.evaluate(f"modules.window.firstAccepted(({passes_of})([3, 3, 2]))") - 1]
    assert opened["accepted"] == 2 and len(opened["levels"]) == 2


def test_w_n_and_g_are_handles(page):
    host = mounted(page, "window")
    assert "A pass of 9 rows" in host.inner_text() and host.locator(".la-f-cell").count() == 9
    columns = host.get_by_role("slider", name="W, columns")
    columns.press("ArrowRight")
    assert host.locator(".la-f-cell").count() == 12 and page.evaluate("document.activeElement.textContent") == "W = 4 ↔"
    box = columns.bounding_box()
    page.mouse.move(box["x"] + 20, box["y"] + 10)
    page.mouse.down()
    page.mouse.move(box["x"] - 80, box["y"] + 10, steps=3)
    page.mouse.up()
    assert host.locator(".la-f-cell").count() == 6, "W = 2 after a drag of two cells"
    host.get_by_role("slider", name="N, words of an n-gram").press("ArrowUp")
    assert host.locator(".la-f-side").all_inner_texts() == ["level 1", "level 2", "level 3", "predicts"]
    host.get_by_role("slider", name="G, n-grams per pass").press("Home")
    assert "none: nothing is drafted" in host.inner_text()
    mask = host.locator(".la-m-field")
    mask.focus()
    page.keyboard.press("ArrowUp")
    assert host.locator(".la-f-attended").count() > 0 and "attends to" in host.locator(".la-m-line").inner_text()


def test_the_race_of_the_race_tab_is_on_the_curve(page):
    host = mounted(page, "costs")
    assert "Run a race" in host.inner_text()
    assert "1 pass of one row + 0.12 for 4 further rows + 0.40 for drafting" in host.inner_text()
    widths = host.locator(".la-f-part").evaluate_all("all => all.map(node => node.offsetWidth)")
    assert widths == pytest.approx([widths[0] * x for x in (1, 0.8, 0.64, 0.512, 0.4096, 1, 0.12, 0.4)], abs=2)
    page.evaluate("race => { window.lookahead = {race: () => race}; }", RACE)
    host = mounted(page, "costs")
    assert "Accepted of tested (α): 0.81. Accepted of drafted: 0.62." in host.inner_text()
    assert host.locator("svg text", has_text="your race").count() == 1
    assert host.locator("svg text", has_text="draft length k, in tokens per pass").count() == 1
    assert host.locator("svg text", has_text="speedup over naive").count() == 1
    host.get_by_role("button", name="use its numbers").click()
    assert host.get_by_role("slider").all_inner_texts() == ["0.81", "0.09", "0.06", "3"]
    assert page.evaluate("race => modules.costs.valuesOf(race)", RACE) == {
        "alpha": 0.81,
        "c": 0.09,
        "row": 0.06,
        "k": 3,
    }


def test_a_race_is_measured_as_in_lesson_6(page):
    """Naive needs 1 s per token. Two passes draft 2 tokens each in 0.1 s: one accepts both, the other none."""
    measured = page.evaluate("""() => {
      const log = modules.log.createLog();
      const step = (index, emitted, statuses, propose_s) => ({kind: 'verify', index, emitted, statuses, propose_s,
        pieces: emitted.map(String), origins: emitted.map(() => 'bonus'), path: [], draft: {tokens: statuses}});
      const of = (lane, i, emitted, statuses, clock_s) => ({kind: 'step', lane, clock_s, step: step(i, emitted, statuses, 0.1)});
      const lanes = [{method: 'naive'}, {method: 'draft'}];
      modules.log.applyBatch(log, {run: 'a', i0: 0, ev: [{kind: 'begin', trace: {lanes, settings: {}}},
        ...[1, 2, 3, 4].map(i => of(0, i, [i], [], i)),
        of(1, 1, [1, 2, 3], ['accepted', 'accepted'], 1), of(1, 2, [4], ['rejected', 'unvisited'], 2)]});
      const before = modules.measured.measuredOf(log);
      modules.log.applyBatch(log, {run: 'a', i0: 7, ev: [{kind: 'end', reason: 'done'}]});
      return [before, modules.measured.measuredOf(log)];
    }""")
    assert measured[0] is None, "a race that runs"
    values = {"k": 2, "alpha": 2 / 3, "share": 0.5, "tokens": 2, "speedup": 2, "cost": 1, "c": 0.05}
    assert measured[1] == pytest.approx(values | {"method": "draft", "live": False})


def test_towers_show_what_each_drafter_reads(page):
    config = json.loads((POCKET / "eagle" / "config.json").read_text(encoding="utf-8"))
    block = json.loads((POCKET / "block" / "config.json").read_text(encoding="utf-8"))
    drafters = {entry["name"]: entry for entry in page.evaluate("modules.towers.DRAFTERS")}
    assert drafters["EAGLE-3"]["taps"] == config["eagle_aux_hidden_state_layer_ids"]
    assert drafters["block head"]["taps"] == block["aux_hidden_state_layer_ids"]
    host = mounted(page, "towers")
    assert host.locator(".la-f-chosen figcaption").inner_text() == "EAGLE-3"
    for name, words, passes in (
        ("draft model", "“who” “lived”", 3),
        ("Medusa", "no drafted token", 1),
        ("block head", "“lived”", 1),
    ):
        host.get_by_role("button", name=name).click()
        assert host.locator(".la-f-chosen figcaption").inner_text() == name
        facts = host.locator(".la-f-facts").inner_text()
        assert f"For drafted token 3 it reads {words}." in facts
        assert f"{passes} pass{'es' if passes > 1 else ''} of the drafter for 3 tokens" in facts
        assert host.locator(".la-f-chosen .la-f-tapped").count() == len(drafters[name]["taps"])


def test_counters_are_the_numbers_of_lesson_6(page):
    numbers = page.evaluate(
        "modules.counters.ENGINES.map((e, i) => modules.counters.numbersOf(i, e.fields.map(f => f[1])))"
    )
    for entry in numbers:
        assert entry == pytest.approx({"k": 4, "tokens": 3.36, "share": 0.59, "alpha": 0.8}, abs=0.005)
    assert page.evaluate("modules.counters.alphaOf(1, 4)") == pytest.approx(0.52, abs=0.005)
    host = mounted(page, "counters")
    host.get_by_label("num_accepted_tokens_total").fill("9000")
    assert "impossible" in host.inner_text()
    host.get_by_role("button", name="SGLang").click()
    assert "Tokens per pass: 3.36" in host.inner_text()


def test_a_tree_is_walked_by_hand(page):
    assert page.evaluate("[3, 6].map(modules.tree.expected)") == [2.2, 2.77]
    assert page.evaluate("modules.tree.walk(6, 'dog ran home now').map(step => step.node)") == [2, 5, -1]
    chances = page.evaluate("modules.tree.NODES.map((_, i) => modules.tree.chance(i))")
    assert chances == sorted(chances, reverse=True), "each added row has the most probable path that is left"
    host = mounted(page, "tree")
    following = host.get_by_role("button", name="walk: next")
    assert "Guess" in host.inner_text() and not host.locator("rect.la-f-accepted").count()
    for _ in range(3):
        following.click()
    assert "Written: dog ran home. 3 tokens in one pass." in host.inner_text()
    assert host.locator("rect.la-f-accepted").count() == 2
    host.get_by_role("button", name="fox hid").click()
    assert "Guess" in host.inner_text(), "another text begins a new walk"
    following.click()
    assert "Written: fox. 1 token in one pass." in host.inner_text()
    host.get_by_role("slider", name="drafted rows").press("ArrowLeft")
    assert "= 2.59." in host.inner_text()


@pytest.mark.parametrize("name", NAMES)
def test_each_reacts_to_the_keyboard(page, name):
    host = mounted(page, name)
    before = host.inner_text()
    if name == "counters":
        host.get_by_label("num_accepted_tokens_total").focus()
        page.keyboard.press("End")
        page.keyboard.type("0")
    elif name == "pass":
        host.get_by_role("button", name="3", exact=True).focus()
        page.keyboard.press("Enter")
        page.keyboard.press("Tab")
        page.keyboard.press("Tab")
        page.keyboard.press("Tab")
        page.keyboard.press("Enter")
        assert "Right." in host.inner_text()
    else:
        handle = host.get_by_role("slider").first
        handle.press("ArrowRight")
        assert handle.get_attribute("aria-valuetext")
    assert host.inner_text() != before


def test_handles_are_large_enough_for_a_finger(chromium):
    page = blank(chromium, (390, 844), has_touch=True, is_mobile=True)
    handles = "#host :is(.la-f-scrub, .la-f-end, input[type=range], button)"
    for name in NAMES:
        mounted(page, name)
        low = page.evaluate(
            f"[...document.querySelectorAll('{handles}')].filter(node => node.offsetHeight < 44).length"
        )
        assert low == 0, name
    page.close()


@pytest.mark.parametrize("size", [(900, 900), (390, 844)])
def test_none_is_wider_than_the_page(chromium, size):
    page = blank(chromium, size)
    for name, lesson in [*((name, "02") for name in NAMES), ("pass", "07"), ("pass", "09")]:
        host = mounted(page, name, lesson)
        if name == "pass":
            press(host, "3" if lesson != "09" else "8", "verify")
        assert page.evaluate("document.documentElement.scrollWidth") <= size[0], name
    page.close()


def test_a_state_is_restored_and_reads_accepted_words_again(page):
    read = "([step, isBroken]) => modules.state.readAt(step, isBroken)"
    text, kept, rejected = ["Once", "there", "was"], ["a", "small", "green"], ["frog", "who"]
    assert page.evaluate(read, [1, False]) == page.evaluate(read, [3, False]) == text, "the snapshot"
    assert page.evaluate(read, [4, False]) == [*text, *kept, "toad"]
    assert page.evaluate(read, [4, True]) == [*text, *kept, *rejected, "toad"]
    assert page.evaluate("modules.state.weightsOf(['a', 'b', 'c'])") == [
        ["a", pytest.approx(0.81)],
        ["b", 0.9],
        ["c", 1],
    ]


def test_the_broken_loop_shows_rejected_words_in_the_state(page):
    host = mounted(page, "state")
    for _ in range(3):
        host.get_by_role("button", name="step: next").click()
    assert "✕ frog" in host.inner_text() and "≠" not in host.inner_text()
    press(host, "state not restored")
    assert "≠ frog" in host.inner_text() and "which are not in the text" in host.inner_text()


@pytest.mark.parametrize("theme", ["light", "dark"])
def test_axe_finds_nothing_in_them(chromium, theme):
    page = blank(chromium)
    page.evaluate(f"document.body.classList.toggle('dark', {json.dumps(theme == 'dark')})")
    for name in NAMES:
        host = mounted(page, name)
        assert violations(page) == [], name
        if name == "pass":
            press(host, "3", "verify")
            assert violations(page) == [], "with its outcome"
    page.close()


# Milliseconds per move with layout, for 60 moves: of a dragged handle, a slider, or a text field.
MOVES = """async node => {
  const box = node.getBoundingClientRect(), x = box.x + box.width / 2, y = box.y + box.height / 2, range = node.type === 'range';
  const fire = (type, dx) => node.dispatchEvent(new PointerEvent(type, {clientX: x + dx, clientY: y - dx / 2, pointerId: 1, bubbles: true}));
  const set = i => { node.value = range ? +node.min + i % (node.max - node.min + 1) : ['dog', 'fox'][i % 2];
    node.dispatchEvent(new Event('input', {bubbles: true})); };
  const times = [], move = 'value' in node ? set : i => fire('pointermove', i);
  node.setPointerCapture = () => {}; fire('pointerdown', 0);
  for (let i = 0; i < 60; i++) {
    const start = performance.now(); move(i); document.body.offsetHeight; times.push(performance.now() - start);
    await new Promise(requestAnimationFrame); }
  fire('pointerup', 60); return times.sort((a, b) => a - b)[Math.floor(0.95 * times.length)]; }"""


@pytest.mark.timed
@pytest.mark.parametrize("name", [name for name in NAMES if name != "pass"])
def test_a_drag_is_drawn_within_a_frame(page, name):
    host = mounted(page, name)
    handle = host.locator(".la-f-scrub, .la-f-end, input").first
    handle.scroll_into_view_if_needed()
    before = host.inner_text()
    slowest = handle.evaluate(MOVES)
    assert host.inner_text() != before, "it was dragged"
    assert slowest < 20, f"{slowest} ms"
