"""The pass inspector, the card of a token and the lookahead microscope in a real page, fed with hand-made passes.

No server, no model. The rejection-rule pass is small enough to compute by hand. The window moves as lookahead's does (the
oldest level is dropped, the target's predictions enter), so origins and repeated guesses can be checked by eye.
"""

import pytest
from chromium import bare_page, exposed

from lookahead.trace import assets

pytestmark = pytest.mark.browser

FAKES = """
const none = {tokens: [], parents: [], pieces: [], sources: [], chances: [], window: 0, births: []};
const blank = {kind: "verify", draft: none, statuses: [], path: [], emitted: [], pieces: [], origins: [], tests: [],
               propose_s: 0.001, verify_s: 0.008, other_s: 0.0002, finish: null};
const words = [" a", " b", " c", " d", " e", " f", " the", " small", " frog", " who", " sat", " on", " it", " and", " ran"];
const id = word => words.indexOf(word);
const draft = (pieces, parents, extra) => ({...none, tokens: pieces.map(id), parents, pieces, sources: pieces.map(() => "draft"), ...extra});
const chain = pieces => pieces.map((_, i) => i - 1);
const emit = (pieces, origins) => ({pieces, origins, emitted: pieces.map(id)});
const test = (row, piece, outcome, extra) => ({row, token: id(piece), outcome, p: null, q: null, draw: null, entropy: null, top: [], margin: null, ...extra});
const best = (...pairs) => pairs.map(([piece, p]) => [id(piece), piece, p]);
const prefill = {...blank, kind: "prefill", index: 0, verify_s: 0.0118, other_s: 0};

const greedy = {...blank, index: 1, draft: draft([" a", " b", " d", " e"], chain([1, 2, 3, 4]), {chances: [0.9, 0.8, 0.31, 0.5]}),
  statuses: ["accepted", "accepted", "rejected", "unvisited"], path: [0, 1], ...emit([" a", " b", " c"], ["accepted", "accepted", "correction"]),
  tests: [test(0, " a", "accepted", {p: 0.7, entropy: 1.0397, top: best([" a", 0.7], [" c", 0.2])}), test(1, " b", "accepted", {p: 0.5, top: best([" b", 0.5], [" d", 0.3])}),
          test(2, " d", "rejected", {p: 0.003}), test(null, " c", "correction", {p: 0.6, top: best([" c", 0.6], [" e", 0.25])})]};

// p = 0.5 against q = 0.8: a draw below 0.625 accepts. Then p = 0.09 against q = 0.6 (0.15), rejected at 0.4.
const drawn = {...blank, index: 1, draft: draft([" a", " b", " e"], chain([1, 2, 3])), statuses: ["accepted", "rejected", "unvisited"], path: [0],
  ...emit([" a", " c"], ["accepted", "correction"]),
  tests: [test(0, " a", "accepted", {p: 0.5, q: 0.8, draw: 0.3, top: best([" a", 0.5], [" d", 0.3])}), test(1, " b", "rejected", {p: 0.09, q: 0.6, draw: 0.4}),
          test(null, " c", "correction", {p: 0.68, draw: 0.2, top: best([" c", 0.7], [" d", 0.12], [" b", 0.09])})]};
// A tree of point masses: " a" (0.2) rejected, then its sibling " b" accepted with 0.3 / 0.8 of the residual; " c" is a child of " a".
const forked = {...blank, index: 2, draft: draft([" a", " b", " d", " c", " e"], [-1, -1, -1, 0, 1], {chances: [0.6, 0.3, 0.1, 0.5, 0.4]}),
  statuses: ["rejected", "accepted", "unvisited", "unvisited", "rejected"], path: [1], ...emit([" b", " f"], ["accepted", "correction"]),
  tests: [test(0, " a", "rejected", {p: 0.2, q: 1, draw: 0.9}), test(1, " b", "accepted", {p: 0.375, q: 1, draw: 0.1, top: best([" c", 0.4], [" b", 0.3], [" a", 0.2])}),
          test(4, " e", "rejected", {p: 0.1, q: 1, draw: 0.5}), test(null, " f", "correction", {p: 0.5, draw: 0.7, top: best([" f", 0.45])})]};
const tree = {...forked, tests: forked.tests.map(test => ({...test, q: null, draw: null}))};
const naive = (piece, i, ms) => ({...blank, index: i, ...emit([piece], ["bonus"]), propose_s: 0, verify_s: ms / 1000, tests: [test(null, piece, "bonus", {p: 0.4, top: best([piece, 0.4])})]});
const opaque = {...blank, index: 1, propose_s: 0, verify_s: 0.02, other_s: 0, ...emit([" a", " b"], ["accepted", "bonus"])};

/** A window pass: levels as text, n-grams [pieces after the root, origin] as separate chains. */
function looked(index, levels, grams, accepted, own) {
  const pieces = [], parents = [], births = [];
  for (const [gram, birth] of grams) gram.forEach((piece, i) => { parents.push(i ? pieces.length - 1 : -1); pieces.push(piece); births.push(birth); });
  const n = pieces.length, W = levels[0].length;
  levels.forEach((level, l) => level.forEach((piece, c) => { pieces.push(piece); births.push(null); parents.push(l ? n + (l - 1) * W + c : c ? n + c - 1 : -1); }));
  const statuses = pieces.map((_, row) => row >= n ? "window" : accepted.includes(row) ? "accepted" : accepted.length ? "unvisited" : "rejected");
  const taken = accepted.map(row => pieces[row]);
  const tests = [...accepted.map(row => test(row, pieces[row], "accepted", {p: 0.5})), test(null, own, "bonus", {p: 0.5})];
  return {...blank, index, draft: draft(pieces, parents, {window: pieces.length - n, births}), statuses, path: accepted, tests,
          ...emit([...taken, own], [...taken.map(() => "accepted"), "bonus"])};
}
// N = 3, W = 3. Pass 2 is full and finds "who sat on" at column 2 (1 from 0); pass 3 verifies it after " who".
const window3 = [
  looked(1, [[" the", " a", " b"]], [], [], " frog"),
  looked(2, [[" the", " who", " b"], [" a", " sat", " on"]], [[[" c", " d"], null]], [], " who"),
  looked(3, [[" a", " sat", " on"], [" sat", " on", " it"]], [[[" sat", " on"], [2, 1]], [[" e", " f"], null]], [0, 1], " it"),
];
const rule = (name, extra) => ({settings: {max_new_tokens: 8, rule: name}, prompt: {text: "Once upon a time", tokens: [], pieces: []}, costs: {rows: [1, 2, 5], seconds: [0.005, 0.006, 0.009]}, ...extra});
function logOf(name, lanes, extra) {
  const log = modules.log.createLog(), ev = [{kind: "begin", caption: null, live: false, trace: {...rule(name, extra), lanes: lanes.map(([method, , opaque]) => ({method, options: {}, opaque: Boolean(opaque)}))}}];
  lanes.forEach(([, steps], lane) => steps.forEach((step, i) => ev.push({kind: "step", lane, clock_s: i * 0.01, step})));
  ev.push({kind: "end", reason: "finished", message: null, stats: [], verdict: null, agreement: []});
  modules.log.applyBatch(log, {run: "r", i0: 0, ev, end: true});
  return log;
}
const base = ["naive", [prefill, naive(" a", 1, 7), naive(" b", 2, 10), naive(" c", 3, 8)]];
const logs = {
  greedy: () => logOf("greedy", [base, ["draft", [prefill, greedy]]]),
  coupled: () => logOf("coupled", [base, ["draft", [prefill, greedy]]]),
  rejection: () => logOf("rejection", [["draft", [prefill, drawn, forked]]]),
  tree: () => logOf("greedy", [base, ["tree", [prefill, greedy, tree]]]),
  opaque: () => logOf("greedy", [base, ["peer", [prefill, opaque], true]]),
  window: () => logOf("greedy", [base, ["lookahead", [prefill, ...window3]]]),
  pool: () => logOf("greedy", [base, ["lookahead", [prefill, ...window3, looked(4, [[]], [[[" was", " it"], [3, 1]]], [0, 1], " big")]]]),
};
const I = {...modules.text, ...modules.draft, ...modules.positions, ...modules.time, ...modules.pass, ...modules.numbers}, J = modules.jacobi;
window.asked = [];
window.inspector = new modules.inspector.Inspector({close: () => asked.push("close"), go: (lane, step) => { asked.push([lane, step]); inspector.show(shownLog, lane, step); }});
document.querySelector(".la-timeline").append(inspector.node);
function open(name, lane, step) { window.shownLog = typeof name === "string" ? logs[name]() : name; inspector.show(shownLog, lane, step); }
"""


