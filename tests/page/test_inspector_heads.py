"""The inspector's drawing of a trained head's draft: the head's input, its tokens, and the end of the draft. No server, no model."""

import pytest
from test_inspector import FAKES, lines
from test_inspector import blank as inspected

pytestmark = pytest.mark.browser

HEADS = (
    FAKES
    + """
const H = modules.heads;
const head = extra => ({name: "a head", taps: [2, 5, 7, 10], layers: 12, slots: 8, markov: true, confident: true, ...extra});
const heads = {block: head(), eagle: head({taps: [2, 6, 9], slots: 1, markov: false, confident: false}), medusa: head({taps: [12], slots: 4, markov: false, confident: false})};
const draftedBy = (name, step) => ({...step, draft: {...step.draft, sources: step.draft.sources.map(() => name)}});
/** A log whose last lane is `method` with the head `kind`; its pass is `step`. */
function drafted(method, kind, {step = greedy, source = method, settings = {}, changed = {}, before = []} = {}) {
  const models = {spec: "pocket", target: "t", drafts: {}, heads: {...heads, [kind]: {...heads[kind], ...changed}}};
  const log = logOf("greedy", [base, [method, [prefill, ...before, draftedBy(source, step)]]], {models, prompt: {text: "Once upon a time", tokens: [], pieces: ["Once", " upon", " a", " time"]}});
  log.lanes[1].options = {draft: kind};
  log.modelSources = [kind, `${kind}-tree`];
  Object.assign(log.header.settings, {k: "auto", max_new_tokens: 64}, settings);
  return log;
}
function seen(log, step = 1) { inspector.hide(); open(log, 1, step); return document.querySelector(".la-drafting"); }
"""
)


def blank(browser, **options):
    return inspected(browser, HEADS, **options)


def positions(page):
    """Label and tokens of every position of the draft."""
    return page.evaluate(
        "[...document.querySelectorAll('.la-h-place')].map(li => [...li.querySelectorAll('.la-i-label, .la-i-token, .la-h-none')].map(n => n.textContent))"
    )


# ------------------------------------------------------------------ the head's input


@pytest.mark.parametrize(
    ("taps", "layers", "label"),
    [
        ([2, 5, 7, 10], 12, "the hidden states after layers 2, 5, 7 and 10 of 12"),
        ([12], 12, "the hidden states after the last of 12 layers"),
        ([4], 12, "the hidden states after layer 4 of 12"),
        ([0, 3], 12, "the hidden states after layers the embedding and 3 of 12"),
        (list(range(1, 12)), 12, "the hidden states after layers 1, 2, 3, 4, 5, 6, 7, 8 and 3 more of 12"),
    ],
)
def test_layers_are_named(page, taps, layers, label):
    changed = f"{{changed: {{taps: {taps}, layers: {layers}}}}}"
    assert page.evaluate(f"H.draftingOf(drafted('block', 'block', {changed}), 1, 1).layersLabel") == label


def test_read_layers_are_tall_filled_and_numbered(page):
    page.evaluate("seen(drafted('block', 'block'))")
    marks = page.evaluate(
        "[...document.querySelectorAll('.la-h-layers rect')].map(r => [r.classList.contains('la-h-read'), r.height.baseVal.value])"
    )
    assert [i + 1 for i, (is_read, _) in enumerate(marks) if is_read] == [2, 5, 7, 10] and len(marks) == 12
    read, passed = ({height for is_read, height in marks if is_read is wanted} for wanted in (True, False))
    assert min(read) > max(passed), "a shape, not a color alone"
    assert page.evaluate("[...document.querySelectorAll('.la-h-layers text')].map(t => t.textContent)") == [
        "2", "5", "7", "10",
    ]  # fmt: skip
    assert page.get_attribute(".la-h-layers", "aria-hidden") == "true", "the sentence above has its meaning"


def test_a_block_reads_all_before_the_anchor_and_medusa_one_state(page):
    page.evaluate("seen(drafted('block', 'block'))")
    read = "[...document.querySelectorAll('.la-h-text tbody td')].map(td => td.textContent)"
    assert page.evaluate(read) == ["●read", "●read", "●read", "○not read"]
    assert page.inner_text(".la-h-text thead").split() == ["token", "Once", "upon", "a", "time"]
    assert "all the text before the anchor" in page.inner_text(".la-h-words")
    page.evaluate("seen(drafted('medusa', 'medusa'))")
    assert page.evaluate(read) == ["○not read", "○not read", "●read", "○not read"]
    assert "of one token, the last that the target has read" in page.inner_text(".la-h-words")