BODY = '<body><button id="before">before</button><div class="la-timeline"></div>'


def blank(browser, script=FAKES, **options):
    names = (
        "text",
        "draft",
        "positions",
        "time",
        "pass",
        "jacobi",
        "heads",
        "rollback",
        "experts",
        "translation",
        "inspector",
        "card",
    )
    modules = exposed("page/numbers.js", "timeline/log.js", *(f"inspector/{name}.js" for name in names))
    return bare_page(browser, BODY, assets.style("timeline/timeline.css"), modules + script, **options)


def lines(page, selector):
    """The visible text of each table row under a selector, cell by cell."""
    return page.evaluate(
        """selector => [...document.querySelectorAll(selector + ' tbody tr')].map(tr => [...tr.children].map(cell => {
          const copy = cell.cloneNode(true);
          copy.querySelectorAll('.la-unseen').forEach(node => node.remove());
          return copy.textContent.trim(); }))""",
        selector,
    )


# ------------------------------------------------------------------ the pure functions


def test_positions_pair_every_rejection_with_the_selected_token(page):
    positions = page.evaluate(
        "I.positionsOf(forked).map(p => [p.index, p.parentRow, p.rejected.map(t => t.row), p.settled.row])"
    )
    assert positions == [[0, -1, [0], 1], [1, 1, [4], None]]


def test_outline_draws_a_tree_and_leaves_a_chain_alone(page):
    rows = page.evaluate("I.outline(tree.draft).rows.map(r => [r.row, r.depth, r.guide])")
    assert rows == [[0, 1, "├ "], [3, 2, "│ └ "], [1, 1, "├ "], [4, 2, "│ └ "], [2, 1, "└ "]]
    assert page.evaluate("I.outline(greedy.draft)") == {
        "rows": [{"row": i, "depth": i + 1, "guide": ""} for i in range(4)],
        "branches": False,
    }


def test_outcomes_distinguish_unreached_rows_from_untested_rows(page):
    assert page.evaluate("[0, 1, 2, 3, 4].map(row => I.statusOf(tree, row))") == [
        "rejected", "accepted", "passed", "unreached", "rejected",
    ]  # fmt: skip
    cut = "({...greedy, statuses: ['accepted', 'accepted', 'unvisited', 'unvisited'], tests: greedy.tests.slice(0, 2), finish: 'eos'})"
    assert page.evaluate(f"[2, 3].map(row => I.statusOf({cut}, row))") == ["ended", "unreached"]


def test_context_is_the_end_of_prompt_and_text(page):
    assert page.evaluate("I.contextOf(logs.greedy(), 0, 3)") == {"text": "Once upon a time a b", "cut": False}
    assert page.evaluate("I.contextOf(logs.greedy(), 0, 3, 12)") == {"text": "a time a b", "cut": True}
    long = "logOf('greedy', [['naive', [prefill, naive(' a', 1, 7)]]], {prompt: {text: '\\u{1F438}'.repeat(500), pieces: []}})"
    assert page.evaluate(f"I.contextOf({long}, 0, 1, 5)") == {"text": "\U0001f438" * 5, "cut": True}
    assert page.evaluate("[1, 2].map(i => I.rootOf(logs.greedy(), 0, i))") == [" time", " a"]


def test_numbers_have_at_most_three_digits(page):
    assert page.evaluate("[1, 0.99996, 0.7853, 0.0421, 0.0042, 0, null].map(I.probability)") == [
        "1.00", "1.00", "0.785", "0.042", "0.0042", "0", "—",
    ]  # fmt: skip
    assert page.evaluate("[0, 1e-6, 0.00012, 0.0083333, 0.0421, 0.412, 1.234].map(I.duration)") == [
        "0.00 ms", "under 0.01 ms", "0.12 ms", "8.33 ms", "42.1 ms", "412 ms", "1.23 s",
    ]  # fmt: skip


def test_costs_are_interpolated_and_extrapolated(page):
    costs = "logs.greedy().header.costs"
    assert page.evaluate(f"[1, 2, 3, 5, 8].map(n => I.costOf({costs}, n))") == pytest.approx(
        [0.005, 0.006, 0.007, 0.009, 0.012]
    )
    assert page.evaluate(f"I.costOf({{...{costs}, branching_s: 0.002}}, 3, true)") == pytest.approx(0.009)
    assert page.evaluate("[I.costOf(null, 3), I.costOf({rows: [1], seconds: [0.004]}, 9)]") == [None, 0.004]


def test_the_cost_of_a_pass_in_median_naive_passes(page):
    time = page.evaluate("I.timeOf(logs.greedy(), logs.greedy().lanes[1], greedy)")
    assert time["naivePass"]["seconds"] == pytest.approx(0.008), "the median of 7, 10 and 8 ms"
    assert time["sentence"] == "This pass cost 1.15 naive passes and emitted 3 tokens."
    assert time["sum"] == "(1.00 + 8.00 + 0.20) ms / 8.00 ms = 1.15"
    assert time["rows"].startswith("5 rows (1 + 4 drafted)") and "9.00 ms, 1.80 times 5.00 ms" in time["rows"]
    alone = page.evaluate("I.timeOf(logs.rejection(), logs.rejection().lanes[0], drawn)")
    assert alone["naivePass"]["seconds"] == 0.005 and "1 row, as measured" in alone["basis"]
    assert page.evaluate("I.timeOf(logOf('greedy', [['draft', [greedy]]], {costs: null}), {}, greedy).sentence") == (
        "This pass took 9.20 ms and emitted 3 tokens."
    )


def test_the_draw_is_compared_with_p_over_q(page):
    rows = page.evaluate("I.passOf(logs.rejection(), 0, 1).rows.map(r => [r.status, r.p, r.q, r.draw, r.threshold])")
    assert rows[0] == ["accepted", 0.5, 0.8, 0.3, pytest.approx(0.625)]
    assert rows[1] == ["rejected", 0.09, 0.6, 0.4, pytest.approx(0.15)]
    assert rows[2] == ["unreached", None, None, None, None]


def test_the_residual_has_bounds_where_q_is_unknown(page):
    sampled = page.evaluate("I.passOf(logs.rejection(), 0, 1).positions[1]")
    assert [e["text"] for e in sampled["tokens"]] == [" c", " d", " b"]
    left = sampled["residual"]["rows"]
    assert (left[0]["low"], left[0]["high"]) == (pytest.approx(0.3), 0.7), "q of the others is at most 0.4 in all"
    assert (left[1]["low"], left[1]["high"]) == (0, 0.12)
    assert left[2] == {"low": 0, "high": 0}, "the rejected token has q above p"
    assert sampled["residual"]["share"] == 0.68 and sampled["residual"]["left"] is None
    mass = page.evaluate("I.passOf(logs.rejection(), 0, 2).positions[0]")
    assert mass["residual"]["left"] == pytest.approx(0.8) and mass["residual"]["rows"][1] == {"low": 0.3, "high": 0.3}
    assert mass["residual"]["share"] is None, "the sibling was accepted: nothing was drawn from the residual"
    assert page.evaluate("I.passOf(logs.greedy(), 1, 1).positions.map(p => p.residual)") == [None] * 3