def test_eagle_reads_pairs(page):
    page.evaluate("seen(drafted('eagle', 'eagle'))")
    assert page.evaluate("[...document.querySelectorAll('.la-h-text th')].map(th => th.textContent)") == [
        "embedding of", "…", " upon", " a", " time", "states of",
    ]  # fmt: skip
    assert lines(page, ".la-h-text") == [["states of", "…", "Once", "upon", "a"]]


def test_the_head_reads_text_that_was_emitted_before_the_pass(page):
    page.evaluate("seen(drafted('block', 'block', {before: [draftedBy('block', greedy)]}), 2)")
    assert page.inner_text(".la-h-text thead").split() == ["token", "…", "time", "a", "b", "c"]


# ------------------------------------------------------------------ how it drafted


def test_a_block_has_slots_arrows_confidences_and_empty_slots(page):
    page.evaluate("seen(drafted('block', 'block'))")
    assert positions(page) == [
        ["anchor", " time"], ["slot 1", " a"], ["slot 2", " b"], ["slot 3", " d"], ["slot 4", " e"],
        ["slot 5", "empty"], ["slot 6", "empty"], ["slot 7", "empty"], ["slot 8", "empty"],
    ]  # fmt: skip
    items = page.evaluate(
        "[...document.querySelectorAll('.la-h-place')].map(li => li.querySelectorAll('.la-h-arrow').length)"
    )
    assert items == [0, 1, 1, 1, 1, 0, 0, 0, 0], "from the token before into each slot that has one"
    numbers = page.evaluate(
        "[...document.querySelectorAll('.la-h-chance')].map(n => [n.textContent, n.querySelector('.la-i-fill').style.width])"
    )
    assert numbers == [
        ["confidence 0.900", "90%"], ["confidence 0.800", "80%"], ["confidence 0.310", "31%"], ["confidence 0.500", "50%"],
    ]  # fmt: skip
    text = page.inner_text(".la-drafting")
    assert "1 pass of the head" in text and "Markov" in text and "its estimate that the token is accepted" in text
    assert "not worth its row" in text and "4 slots empty" in text
    fates = page.evaluate("[...document.querySelectorAll('.la-h-token .la-unseen')].map(n => n.textContent)")
    assert fates[:3] == [", accepted", ", accepted", ", rejected"], "as text, in addition to color and shape"


@pytest.mark.parametrize(
    ("settings", "changed", "end"),
    [
        ("{k: 4}", "{}", "k"),
        ("{k: 5}", "{}", ""),
        ("{k: 4, max_new_tokens: 5}", "{}", "max_tokens"),
        ("{}", "{slots: 4}", "full"),
        ("{}", "{}", "auto"),
    ],
)
def test_the_reason_for_the_end_of_a_draft(page, settings, changed, end):
    log = f"drafted('block', 'block', {{settings: {settings}, changed: {changed}}})"
    assert page.evaluate(f"H.draftingOf({log}, 1, 1).end") == end
    page.evaluate(f"seen({log})")
    text = page.inner_text(".la-drafting")
    sentences = {
        "k": "k is 4",
        "max_tokens": "the text ends here",
        "full": "All 4 slots were used",
        "auto": "not worth",
    }
    assert [key for key, part in sentences.items() if part in text] == ([end] if end else [])


def test_a_block_without_markov_and_confidence_mentions_neither(page):
    page.evaluate("seen(drafted('block', 'block', {changed: {markov: false, confident: false}}))")
    text = page.inner_text(".la-drafting")
    assert "Slots do not read each other" in text and "Markov" not in text and "confidence" not in text
    assert page.locator(".la-h-arrow").count() == 0


def test_eagle_goes_token_by_token_on_its_own_features(page):
    page.evaluate("seen(drafted('eagle', 'eagle'))")
    assert [position[0] for position in positions(page)] == [
        "last token", "pass 1from the target’s states", *(f"pass {i}from its own feature" for i in (2, 3, 4)),
    ]  # fmt: skip
    assert page.evaluate(
        "[...document.querySelectorAll('.la-h-place')].map(li => li.querySelectorAll('.la-h-arrow').length)"
    ) == [0, 0, 1, 1, 1]
    assert "4 passes of the head" in page.inner_text(".la-drafting") and "empty" not in page.inner_text(".la-drafting")