def test_second_siblings_are_tested_against_the_residual(page):
    rows = page.evaluate("I.passOf(logs.rejection(), 0, 2).rows.map(r => [r.text, r.isResidual])")
    assert dict(rows) == {" a": False, " c": False, " b": True, " e": False, " d": False}


def test_candidates_include_drafted_and_emitted_tokens(page):
    position = page.evaluate("I.passOf(logs.greedy(), 1, 1).positions[2]")
    got = [(e["text"], e["p"], e["candidate"], e["drafted"], e["rejected"], e["emitted"]) for e in position["tokens"]]
    assert got == [
        (" c", 0.6, True, False, False, True),
        (" e", 0.25, True, False, False, False),
        (" d", 0.003, False, True, True, False),
    ]
    assert page.evaluate("I.passOf(logs.greedy(), 1, 1).positions[0].entropy") == "1.50 bits"


@pytest.mark.parametrize(
    ("part", "status", "lead", "quotation"),
    [
        ("{kind: 'accepted', row: 0, emitted: 0}", "accepted", "accepted: the target’s choice too", None),
        ("{kind: 'rejected', row: 2, emitted: -1}", "rejected", "rejected: the target’s choice is ", "c"),
        (
            "{kind: 'unvisited', row: 3, emitted: -1}",
            "unreached",
            "not tested: an earlier token was rejected",
            None,
        ),
        ("{kind: 'own', row: -1, emitted: 2}", "correction", "the target’s own, instead of the rejected token", None),
        ("{kind: 'ghost', row: 2, emitted: -1}", "ghost", "drafted; not verified yet", None),
        ("{kind: 'tick', row: -1, emitted: -1}", "none", "drafted 4, accepted 2, then the target wrote ", "c"),
    ],
)
def test_token_outcomes(page, part, status, lead, quotation):
    details = page.evaluate(f"I.tokenOf(logs.greedy(), 1, 1, {part})")
    assert (details["status"], details["outcome"]["lead"], details["outcome"]["quotation"]) == (status, lead, quotation)
    assert (details["p"] is None) == (status in ("unreached", "ghost", "none")), "a token that is not verified has no p"


# ------------------------------------------------------------------ the window


def test_window_columns_and_levels_follow_from_the_parents(page):
    shapes = page.evaluate(
        "[1, 2, 3].map(i => { const w = J.windowOf(logs.window(), 1, i); return [w.columns, w.levels.length, w.change, w.full]; })"
    )
    assert shapes == [[3, 1, "opened", False], [3, 2, "grew", True], [3, 2, "moved", True]]
    narrow = "logOf('greedy', [['lookahead', [prefill, looked(1, [[' a']], [], [], ' b'), looked(2, [[' a'], [' b']], [], [], ' c')]]])"
    lengths = page.evaluate(f"J.gridOf({narrow}.lanes[0], {narrow}.lanes[0].steps[2]).map(level => level.length)")
    assert lengths == [1, 1]


def test_the_targets_predictions_are_the_next_passs_newest_level(page):
    assert page.evaluate("J.windowOf(logs.window(), 1, 2).predictions.map(cell => cell.text)") == [" sat", " on", " it"]
    assert page.evaluate("J.windowOf(logs.window(), 1, 3).predictions") is None


def test_a_guess_repeats_if_the_previous_iteration_had_it_at_the_same_position(page):
    marks = "level.map(cell => cell.repeats)"
    assert page.evaluate(f"J.windowOf(logs.window(), 1, 3).levels.map(level => {marks})") == [
        [False] * 3,
        [True, True, False],  # " sat", " on" are one level up, one column to the right
    ]
    assert page.evaluate(f"(level => {marks})(J.windowOf(logs.window(), 1, 2).predictions)") == [True, True, False]


def test_the_origin_is_a_pass_whose_column_has_the_n_gram(page):
    ngrams = page.evaluate("J.ngramsOf(logs.window(), 1, 3)")
    assert ngrams[0]["origin"] == {"kind": "pass", "pass": 2, "column": 2, "step": 2}
    assert (ngrams[0]["outcome"], ngrams[0]["isAccepted"]) == ("accepted", True)
    assert (
        ngrams[1]["origin"] == {"kind": "prompt"} and ngrams[1]["outcome"] == "not tested: another branch was accepted"
    )
    column = page.evaluate(
        "(() => { const w = J.windowOf(logs.window(), 1, 2); return [...w.levels, w.predictions].map(level => level[1].text).join(''); })()"
    )
    assert column == ngrams[0]["root"] + "".join(t["text"] for t in ngrams[0]["tokens"])


def test_n_grams_with_a_common_prefix_have_different_origins(page):
    ngrams = page.evaluate("""(() => { const s = looked(3, [[" a"]], [[[" b", " c"], [1, 0]]], [0], " d"), d = s.draft;   // " b", then " c" or " e"
      const merged = {...s, statuses: ["accepted", "rejected", "rejected", "window"], draft: {...d, tokens: [1, 2, 4, 0], pieces: [" b", " c", " e", " a"], parents: [-1, 0, 0, -1], sources: ["", "", "", ""], births: [[1, 0], [1, 0], [2, 4], null]}};
      return J.ngramsOf(logOf("greedy", [["lookahead", [prefill, merged]]]), 0, 1).map(g => [g.path, g.origin.pass, g.origin.column, g.origin.step, g.outcome]); })()""")
    assert ngrams == [
        [[0, 1], 1, 1, -1, "1 of 2 accepted, then rejected"],
        [[0, 2], 2, 5, -1, "1 of 2 accepted, then rejected"],
    ]


def test_rejected_rows_are_cut_and_recurrent_states_are_restored(page):
    rollback = """([name, lane, step, models]) => {
        const log = logs[name]();
        log.header.models = models;
        return modules.rollback.rollbackOf(log, lane, step);
    }"""
    keys, hybrid = (
        {"rollback": {"keys": 4, "windows": 0, "recurrent": 0}},
        {"rollback": {"keys": 1, "windows": 0, "recurrent": 3}},
    )
    for models in (None, {}, keys):  # old recordings have no such field
        cut = page.evaluate(rollback, ["greedy", 1, 1, models])
        assert [cut["kept"][1:], cut["cut"], cut["again"]] == [[" a", " b"], [" d", " e"], []]
        assert cut["sentence"] == "The keys and values of 2 rows are cut from the cache."
    restored = page.evaluate(rollback, ["greedy", 1, 1, hybrid])
    assert restored["again"] == restored["kept"] and len(restored["kept"]) == 3
    assert "The state of 3 recurrent layers cannot be cut" in restored["sentence"]
    page.evaluate("open('greedy', 1, 1)")
    shown = page.locator(".la-i-rollback").inner_text()
    assert "cut: d e" in " ".join(shown.split()) and "read again" not in shown


def test_the_experts_that_a_pass_activated_are_shown_with_those_of_one_row(page):
    experts = """([models, number]) => {
        const log = logs.greedy();
        log.header.models = models;
        log.lanes[1].steps[1].experts = number;
        return modules.experts.expertsOf(log, 1, 1);
    }"""
    mixture = {"experts": {"layers": 12, "total": 32, "per_row": 4}}
    for models, number in ((None, 11.0), ({}, 11.0), (mixture, None)):  # dense models, and old recordings
        assert page.evaluate(experts, [models, number]) is None
    shown = page.evaluate(experts, [mixture, 11.25])
    assert shown["sentence"].startswith(
        "This pass’s 5 rows activated 11.3 of 32 experts per layer (mean over 12 layers). "
    )
    assert "One row activates 4." in shown["sentence"]
    assert shown["bars"] == [["this pass", 11.25 / 32], ["one row", 4 / 32]]
    widths = page.evaluate(
        "shown => [...modules.experts.view(shown).querySelectorAll('.la-i-fill')].map(bar => bar.style.width)", shown
    )
    assert widths == ["35.16%", "12.5%"]


def test_two_rulers_show_a_draft_with_another_tokenizer(page):
    page.evaluate("""() => {
        const translation = {pieces: [" ", "a b", "", " d e", " <b>"], used: 4};
        window.translated = {...greedy, draft: {...greedy.draft, translation}};
        window.nothing = {...blank, index: 2, draft: {...none, translation: {pieces: [" f"], used: 0}}, ...emit([" f"], ["bonus"])};
        window.rulers = step => modules.translation.translationOf(logOf("greedy", [["draft", [prefill, translated, nothing]]]), 0, step);
    }""")
    rulers = page.evaluate("rulers(1)")
    assert [[cell["text"], cell["span"], cell["parts"], cell["kind"]] for cell in rulers["own"]] == [
        [" ", 1, 1, "plain"], ["a b", 3, 1, "plain"], [" d e", 4, 2, "plain"], [" <b>", 4, 1, "unreached"],
    ]  # fmt: skip
    assert [cell["kind"] for cell in rulers["target"]] == ["accepted", "accepted", "rejected", "unreached"]
    assert "5 tokens. 4 gave tokens of the target, and the last 1 gave none" in rulers["sentences"][0]
    assert "67% of its tokens" in page.evaluate("rulers(2).sentences[1]")
    assert page.evaluate("rulers(0)") is None
    page.evaluate("open(logOf('greedy', [['draft', [prefill, translated, nothing]]]), 0, 1)")
    own, target = page.evaluate("""() => [...document.querySelectorAll(".la-i-rulers ul")]
        .map(list => [...list.children].map(item => Math.round(item.getBoundingClientRect().left)))""")
    assert target[0] == own[0] and target[2] == own[2], "equal boundaries are aligned"
    assert own[0] < own[1] < target[1] < own[2] < target[3] < own[3]
    assert "<b>" in page.locator(".la-i-rulers").inner_text(), "model text is shown as text"
    page.evaluate("inspector.show(shownLog, 0, 2)")
    assert "0 gave tokens of the target" in page.locator(".la-i-translation").inner_text()


def test_mask_is_the_ancestors(page):
    rows = page.evaluate("J.maskOf(logs.window(), 1, 3)")
    assert [row["attendsTo"] for row in rows] == [
        [0], [0, 1], [0, 1, 2], [0, 3], [0, 3, 4],
        [0, 5], [0, 5, 6], [0, 5, 6, 7], [0, 5, 8], [0, 5, 6, 9], [0, 5, 6, 7, 10],
    ]  # fmt: skip
    assert [rows[i]["name"] for i in (0, 2, 3, 9)] == [
        "the text’s last token", "n-gram 1, token 3", "n-gram 2, token 2", "window level 2, column 2",
    ]  # fmt: skip
    assert page.evaluate("J.attendsToLabel(10, [0, 5, 6, 7, 10])") == "the text, row 0, rows 5 to 7 and itself"