def test_medusas_heads_do_not_read_each_other(page):
    page.evaluate("seen(drafted('medusa', 'medusa'))")
    assert [position[0] for position in positions(page)] == ["last token", "head 1", "head 2", "head 3", "head 4"]
    assert page.locator(".la-h-arrow").count() == 0 and "They do not read each other" in page.inner_text(".la-drafting")


def test_a_tree_is_drawn_by_depth_with_each_tokens_parent(page):
    page.evaluate("seen(drafted('block-tree', 'block', {step: tree}))")
    assert positions(page)[1:3] == [["slot 1", " a", " b", " d"], ["slot 2", " c", "a", " e", "b"]]
    text = page.inner_text(".la-drafting")
    assert "after a" in text and "after b" in text and "confidence" not in text, "a tree's numbers are probabilities"
    assert page.locator(".la-h-empty").count() == 6


# ------------------------------------------------------------------ names that are unknown to the page


@pytest.mark.parametrize(
    ("record", "shape", "first"),
    [
        ("{taps: [3], layers: 12, slots: 8}", "slots", "slot 1"),
        ("{taps: [12], layers: 12, slots: 4}", "heads", "head 1"),
        ("{taps: [12], layers: 12, slots: 1}", "passes", "pass 1from the target’s states"),
    ],
)
def test_a_head_is_drawn_by_its_record_under_any_name(page, record, shape, first):
    log = f"drafted('echo', 'novel', {{changed: {{name: 'a head', markov: false, confident: false, ...{record}}}}})"
    assert page.evaluate(f"H.draftingOf({log}, 1, 1).shape") == shape
    page.evaluate(f"seen({log})")
    assert [position[0] for position in positions(page)][1] == first


def test_a_tree_of_an_unknown_method_is_drawn_with_its_tests(page):
    page.evaluate("open(logOf('greedy', [base, ['echo', [prefill, draftedBy('echo', tree)]]]), 1, 1)")
    assert page.inner_text(".la-i-title").startswith("echo: ")
    assert page.locator("th.la-i-drafted").count() > 5 and page.locator(".la-drafting, .la-microscope").count() == 0


# ------------------------------------------------------------------ drafts without a trained head


@pytest.mark.parametrize(
    "log",
    [
        "logs.greedy()",  # a draft model; a recording from before there were heads
        "drafted('draft', 'offdomain', {source: 'draft'})",
        "drafted('hybrid', 'block', {source: 'suffix'})",
        "drafted('block', 'block', {step: naive(' a', 1, 7)})",
        "drafted('block', '__proto__')",
    ],
)
def test_other_drafts_have_no_such_part(page, log):
    page.evaluate(f"open({log}, 1, 1)")
    assert page.locator(".la-i-title").count() == 1 and page.locator(".la-drafting").count() == 0


@pytest.mark.parametrize("source", ["block", "block-tree"])
def test_a_hybrid_that_drafts_with_a_head_has_it(page, source):
    page.evaluate(f"seen(drafted('hybrid', 'block', {{source: '{source}'}}))")
    assert page.locator(".la-h-place").count() == 9


# ------------------------------------------------------------------ untrusted files, phones


def test_an_untrusted_head_is_cut_and_stays_text(page):
    page.evaluate("""(() => { const bad = '<img src=x onerror="window.hit=1">';
      const step = {...greedy, draft: {...greedy.draft, pieces: greedy.draft.pieces.map(() => bad)}};
      const log = drafted('block', 'block', {step, changed: {name: bad, layers: 1e9, slots: 1e9, taps: Array.from({length: 5000}, (_, i) => i)}});
      log.header.prompt.pieces = [bad, bad, bad]; seen(log); })()""")
    assert page.locator("img").count() == 0 and page.evaluate("window.hit") is None
    assert page.locator(".la-h-place").count() <= 40 and page.locator(".la-h-layers").count() == 0
    assert page.evaluate("document.documentElement.scrollWidth <= innerWidth")
    assert "4992 more of 1000000000" in page.inner_text(".la-h-words")


@pytest.mark.parametrize("log", ["drafted('block', 'block')", "drafted('eagle-tree', 'eagle', {step: tree})"])
def test_on_a_phone_it_is_a_vertical_list(chromium, log):
    page = blank(chromium, size=(390, 844))
    page.evaluate(f"seen({log})")
    assert page.evaluate("inspector.node.scrollWidth <= inspector.node.clientWidth")
    tops = page.evaluate("[...document.querySelectorAll('.la-h-place')].map(li => li.getBoundingClientRect().top)")
    assert tops == sorted(set(tops))
    assert page.problems == []
    page.close()