# ------------------------------------------------------------------ the panel


def test_a_greedy_pass_reads_left_to_right(page):
    page.evaluate("open('greedy', 1, 1)")
    assert page.inner_text(".la-i-title") == "draft: pass 1 of 1"
    assert page.inner_text(".la-i-summary") == "drafted 4, accepted 2, then the target wrote “c”"
    assert lines(page, ".la-i-table") == [
        ["✓ a", "0.900", "0.700", "=equal: accepted", "a"],
        ["✓ b", "0.800", "0.500", "=equal: accepted", "b"],
        ["✕ d", "0.310", "0.0030", "≠not equal: the target predicts  c", ""],
        ["○ e", "0.500", "—", "○not tested: an earlier token was rejected", ""],
        ["", "", "0.600", "the target’s own, a correction", "c"],
    ]
    assert page.inner_text(".la-i-context bdi") == "Once upon a time"
    assert page.locator(".la-i-place").count() == 3 and page.locator(".la-draws").count() == 0
    assert "1.15 naive passes and emitted 3 tokens" in page.inner_text(".la-i-cost")
    widths = page.evaluate(
        "[...document.querySelectorAll('.la-i-time')].map(bar => [...bar.children].map(part => part.getBoundingClientRect().width / bar.clientWidth))"
    )
    assert widths[0] == pytest.approx([1 / 9.2, 8 / 9.2, 0.2 / 9.2], abs=0.01)
    assert widths[1] == pytest.approx([8 / 9.2], abs=0.01), "the naive pass is on the same scale"


def test_the_coupled_rule_mentions_the_shared_noise(page):
    page.evaluate("open('coupled', 1, 1)")
    assert "shared noise of each position" in page.inner_text(".la-i-flow")


def test_a_rejection_pass_shows_bar_draw_and_residual(page):
    page.evaluate("open('rejection', 0, 1)")
    rows = lines(page, ".la-i-table")
    assert rows[0][1:4] == ["0.800", "0.500", "✓draw 0.300, below p/q 0.625: accepted"]
    assert rows[1][1:4] == ["0.600", "0.090", "✕draw 0.400, not below p/q 0.150: rejected"]
    assert rows[3][2:4] == ["0.680*", "drawn from the residual (draw 0.200)"]
    bars = page.evaluate("""[...document.querySelectorAll('.la-draws')].map(box => { const all = box.getBoundingClientRect(), dot = box.querySelector('.la-draws-dot').getBoundingClientRect();
      return [box.querySelector('.la-draws-accepting').getBoundingClientRect().width / all.width, (dot.left + dot.width / 2 - all.left) / all.width]; })""")
    assert bars == [pytest.approx([0.625, 0.3], abs=0.02), pytest.approx([0.15, 0.4], abs=0.02)]
    residual = lines(page, ".la-i-wide")
    assert residual == [
        ["c", "0.700", "0.300 to 0.700", "emitted"],
        ["d", "0.120", "0 to 0.120", ""],
        ["b", "0.090", "0", "rejected"],
    ]
    assert "q was recorded for the rejected token only" in page.inner_text(".la-i-wide")
    assert "was drawn with 0.680 of the residual" in page.inner_text(".la-i-wide")


def test_a_tree_is_an_outline_whose_states_differ_in_shape(page):
    page.evaluate("open('tree', 1, 2)")
    assert [row[0] for row in lines(page, ".la-i-table")] == ["├ ✕ a", "│ └ ○ c", "├ ✓ b", "│ └ ✕ e", "└ – d", ""]
    looks = page.evaluate("""[...document.querySelectorAll('.la-i-table tbody .la-i-drafted .la-i-token')].map(node => { const s = getComputedStyle(node);
      return [s.textDecorationLine, s.outlineStyle, s.fontWeight].join(); })""")
    assert looks == [
        "line-through,none,400",
        "none,dashed,400",
        "underline,none,600",
        "line-through,none,400",
        "none,dotted,400",
    ]


def test_short_forms(page):
    page.evaluate("open('greedy', 1, 0)")
    assert page.inner_text(".la-i-title") == "draft: the prompt"
    assert "This is on no clock" in page.inner_text(".la-inspector")
    assert page.locator(".la-i-table, .la-i-cost").count() == 0 and "11.8 ms" in page.inner_text(".la-i-key")
    page.evaluate("open('greedy', 0, 1)")
    assert "no draft" in page.inner_text(".la-i-summary") and page.locator(".la-i-table").count() == 0
    assert page.locator(".la-i-candidates").count() == 1 and "0.90 naive passes" in page.inner_text(".la-i-cost")
    page.evaluate("open('opaque', 1, 1)")
    assert "not its drafts or tests" in page.inner_text(".la-inspector") and page.locator(".la-i-place").count() == 0
    assert "pass and drafting 20.0 ms" in page.inner_text(".la-i-key") and "2.50 naive passes" in page.inner_text(
        ".la-i-cost"
    )


def test_buttons_keys_and_focus(page):
    page.focus("#before")
    page.evaluate("open('tree', 1, 1)")
    assert page.evaluate("document.activeElement.className") == "la-i-title"
    page.get_by_role("button", name="Next pass").click()
    assert page.evaluate("asked") == [[1, 2]] and page.inner_text(".la-i-title") == "tree: pass 2 of 2"
    assert page.get_by_role("button", name="Next pass").get_attribute("aria-disabled") == "true"
    page.keyboard.press("Enter")
    assert page.evaluate("asked.length") == 1, "there is no pass after the last"
    assert page.evaluate("document.activeElement.getAttribute('aria-label')") == "Next pass of this lane", "focus stays"
    page.keyboard.press("Escape")
    assert page.evaluate("[asked.pop(), inspector.node.hidden, document.activeElement.id]") == ["close", True, "before"]
    page.evaluate("open('tree', 1, 1)")
    page.get_by_role("button", name="Close").click()
    assert page.evaluate("[asked.pop(), inspector.node.hidden, document.activeElement.id]") == ["close", True, "before"]
    page.evaluate("open('tree', 1, 99)")
    assert page.evaluate("inspector.node.hidden"), "there is no such pass"


def test_showing_the_same_pass_again_changes_nothing(page):
    page.evaluate("open('greedy', 1, 1)")
    page.evaluate("window.kept = document.querySelector('.la-i-table'); inspector.show(shownLog, 1, 1)")
    assert page.evaluate("kept.isConnected")


# ------------------------------------------------------------------ the card


def test_card_of_a_rejection_test(page):
    page.evaluate(
        "document.body.append(modules.card.card(logs.rejection(), 0, 1, {kind: 'rejected', row: 1, emitted: -1}))"
    )
    text = page.inner_text(".la-card")
    for part in (
        "pass 1, draft",
        "rejected by the draw",
        "drafted by\ndraft",
        "target’s p\n0.090",
        "drafter’s q\n0.600",
        "p/q\n0.150",
        "draw\n0.400",
    ):
        assert part in text, (part, text)
    assert [row[0] for row in lines(page, ".la-card")] == ["c", "d", "b"]
    assert page.evaluate("document.querySelector('.la-card').offsetWidth") <= 280


def test_card_of_naive_and_opaque_tokens(page):
    cards = page.evaluate("""[[logs.greedy(), 0, {kind: 'plain', row: -1, emitted: 0}], [logs.opaque(), 1, {kind: 'accepted', row: -1, emitted: 0}]]
      .map(([log, lane, part]) => modules.card.card(log, lane, 1, part).textContent)""")
    assert "nothing was drafted" in cards[0] and "this lane does not report" in cards[1]


# ------------------------------------------------------------------ the microscope


def test_microscope_shows_grid_origins_and_predictions(page):
    page.evaluate("open('window', 1, 3)")
    assert lines(page, ".la-m-grid") == [["level 1oldest", "a", "sat", "on"], ["level 2newest", "sat=", "on=", "it"]]
    ngrams = lines(page, "table.la-m-tried")
    assert ngrams[0] == ["1", "who sat on", "pass 2, column 2", "✓accepted"]
    assert ngrams[1][2:] == ["from the prompt", "–not tested: another branch was accepted"]
    assert "confidence" not in page.inner_text(".la-i-table") and "reports no confidence" in page.inner_text(
        ".la-i-flow"
    )
    assert page.inner_text(".la-m-origin") == "This accepted 3-gram was found at pass 2, column 2."
    assert "(1 + 4 drafted + 6 in the window)" in page.inner_text(".la-i-timebox")
    page.get_by_role("button", name="Open pass 2, column 2").click()
    assert page.inner_text(".la-i-title") == "lookahead: pass 2 of 3"
    assert lines(page, ".la-m-grid")[2] == ["predicted now", "sat=", "on=", "it"]
    page.get_by_role("button", name="Previous pass").click()
    assert "The window starts" in page.inner_text(
        ".la-microscope"
    ) and "None: no n-gram in the pool" in page.inner_text(".la-microscope")


def test_n_grams_verified_without_a_window_have_an_origin(page):
    page.evaluate("open('pool', 1, 4)")
    assert lines(page, "table.la-m-tried") == [["1", "it was it", "pass 3, column 2", "✓accepted"]]
    assert page.locator(".la-m-grid, .la-m-mask").count() == 0
    assert "The window is paused" in page.inner_text(".la-microscope")


def test_mask_is_read_by_pointer_and_by_keyboard(page):
    page.evaluate("open('window', 1, 3)")
    page.focus(".la-m-field")
    page.keyboard.press("End")
    page.keyboard.press("ArrowUp")
    line = page.inner_text(".la-m-line")
    assert line.startswith("row 9: window level 2, column 2, on; attends to: the text, row 0, row 5, row 6 and itself.")
    assert line.endswith("Column 10: window level 2, column 3, it: masked.")
    box = page.locator(".la-m-mask").bounding_box()
    side = box["height"] / 11
    page.mouse.move(box["x"] + side * 7.5, box["y"] + side * 8.5)
    line = page.inner_text(".la-m-line")
    assert line.startswith("row 8: window level 2, column 1") and line.endswith(
        "Column 5: window level 1, column 1, a: attended to."
    )


def test_the_breadcrumb_leads_from_the_text_to_a_rows_numbers(page):
    page.evaluate("open('greedy', 1, 1)")
    crumbs, field = page.locator(".la-i-crumbs"), page.locator(".la-i-rows .la-m-field")
    zoomed = page.locator(".la-i-place.la-i-zoomed")
    assert crumbs.text_content() == "text › pass 1 of 1 › rows › row 0: time"
    assert "rows 1 to 4 are the draft" in page.inner_text(".la-i-rows")
    assert page.inner_text(".la-m-line").startswith(
        "row 0: the text’s last token, time; attends to: the text and itself."
    )
    assert "after  time" in zoomed.inner_text()
    field.focus()
    page.keyboard.press("ArrowDown")
    page.keyboard.press("ArrowDown")
    assert crumbs.text_content().endswith("rows › row 2: b") and "3. after  b" in zoomed.inner_text()
    assert "attends to: the text, row 0, row 1 and itself" in page.inner_text(".la-m-line")
    crumbs.get_by_role("button", name="row 2").click()
    assert zoomed.evaluate("node => node.getBoundingClientRect().top < innerHeight")
    field.focus()
    page.keyboard.press("End")
    page.keyboard.press("ArrowDown")
    assert crumbs.text_content().endswith("row 3: d, not tested") and zoomed.count() == 0, (
        "its row comes after a rejected row"
    )
    page.evaluate("open('greedy', 0, 1)")
    assert crumbs.text_content() == "text › pass 1 of 3 › row 0: time" and field.count() == 0
    page.evaluate("open('window', 1, 3)")
    assert crumbs.text_content() == "text › pass 3 of 3 › rows"
    crumbs.get_by_role("button", name="text").click()
    assert page.evaluate("asked.at(-1)") == "close"


def test_a_large_mask_is_cut_with_a_note(page):
    page.evaluate("""(() => { const level = Array.from({length: 15}, () => ' a'), big = looked(1, [level], [], [], ' b'), bigger = looked(2, [level, level, level, level, level], [], [], ' c');
      open(logOf('greedy', [['lookahead', [prefill, big, bigger]]]), 0, 2); })()""")
    assert "the first 60 of 76 rows" in page.inner_text(".la-microscope")
    assert page.evaluate("document.documentElement.scrollWidth <= innerWidth")


# ------------------------------------------------------------------ untrusted text, narrow pages


HOSTILE = """(() => { const bad = '<img src=x onerror="window.hit=1">\\u202E' + 'e' + '\\u0301'.repeat(5000);
  const swap = list => list.map(() => bad), step = s => ({...s, pieces: swap(s.pieces), draft: {...s.draft, pieces: swap(s.draft.pieces), sources: swap(s.draft.sources)},
    tests: s.tests.map(test => ({...test, top: test.top.map(([i, , p]) => [i, bad, p])}))});
  return logOf(NAME, [[bad.slice(0, 150), [prefill, ...STEPS.map(step)]]], {prompt: {text: bad, tokens: [], pieces: []}}); })()"""


@pytest.mark.parametrize(
    ("name", "steps"), [("greedy", "[greedy, tree]"), ("rejection", "[drawn, forked]"), ("greedy", "window3")]
)
def test_hostile_text_stays_text(page, name, steps):
    log = HOSTILE.replace("NAME", f"'{name}'").replace("STEPS", steps)
    page.evaluate(f"""(() => {{ const log = {log}; for (let i = 0; i < log.lanes[0].steps.length; i++) open(log, 0, i);
      document.body.append(modules.card.card(log, 0, 1, {{kind: 'accepted', row: 0, emitted: 0}}), modules.card.card(log, 0, 1, {{kind: 'tick', row: -1, emitted: -1}})); }})()""")
    page.keyboard.press("Tab")
    assert page.locator("img").count() == 0 and page.evaluate("window.hit") is None
    assert page.evaluate(
        """[...document.querySelectorAll('.la-inspector bdi, .la-card bdi')].every(node => getComputedStyle(node).unicodeBidi === 'isolate' && node.textContent.length < 200)"""
    )
    loose = """[...document.querySelectorAll('.la-inspector *, .la-card *')].filter(node => node.tagName !== 'BDI' && [...node.childNodes].some(child => child.nodeType === 3 && child.data.includes('\\u202E')))
      .map(node => node.className)"""
    assert page.evaluate(loose) == []
    assert page.evaluate("document.documentElement.scrollWidth <= innerWidth")


@pytest.mark.parametrize(
    ("name", "lane", "step"),
    [("greedy", 1, 1), ("rejection", 0, 2), ("tree", 1, 2), ("window", 1, 3), ("opaque", 1, 1)],
)
def test_phone_has_no_sideways_scroll(chromium, name, lane, step):
    page = blank(chromium, size=(390, 844))
    page.evaluate(f"open('{name}', {lane}, {step})")
    assert page.evaluate("document.documentElement.scrollWidth <= innerWidth")
    assert page.evaluate("inspector.node.scrollWidth <= inspector.node.clientWidth"), "nor inside the sheet"
    sizes = page.evaluate(
        "[...document.querySelectorAll('.la-i-buttons button')].map(b => [b.offsetWidth, b.offsetHeight])"
    )
    assert all(width >= 40 and height >= 40 for width, height in sizes), sizes
    assert page.problems == []
    page.close()
