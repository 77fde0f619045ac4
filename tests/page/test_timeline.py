"""The timeline component in a real browser page: the pure frame, gap repair, rates, sentences and the DOM.

No server, no model: the scripts are loaded into a blank page and receive hand-made events, so every expected number
below can be checked by eye.
"""

import json

import pytest
from chromium import bare_page, exposed
from color import contrast, palette
from playwright.sync_api import expect

from lookahead.trace import assets

pytestmark = pytest.mark.browser

# A race small enough to compute by hand. Naive: one token per 10 ms. Draft: passes of 20 ms; 4 ms propose, 15 ms verify.
FAKES = """
const W = [" a", " b", " c", " d", " e", " f", " g", " h"];
const none = {tokens: [], parents: [], pieces: [], sources: []};
const prefill = () => ({kind: "prefill", index: 0, draft: none, statuses: [], path: [], emitted: [], pieces: [], origins: [], tests: [],
                        propose_s: 0, verify_s: 0.0118, other_s: 0.0002, finish: null});
const onePass = (piece, finish) => ({...prefill(), kind: "verify", emitted: [W.indexOf(piece)], pieces: [piece], origins: ["bonus"], finish: finish || null});
const pass = (draft, statuses, path, pieces, origins, extra) => ({...prefill(), kind: "verify", statuses, path, pieces, origins,
  draft: {tokens: draft.map((_, i) => i), parents: draft.map((_, i) => i - 1), pieces: draft, sources: draft.map(() => "draft")},
  emitted: pieces.map(piece => W.indexOf(piece)), propose_s: 0.004, verify_s: 0.015, other_s: 0.001, ...extra});
const header = {schema: "lookahead-trace/1", settings: {max_new_tokens: 8, rule: "greedy"}, prompt: {text: "Once", tokens: [], pieces: []},
                lanes: [{method: "naive", options: {}}, {method: "draft", options: {}}]};
const events = () => {
  const list = [{kind: "begin", caption: null, live: true, trace: header},
                {kind: "step", lane: 0, clock_s: 0, step: prefill()}, {kind: "step", lane: 1, clock_s: 0, step: prefill()}];
  W.forEach((piece, i) => list.push({kind: "step", lane: 0, clock_s: 0.01 * (i + 1), step: onePass(piece, i === 7 ? "length" : null)}));
  list.push({kind: "step", lane: 1, clock_s: 0.02, step: pass([" a", " b", " x", " y"], ["accepted", "accepted", "rejected", "unvisited"], [0, 1], W.slice(0, 3), ["accepted", "accepted", "correction"])},
            {kind: "step", lane: 1, clock_s: 0.04, step: pass([" d", " e", " f", " g"], ["accepted", "accepted", "accepted", "accepted"], [0, 1, 2, 3], W.slice(3), ["accepted", "accepted", "accepted", "accepted", "bonus"], {finish: "length"})},
            {kind: "end", reason: "finished", message: null, stats: [], verdict: {sentence: "2.00x: four tokens per pass.", arithmetic: ["8 / 2 = 4"]},
             agreement: [null, {identical: true, badge: "identical, bit-exact", detail: null}]});
  return list;
};
const batch = (i0, i1, run) => { const ev = events(), to = i1 === undefined ? ev.length : i1; return {run: run || "r", i0: i0 || 0, ev: ev.slice(i0 || 0, to), ...(to >= ev.length ? {end: true} : {})}; };
const P = {...modules.log, ...modules.player, ...modules.playhead, ...modules.sentences, ...modules.numbers, ...modules.repair};
const full = (i0, i1) => { const log = P.createLog(); P.applyBatch(log, batch(i0, i1)); return log; };
"""


BODY = '<body><div id="host"><div class="la-timeline"></div></div><input id="field">'


def script():
    """The modules that this file and test_strip.py test, and the fakes."""
    names = ("player", "playhead", "sentences", "repair", "log", "feed", "heat", "strip", "timeline")
    return exposed("page/dom.js", "page/numbers.js", *(f"timeline/{name}.js" for name in names)) + FAKES


def blank(browser, size=(1280, 900), **options):
    return bare_page(browser, BODY, assets.style("timeline/timeline.css"), script(), size, **options)


MOUNT = """(value) => {
  window.handlers = []; window.calls = []; window.value = value; window.reply = () => null;
  window.push = text => { window.value = typeof text === "string" ? text : JSON.stringify(text); window.handlers.forEach(handler => handler()); };
  window.host = {element: document.getElementById("host"), read: () => window.value, watch: fn => window.handlers.push(fn),
                 resend: (run, i0) => { window.calls.push([run, i0]); return Promise.resolve(window.reply(run, i0)); }, make: (kind, trace) => { window.made = [kind, JSON.parse(trace)]; return Promise.resolve(window.made.answer || {text: "a,b"}); },
                 open: text => { window.opened = text; return Promise.resolve(JSON.stringify(window.answer || {error: "no such trace"})); }};
  modules.timeline.mount(window.host);
}"""


def mount(page, value):
    page.evaluate(MOUNT, value)


def raced(page, seconds=None):
    """The complete race on the page, with the playhead at `seconds` if given."""
    mount(page, "")
    page.evaluate("push(batch())")
    if seconds is not None:
        seek(page, seconds)


def seek(page, seconds):
    page.evaluate(
        """seconds => { if (lookahead.state().playing) document.querySelector('.la-play').click();
      const scrub = document.querySelector('.la-scrub'); scrub.value = seconds; scrub.dispatchEvent(new Event('input')); }""",
        seconds,
    )


def test_the_page_stays_light():
    from lookahead.page import mount_options

    page = mount_options()
    weight = len(page["head"].encode()) + len(page["css"].encode())
    assert 50_000 < weight < 210_000, f"{weight} bytes of scripts and styles"  # a tenth of Gradio's own


# ------------------------------------------------------------------ the pure frame


def test_frame_counts_only_settled_passes(page):
    frame = page.evaluate("(() => { const f = P.frameAt(full(), 0.025); return f; })()")
    naive, draft = frame["lanes"]
    assert (naive["tokens"], naive["passes"], round(naive["clock"], 6)) == (2, 2, 0.02)
    assert (draft["tokens"], draft["passes"], round(draft["clock"], 6)) == (3, 1, 0.02)
    assert draft["inFlight"] == 2 and draft["ghosts"] == 4 and round(draft["sweep"], 3) == 0.067


def test_drafted_tokens_appear_one_by_one_before_the_sweep(page):
    views = page.evaluate(
        "[0.0205, 0.0215, 0.0225, 0.024, 0.0315, 0.0395, 0.04].map(t => { const l = P.frameAt(full(), t).lanes[1]; return [l.inFlight, l.ghosts, l.sweep]; })"
    )
    assert [view[1] for view in views] == [1, 2, 3, 4, 4, 4, 0]
    assert views[0][2] is None and abs(views[4][2] - 0.5) < 1e-6 and views[5][2] == 1
    assert views[6][0] == -1, "at its end a pass is settled, not in flight"


def test_frame_is_pure(page):
    assert page.evaluate("""(() => { const log = full(), before = JSON.stringify(log);
      const freeze = x => { if (x && typeof x === "object" && !Object.isFrozen(x)) { Object.freeze(x); Object.values(x).forEach(freeze); } return x; };
      freeze(log);
      const times = [0.04, 0, 0.013, 0.08, 0.013], frames = times.map(t => JSON.stringify(P.frameAt(log, t)));
      return frames[2] === frames[4] && JSON.stringify(log) === before; })()""")


def test_speedup_uses_each_lane_s_own_last_commit(page):
    values = page.evaluate("[0.02, 0.03, 0.04, 0.08, 99].map(t => P.frameAt(full(), t).speedup)")
    assert values[0] is None, "naive has only two tokens"
    assert values[1] == pytest.approx((3 / 0.02) / (3 / 0.03))
    assert values[3] == values[4] == pytest.approx(2.0), "never 1.00x because both have finished"


def test_live_edge_is_the_slowest_running_lane(page):
    assert page.evaluate("P.liveEdge(full(0, 6))") == 0, "the draft lane has only read the prompt"
    assert page.evaluate("P.liveEdge(full(0, 12))") == pytest.approx(0.02)
    assert page.evaluate("P.liveEdge(full())") == pytest.approx(0.08)


def test_stepping_visits_every_pass_end_once(page):
    times = page.evaluate(
        "(() => { const log = full(), out = []; let t = 0; while (t < 0.08 - 1e-9 && out.length < 50) out.push(t = P.neighbor(log, t, 1)); return out; })()"
    )
    back = page.evaluate(
        "(() => { const log = full(), out = []; let t = 0.08; while (t > 0 && out.length < 50) out.push(t = P.neighbor(log, t, -1)); return out; })()"
    )
    assert times == pytest.approx([0.01 * i for i in range(1, 9)])
    assert back == pytest.approx([0.01 * i for i in range(7, -1, -1)])


# ------------------------------------------------------------------ a pass as text


def test_parts_of_a_pass(page):
    parts = page.evaluate("P.passParts(full().lanes[1].steps[1], false).map(part => part.kind + ':' + part.text)")
    assert parts == ["accepted: a", "accepted: b", "rejected: x", "unvisited: y", "own: c"]


def test_tree_shows_one_chain_and_counts_the_other_rows(page):
    tree = """pass([" p", " q", " r", " s", " w"], ["rejected", "unvisited", "accepted", "rejected", "window"], [2], [" r", " z"], ["accepted", "correction"],
      {draft: {tokens: [0, 1, 2, 3, 4], parents: [-1, 0, -1, 2, -1], pieces: [" p", " q", " r", " s", " w"], sources: []}})"""
    assert page.evaluate(f"P.ghostChain({tree})") == {"rows": [0, 1], "more": 3}
    assert page.evaluate(f"P.passParts({tree}, false).map(part => part.kind + ':' + part.text)") == [
        "accepted: r",
        "rejected: s",
        "note:+2 rows",
        "own: z",
    ]


def test_a_pass_without_a_draft_has_no_color(page):
    assert page.evaluate("P.passParts(onePass(' k'), false)") == [
        {"kind": "plain", "text": " k", "row": -1, "emitted": 0}
    ]
    shown = "(() => { const step = onePass(' k'); step.origins = ['accepted']; return P.passParts(step, false)[0].kind; })()"
    assert page.evaluate(shown) == "accepted", "an opaque lane's accepted tokens are colored though no draft is known"


def test_describe_pass(page):
    lines = page.evaluate(
        "[1, 2].map(i => { const d = P.describePass(full(), 1, i); return d.lead + '|' + d.quotation + '|' + d.tail; })"
    )
    assert lines == [
        "pass 1 of 2: drafted 4, accepted 2, then the target wrote | c|",
        "pass 2 of 2: drafted 4, accepted all 4, and the target added | h|; length reached",
    ]
    opaque = "(() => { const log = full(); log.lanes[1].opaque = true; return P.describePass(log, 1, 1).lead; })()"
    assert "drafts are not reported" in page.evaluate(opaque)
    assert page.evaluate("P.describePass(full(), 1, 0).lead") == "draft: prompt read in 12.0 ms, not on the clock"
    assert page.evaluate("P.describePass(full(0, 12), 1, 1).lead").startswith("pass 1: "), "no total while it runs"


# ------------------------------------------------------------------ sentences and rates


@pytest.mark.parametrize(
    ("speedup", "number", "label"),
    [
        (2.4149, "2.41x", "faster"),
        (0.834, "0.83x:", "slower"),
        (1.004, "1.00x,", "no faster"),
        (0.996, "1.00x,", "no faster"),
        (12.345, "12.3x", "faster"),
        (None, "", ""),
    ],
)
def test_headline(page, speedup, number, label):
    assert page.evaluate("s => P.headline(s)", speedup) == {"number": number, "label": label}


def test_numbers_have_at_most_three_digits(page):
    assert page.evaluate("[0.4249, 5.118, 38.44, 412.3, 9.999].map(P.seconds)") == [
        "0.42 s",
        "5.12 s",
        "38.4 s",
        "412 s",
        "10.0 s",
    ]
    assert page.evaluate("[0.0008, 0.012, 0.4, 1.25, 0.99996].map(P.duration)") == [
        "0.80 ms",
        "12.0 ms",
        "400 ms",
        "1.25 s",
        "1.00 s",
    ]
    assert page.evaluate("[3.44, 37.6, 412.4, null].map(P.perSecond)") == ["3.4 tok/s", "38 tok/s", "412 tok/s", "—"]


@pytest.mark.parametrize(
    ("slow", "fast", "rate"),
    [(20, 30, 1), (53, 400, 1), (100, 2000, 1), (120, 240, 1 / 8), (110, 120, 1 / 4), (700, 2000, 1 / 16)],
)
def test_teaching_rate_is_real_time_or_keeps_the_fastest_lane_readable(page, slow, fast, rate):
    result = page.evaluate(
        """([slow, fast]) => P.teachingRate({lanes: [slow, fast].map(n => ({steps: [1], tokens: [20], clock: 20 / n}))})""",
        [slow, fast],
    )
    assert result == {"rate": rate, "settled": True}


def test_teaching_rate_waits_for_enough_tokens(page):
    assert page.evaluate("P.teachingRate({lanes: [{steps: [], tokens: [], clock: 0}]})") == {
        "rate": 1 / 8,
        "settled": False,
    }
    assert page.evaluate("P.teachingRate({lanes: [{steps: [1], tokens: [3], clock: 0.05}]}).settled") is False


def test_rate_labels(page):
    assert page.evaluate("[1/8, 1, 2].map(r => P.rateLabel(r) + ': ' + P.rateText(r))") == [
        "1/8x: played 8x slower",
        "1x: real time",
        "2x: played 2x faster",
    ]


# ------------------------------------------------------------------ the log and its repair


def test_batches_apply_by_index(page):
    out = page.evaluate("""(() => { const log = P.createLog(), all = JSON.stringify(full().lanes);
      const a = P.applyBatch(log, batch(0, 4)), again = P.applyBatch(log, batch(2, 5)), gap = P.applyBatch(log, batch(8, 10)), hint = P.applyBatch(log, batch(5));
      return [a, again, gap, hint, JSON.stringify(log.lanes) === all, log.expected === log.received]; })()""")
    assert out[0] == {"fresh": True, "applied": 4, "gap": False}
    assert out[1]["applied"] == 1 and out[2] == {"fresh": False, "applied": 0, "gap": True}
    assert out[3]["gap"] is False and out[4] and out[5]


def test_a_late_batch_does_not_bring_back_a_replaced_run(page):
    assert page.evaluate("""(() => { const log = P.createLog(); P.applyBatch(log, batch(0, 6, "old")); P.applyBatch(log, batch(0, 3, "new"));
      P.applyBatch(log, batch(6, 9, "old")); return [log.run, log.received]; })()""") == ["new", 3]


@pytest.mark.parametrize("shown", ["asked-link", "recording-tale"])
def test_a_late_recording_does_not_replace_a_running_race(page, shown):
    runs = page.evaluate(
        """shown => { const log = P.createLog(), seen = [];
      const owner = {resend: () => null, refused: () => null, updated: () => null, changed: () => null};
      const feed = new modules.feed.Feed(log, () => null, null, owner);
      const race = [{kind: "status", text: "Waiting: one run is before yours."}, ...events()];
      for (const [run, ev] of [["race", race.slice(0, 1)], [shown, events()], ["race", race.slice(0, 4)], [shown, events()], ["race", race], [shown, events()]]) {
        feed.receive({run, i0: 0, ev, end: ev.at(-1).kind === "end"}); seen.push(log.run); }
      return seen; }""",
        shown,
    )
    assert runs == ["race"] * 5 + [shown], "in the queue, in its passes, and once it is over"


def test_repair_is_bounded_and_backs_off(page):
    calls = page.evaluate("""(async () => { const log = full(0, 5), calls = []; let now = 0, lost = [];
      const repair = new P.Repair({log, receive: () => null, changed: () => {}, resend: () => { calls.push(now); return Promise.reject(new Error("offline")); }});
      repair.arrived(0, {fresh: true, applied: 5, gap: false});
      for (now = 0; now < 40000; now += 100) { repair.tick(now); await new Promise(done => setTimeout(done, 0)); lost.push(repair.lost); }
      return {calls, lostAt: lost.indexOf(true) * 100}; })()""")
    gaps = [b - a for a, b in zip(calls["calls"], calls["calls"][1:], strict=False)]
    assert 1400 <= calls["calls"][0] <= 1600 and gaps[0] < gaps[1] and max(gaps) <= 10500 and len(calls["calls"]) < 8
    assert calls["calls"][2] <= calls["lostAt"] <= calls["calls"][2] + 200, "lost after the third failure in a row"


def test_repair_never_has_two_calls_in_flight(page):
    assert page.evaluate("""(async () => { const log = full(0, 5); let open = 0, most = 0;
      const repair = new P.Repair({log, receive: text => P.applyBatch(log, JSON.parse(text)), changed: () => {},
        resend: (run, i0) => { most = Math.max(most, ++open); return new Promise(done => setTimeout(() => { open--; done(JSON.stringify(batch(i0, Math.min(i0 + 3, events().length)))); }, 5)); }});
      repair.arrived(0, {fresh: true, applied: 5, gap: true});
      for (let now = 0; now < 60000 && !log.end; now += 100) { repair.tick(now); repair.tick(now); await new Promise(done => setTimeout(done, 2)); }
      return [most, Boolean(log.end)]; })()""") == [1, True]


def test_dropped_updates_are_repaired(page):
    mount(page, "")
    page.evaluate("""() => { window.lookahead.drop = 0.9; window.sent = 0;
      window.reply = (run, i0) => JSON.stringify(batch(i0, window.sent));
      const total = events().length; const timer = setInterval(() => { const i0 = window.sent; window.sent = Math.min(total, i0 + 1); push(batch(i0, window.sent)); if (window.sent === total) clearInterval(timer); }, 15);
      window.random = Math.random; let n = 0; Math.random = () => (n++ % 3 ? 0.5 : 0.95); }""")
    page.wait_for_function("lookahead.state().done")
    state = page.evaluate("lookahead.state()")
    assert state["received"] == state["expected"] == 14
    assert [lane["text"] for lane in state["lanes"]] == [" a b c d e f g h"] * 2
    assert state["speedup"] == pytest.approx(2.0) and state["lanes"][1]["tokens"] == 8


# ------------------------------------------------------------------ the page


def test_both_lanes_are_one_text_with_two_rulers(page):
    raced(page, 0.025)
    text = page.locator(".la-lane")
    assert text.count() == 1 and text.locator(".la-ghost").count() == 4
    assert [text.locator(name).all_inner_texts() for name in (".la-counted", ".la-pass > .la-tok")] == [
        [" a", " b"],
        [" a", " b", " c"],
    ], "naive has written two tokens, the draft lane three"
    assert text.locator(".la-reached").inner_text() == " b", "naive's caret"
    hung = text.locator(".la-latest .la-hung")
    assert hung.inner_text().split() == ["x", "y"] and hung.is_visible()
    assert page.inner_text(".la-big").split() == ["1", "pass", "instead", "of", "3"]
    assert page.inner_text(".la-match") == "identical so far: 2 of 8 tokens"
    seek(page, 0.08)
    assert text.locator(".la-counted").count() == 8
    expect(text.locator(".la-hung")).to_be_hidden()
    assert page.inner_text(".la-big").split() == ["2", "passes", "instead", "of", "8"]
    assert page.inner_text(".la-ratio") == "2.00x faster" and page.locator(".la-ratio.la-final").count() == 1
    assert page.inner_text(".la-match") == "identical, bit-exact, 8 of 8 tokens"
    page.get_by_role("button", name="keep").click()
    expect(text.locator(".la-hung .la-rejected")).to_be_visible()
    assert not text.locator(".la-hung .la-unvisited").is_visible()
    page.click(".la-verdict summary")
    assert "8 / 2 = 4" in page.inner_text(".la-verdict")
    seek(page, 0)
    assert page.locator(".la-own").count() == 1, "only the legend's sample is left"
    assert text.locator(".la-reached").inner_text() == "Once"


def test_a_stack_has_one_block_per_pass(page):
    raced(page, 0.045)
    blocks = page.evaluate("""[...document.querySelectorAll('.la-stack')].map(stack => {
      const [columns, rows, rest] = ['columns', 'rows', 'rest'].map(name => Number(stack.style.getPropertyValue(`--la-${name}`)));
      return columns * rows + rest; })""")
    assert blocks == [4, 2]
    assert [cell for cell in page.locator(".la-cell").all_inner_texts() if "pass" in cell and "/" not in cell] == [
        "4 passes",
        "2 passes",
    ]


def test_naive_may_lead(page):
    mount(page, "")
    page.evaluate("""() => { const b = batch(); b.ev.splice(11); push(b); }""")
    page.evaluate("""push({run: 'r', i0: 11, ev: [{kind: 'step', lane: 1, clock_s: 0.5, step: events()[11].step}]})""")
    seek(page, 0.08)
    assert (
        page.locator(".la-ahead").inner_text() == " a b c d e f g h" and page.locator(".la-pass > .la-tok").count() == 0
    )
    assert page.locator(".la-lanes .la-ghost").count() == 0, "no draft in the middle of the text"


def test_a_stopped_race_ends_at_the_same_token_in_both_lanes(page):
    mount(page, "")
    page.evaluate("push(batch(0, 9))")  # naive has written six tokens
    page.evaluate("push(batch(0, 12))")
    page.evaluate("push({stop: 1, run: 'r'})")
    assert page.inner_text(".la-big").split() == ["1", "pass", "instead", "of", "3"]
    assert page.inner_text(".la-match") == "identical so far: 3 of 8 tokens"
    assert page.locator(".la-cell:nth-child(3)").all_inner_texts() == ["3 passes", "1 pass"]


def test_the_end_of_a_text_has_a_name_and_code_is_monospaced(page):
    mount(page, "")
    page.evaluate("""() => { const b = batch(), step = b.ev[12].step;
      step.finish = "eos"; step.pieces[4] = ""; step.pieces[1] = "\\n    return"; push(b); }""")
    seek(page, 0.08)
    end = page.locator(".la-end")
    assert end.count() == 1 and "end" in end.evaluate("node => getComputedStyle(node, '::before').content")
    assert "mono" in page.locator(".la-text").evaluate("node => getComputedStyle(node).fontFamily").lower()


def test_a_long_draft_is_cut_and_counted(page):
    mount(page, "")
    page.evaluate("""() => { const b = batch(), words = Array.from({length: 60}, (_, i) => ` word${i}`);
      b.ev[11].step = pass(words, words.map(() => "rejected"), [], [" a"], ["correction"]); push(b); }""")
    seek(page, 0.02)
    visible = page.locator(".la-s-column:visible").count()
    assert 3 < visible < 60 and page.inner_text(".la-s-more") == f"+{60 - visible}"
    assert page.evaluate("document.querySelector('.la-s-more').getBoundingClientRect().right <= innerWidth")


def test_forced_colors_keep_the_rulers(chromium):
    page = blank(chromium, forced_colors="active")
    raced(page, 0.08)
    for node in (".la-counted", ".la-lane .la-pass"):
        image = page.locator(node).last.evaluate("node => getComputedStyle(node).backgroundImage")
        assert "gradient" in image, node
    page.close()


def test_a_changed_text_is_no_error_and_its_tokens_are_marked(page):
    mount(page, "")
    page.evaluate("""() => { const b = batch(); b.ev[0].trace = {...header, exactness: "bit-exact", settings: {...header.settings, rule: "relaxed"}};
      const {step} = b.ev[12]; step.emitted[1] = 99; step.pieces[1] = " E";
      step.tests = step.emitted.map((token, i) => ({row: i < 4 ? i : null, token, outcome: i < 4 ? "accepted" : "bonus", p: 0.2, q: null, draw: null, top: [],
        change: i === 1 ? {token: 4, piece: " e", p: 0.6, lost: 1.1} : null}));
      b.ev.at(-1).agreement[1] = {identical: null, badge: "changes the text: 1 of 8 tokens, 12%", detail: "By the rule."}; push(b); }""")
    seek(page, 0.03)
    assert page.inner_text(".la-match") == "changes the text"
    seek(page, 0.08)
    assert page.inner_text(".la-match") == "changes the text: 1 of 8 tokens, 12%"
    assert page.inner_text(".la-ratio").endswith("faster") and page.locator(".la-different").count() == 0
    changed = page.locator(".la-tok.la-changed")
    assert changed.all_inner_texts() == [" E"]
    changed.hover()
    assert "e, p 0.600" in page.inner_text(".la-card")


def test_texts_that_differ_are_shown_side_by_side_and_marked(page):
    mount(page, "")
    page.evaluate(
        """() => { const b = batch(); b.ev[12].step.emitted[1] = 99; b.ev[12].step.pieces[1] = ' E';
      b.ev.at(-1).agreement[1] = {identical: false, badge: "differs at token 5", detail: "Two ids."}; push(b); }"""
    )
    seek(page, 0.08)
    assert page.locator(".la-lane").count() == 2
    assert page.locator(".la-different").all_inner_texts() == [" e", " E"]
    assert page.inner_text(".la-ratio") == "the texts differ" and "2.00x" not in page.inner_text(".la-timeline")
    assert "No speedup is reported" in page.inner_text(".la-verdict")
    page.evaluate(
        "b => push(b)",
        page.evaluate("""() => { const b = batch(0, undefined, 'bug'); b.ev[12].step.emitted[1] = 99;
      b.ev[0].trace = {...header, exactness: 'bit-exact'}; b.ev.at(-1).agreement[1] = null; return b; }"""),
    )
    seek(page, 0.08)
    assert page.inner_text(".la-ratio") == "the text is wrong" and page.inner_text(".la-big").split() == ["2", "passes"]
    assert not page.get_by_role("button", name="side by side").is_visible(), "there is no other view"
    page.evaluate("push(batch(0, undefined, 'same'))")
    seek(page, 0.045)
    button = page.get_by_role("button", name="side by side")
    button.click()
    assert page.locator(".la-lane").count() == 2 and page.locator(".la-different").count() == 0
    text = page.evaluate("""[...document.querySelectorAll('.la-lane')].map(lane =>
      [...lane.querySelectorAll('.la-pass > .la-tok')].map(token => token.textContent).join(''))""")
    assert text == [" a b c d", " a b c d e f g h"]
    button.click()
    assert page.locator(".la-lane").count() == 1


def test_the_form_dims_the_race_that_it_no_longer_describes(page):
    raced(page, 0.04)
    stage = "modules.timeline.mount(window.host)"
    assert page.evaluate(f"{stage}.edited()")
    assert page.locator(".la-timeline.la-stale").count() == 1
    assert page.inner_text(".la-statustext") == "Run for “Once”; press Race for the new settings."
    page.evaluate("push(batch(0, 8, 'next'))")
    assert page.locator(".la-timeline.la-stale").count() == 0
    assert not page.evaluate(f"{stage}.edited()"), "a race that is running is not dimmed"


def test_going_forward_changes_no_existing_nodes(page):
    raced(page, 0.02)
    page.get_by_role("button", name="side by side").click()
    page.evaluate("""() => { window.touched = 0; window.added = 0; new MutationObserver(list => list.forEach(m => { window.added += m.addedNodes.length; window.touched += m.removedNodes.length; }))
      .observe(document.querySelectorAll('.la-text')[0], {childList: true, subtree: true, characterData: true}); }""")
    for t in (0.03, 0.04, 0.05):
        seek(page, t)
    page.wait_for_timeout(50)
    assert page.evaluate("[window.added, window.touched]") == [3, 0]


def test_keys_work_only_without_another_focus(page):
    raced(page, 0)
    page.evaluate("document.activeElement.blur()")
    for key, t in [("ArrowRight", 0.02), ("Shift+ArrowRight", 0.03), ("Shift+ArrowLeft", 0.02), ("ArrowLeft", 0)]:
        page.keyboard.press(key)
        assert page.evaluate("lookahead.state().t") == pytest.approx(t), key
    page.keyboard.press("End")
    assert page.evaluate("lookahead.state().t") == pytest.approx(0.08)
    page.keyboard.press("[")
    assert page.get_by_role("button", name="teaching pace").get_attribute("aria-pressed") == "false"
    page.focus("#field")
    page.keyboard.type(" [a]")
    page.keyboard.press("Home")
    assert page.evaluate("lookahead.state().t") == pytest.approx(0.08) and page.input_value("#field") == " [a]"
    assert page.get_attribute(".la-scrub", "aria-valuetext") == "0.08 s of 0.08 s"


def test_mounting_twice_duplicates_nothing(page):
    raced(page)
    page.evaluate("modules.timeline.mount(window.host)")
    assert page.locator(".la-lane").count() == 1 and page.locator("canvas").count() == 1
    assert page.evaluate("lookahead.state().received") == 14, "the log survives"
    seek(page, 0)
    page.evaluate("document.activeElement.blur()")
    page.keyboard.press("ArrowRight")
    assert page.evaluate("lookahead.state().t") == pytest.approx(0.02), "one press, one step"


ACCENT_PIXELS = """() => {
  const canvas = document.querySelector('.la-canvas'), {width, height} = canvas, k = devicePixelRatio, found = [];
  const accent = getComputedStyle(document.querySelector('.la-timeline')).getPropertyValue('--la-accent').trim();
  const [r, g, b] = [1, 3, 5].map(i => parseInt(accent.slice(i, i + 2), 16));
  const {data} = canvas.getContext('2d').getImageData(0, 0, width, height);
  for (let i = 0; i < data.length; i += 4) if (data[i] === r && data[i + 1] === g && data[i + 2] === b && data[i + 3] === 255) found.push(Math.floor(i / 4 / width) / k);
  return Math.min(...found);
}"""  # y of the highest point of the drafting lane in full color, in pixels


def test_events_after_stop_do_not_separate_the_lanes(page):
    """The last events of a stopped race arrive late, and a lane may be far ahead. All parts show the same token."""
    mount(page, "")
    ahead = "[...events().slice(0, 6), events()[11], events()[12]]"  # naive has three tokens, draft all eight
    page.evaluate(f"push({{run: 'r', i0: 0, ev: {ahead}}})")
    page.evaluate("push({stop: 1, run: 'r'})")
    stopped = page.evaluate("lookahead.state().t")
    late = "{kind: 'step', lane: 0, clock_s: 0.2, step: onePass(' d')}, {kind: 'end', reason: 'stopped', stats: [], agreement: []}"
    page.evaluate(f"push({{run: 'r', i0: 8, ev: [{late}], end: true}})")
    assert page.evaluate("lookahead.state().t") == 0.2 > stopped, "the playhead follows to the end"
    assert page.inner_text(".la-big") == "1 pass instead of 3" and "identical so far: 3 of 8" in page.inner_text(
        ".la-match"
    )
    assert page.inner_text(".la-statustext") == "Stopped by you after 3 tokens."
    assert page.locator(".la-counted").count() == 3 == page.locator(".la-pass > .la-tok:not(.la-hang *)").count()
    page.wait_for_function("document.querySelector('.la-canvas').height > 0")
    box = page.locator(".la-canvas").bounding_box()
    middle = 8 + (box["height"] - 40) / 2  # of the chart between its margins: half of the axis's tokens
    assert page.evaluate(ACCENT_PIXELS) > middle, "the line in full color ends at three of eight tokens, too"
    seek(page, 0.05)
    page.evaluate("push({stop: 1, run: 'r'})")
    assert page.evaluate("lookahead.state().t") == 0.05, "the reader has moved the playhead"


def test_stop_error_and_empty(page):
    mount(page, "")
    assert "Nothing to show yet" in page.inner_text(".la-timeline")
    page.evaluate(
        "push({run: 'q', i0: 0, ev: [{kind: 'status', text: 'Waiting: 2 ahead of you, about 8 s', fraction: null}]})"
    )
    assert (
        "Waiting: 2 ahead of you" in page.inner_text(".la-status")
        and page.evaluate("lookahead.state().status") == "waiting"
    )
    page.evaluate("push(batch(0, 12))")
    page.evaluate("push({stop: 1, run: 'r'})")
    state = page.evaluate("lookahead.state()")
    assert (
        state["done"]
        and state["status"] == "stopped"
        and not state["playing"]
        and "Stopped by you" in page.inner_text(".la-status")
    )
    page.evaluate(
        "push({run: 'e', i0: 0, ev: [...batch(0, 12).ev, {kind: 'end', reason: 'error', message: 'The target failed. Shorten the prompt.', stats: [], verdict: null, agreement: []}], end: true})"
    )
    assert "Shorten the prompt" in page.inner_text(".la-error") and page.locator(".la-lane").count() == 1


def test_a_click_opens_the_pass_and_another_closes_it(page):
    raced(page, 0.08)
    token = page.locator(".la-lane .la-accepted").first
    token.click()
    assert page.locator(".la-inspector").is_visible()
    assert page.inner_text(".la-passline").startswith("pass 1 of 2")
    state = page.evaluate("lookahead.state()")
    assert state["t"] == pytest.approx(0.02) and not state["playing"], "the playhead is at the end of the opened pass"
    assert page.locator(".la-s-box").all_inner_texts() == [" a", " b", " x", " y"], "and the strip shows it"
    page.keyboard.press("ArrowRight")
    assert page.inner_text(".la-i-title") == "draft: pass 2 of 2", "the inspector follows"
    page.keyboard.press("ArrowLeft")
    token.click()
    assert not page.locator(".la-inspector").is_visible()
    page.get_by_role("button", name="open the pass").click()
    assert page.locator(".la-inspector").is_visible()
    page.evaluate("push(batch(0, undefined, 'next'))")
    assert not page.locator(".la-inspector").is_visible(), "a new race closes the old one's pass"


def test_a_card_opens_by_pointer_and_by_keyboard(page):
    raced(page, 0.08)
    lane = page.locator(".la-lane")
    assert not page.locator(".la-cardbox").is_visible()
    lane.locator(".la-accepted").first.hover()
    assert page.locator(".la-cardbox").is_visible() and "pass 1" in page.inner_text(".la-cardbox").lower()
    page.locator(".la-number").hover()
    assert not page.locator(".la-cardbox").is_visible()
    lane.locator(".la-scroll").focus()
    t = page.evaluate("lookahead.state().t")
    page.keyboard.press("Enter")
    assert page.inner_text(".la-pointed").strip() == "h" and page.locator(".la-cardbox").is_visible()
    page.keyboard.press("ArrowLeft")
    assert page.inner_text(".la-pointed").strip() == "g"
    assert page.evaluate("lookahead.state().t") == t, "among tokens the arrows do not step through passes"
    page.keyboard.press("Enter")
    assert page.locator(".la-inspector").is_visible()
    lane.locator(".la-scroll").focus()
    page.keyboard.press("Escape")
    assert not page.locator(".la-cardbox").is_visible()


def test_heat_views(page):
    assert page.evaluate("""(() => { const log = full(), [first, second] = [1, 2].map(i => modules.heat.heatOf(log.lanes[1].steps[i]).map(h => h.fails));
      return [first, second, modules.heat.heatOf(onePass(" k"))[0]]; })()""") == [
        [False, False, None],
        [False, False, False, False, None],
        {"fails": None, "bits": None},
    ], "no rejected test was recorded"
    bits = """(() => { const step = onePass(" k"); step.tests = [{row: null, token: 1, outcome: "bonus", entropy: 2 * Math.LN2}]; return modules.heat.heatOf(step)[0].bits; })()"""
    assert page.evaluate(bits) == pytest.approx(2)
    assert page.evaluate("[null, 0, 0.3, 1, 2.5, 9].map(modules.heat.levelOf)") == [-1, 0, 1, 2, 3, 4]
    mount(page, "")
    page.evaluate("""() => { const b = batch(), step = b.ev[11].step;
      step.tests = [{row: 0, token: 0, outcome: "accepted", entropy: 0.1}, {row: 1, token: 1, outcome: "accepted", entropy: 1}, {row: 2, token: 2, outcome: "rejected"}, {row: null, token: 2, outcome: "correction", entropy: 4}]; push(b); }""")
    seek(page, 0.08)
    page.get_by_role("button", name="failures").click()
    failed = page.locator('.la-lanes .la-tok[data-fails="true"]')
    assert failed.count() == 1 and failed.inner_text().strip() == "c"
    assert "double" in failed.evaluate("n => getComputedStyle(n).textDecoration"), "a shape, not color alone"
    assert page.get_by_role("list", name="Legend: failures").is_visible()
    page.get_by_role("button", name="entropy").click()
    assert page.locator('.la-lanes .la-tok[data-bits="4"]').inner_text().strip() == "c"
    assert page.get_by_role("list", name="Legend: entropy of the target").is_visible()
    page.get_by_role("button", name="drafts").click()
    assert page.get_by_role("list", name="Legend", exact=True).is_visible()


def test_help_opens_by_key_and_closes(page):
    raced(page)
    page.evaluate("document.activeElement.blur()")
    page.keyboard.press("?")
    assert page.locator("dialog.la-help").is_visible() and "play or pause" in page.inner_text("dialog.la-help")
    page.keyboard.press("Escape")
    assert not page.locator("dialog.la-help").is_visible()


# ------------------------------------------------------------------ exports and imports


def test_the_recording_is_built_from_the_events(page):
    raced(page)
    with page.expect_download() as waiting:
        page.get_by_role("button", name="recording", exact=True).click()
    trace = json.loads(waiting.value.path().read_text(encoding="utf-8"))
    assert waiting.value.suggested_filename.startswith("lookahead-naive-draft")
    assert [len(lane["steps"]) for lane in trace["lanes"]] == [9, 3]
    assert trace["schema"] == "lookahead-trace/1" and trace["lanes"][1]["method"] == "draft"
    assert json.loads(page.evaluate("lookahead.trace()")) == trace
    with page.expect_download():
        page.get_by_role("button", name="table").click()
    assert page.evaluate("window.made[0]") == "csv" and page.evaluate("window.made[1].lanes.length") == 2


def test_nothing_can_be_saved_before_the_end(page):
    mount(page, "")
    page.evaluate("push(batch(0, 12))")
    assert page.get_by_role("button", name="recording", exact=True).is_disabled()


def test_a_file_is_opened_or_refused_with_a_message(page):
    raced(page)
    page.set_input_files(".la-home input", {"name": "x.json", "mimeType": "application/json", "buffer": b"{}"})
    page.wait_for_function("!document.querySelector('.la-error').hidden")
    assert "no such trace" in page.inner_text(".la-error") and page.evaluate("lookahead.state().run") == "r"
    page.evaluate("window.answer = batch(0, undefined, 'opened-1')")
    page.set_input_files(".la-home input", {"name": "y.json", "mimeType": "application/json", "buffer": b"{}"})
    page.wait_for_function("lookahead.state().run === 'opened-1' && lookahead.state().error === null")
    page.evaluate("""() => { const file = new File(["x"], "big.json"); Object.defineProperty(file, "size", {value: 2 ** 26});
      const input = document.querySelector(".la-home input"); Object.defineProperty(input, "files", {value: [file]}); input.dispatchEvent(new Event("change")); }""")
    assert "at most 32" in page.inner_text(".la-export-status")


def test_a_file_is_read_as_utf_8(page):
    raced(page)
    text = '{"a": "für\u2028"}'
    for encoding in ("cp1252", "utf-16"):
        buffer = '{"a": "für"}'.encode(encoding)
        file = {"name": f"{encoding}.json", "mimeType": "application/json", "buffer": buffer}
        page.set_input_files(".la-home input", file)
        page.get_by_text(f"{encoding}.json is not UTF-8 text; save it as UTF-8.").wait_for()
    assert page.evaluate("window.opened") is None
    file = {"name": "mark.json", "mimeType": "application/json", "buffer": text.encode("utf-8-sig")}
    page.set_input_files(".la-home input", file)
    page.wait_for_function("window.opened")
    assert page.evaluate("window.opened") == text


def test_the_link_button_is_shown_if_there_is_a_link(page):
    raced(page)
    assert not page.get_by_role("button", name="copy link").is_visible()
    page.evaluate(
        """() => { const b = batch(0, undefined, 'linked'); b.ev[0] = {...b.ev[0], live: false, link: '?recording=story', pass: 1}; push(b); }"""
    )
    state = page.evaluate("lookahead.state()")
    assert state["t"] == pytest.approx(0.02) and not state["playing"], "the playhead is at the pass of the link"
    page.evaluate(
        "Object.defineProperty(navigator, 'clipboard', {value: {writeText: text => { window.copied = text; return Promise.resolve(); }}})"
    )
    page.get_by_role("button", name="copy link").click()
    page.wait_for_function("window.copied")
    assert page.evaluate("window.copied").endswith("/?recording=story&time=0.02")


def test_a_live_run_survives_a_reload(chromium):
    page = blank(chromium)
    raced(page)
    page.evaluate("window.dispatchEvent(new Event('pagehide'))")
    page.goto("http://localhost/")
    page.add_script_tag(content=script())
    recording = json.loads(page.evaluate("JSON.stringify(batch(0, undefined, 'bundled'))"))
    recording["ev"][0].update(live=False, caption="A recording")
    mount(page, json.dumps(recording))
    state = page.evaluate("lookahead.state()")
    assert state["run"] == "r" and state["restored"] and "Restored after a reload" in page.inner_text(".la-statustext")
    page.evaluate(
        "push({run: 'r', i0: lookahead.state().received, ev: [{kind: 'end', reason: 'stopped', stats: []}], end: true})"
    )
    assert "The reload ended the race after" in page.inner_text(".la-statustext"), "no reader has pressed Stop"
    page.close()


def test_hostile_text_stays_text(page):
    mount(page, "")
    page.evaluate("""() => { const b = batch(); b.ev[0] = {...b.ev[0], trace: {...header, prompt: {text: '</script><img src=x onerror="window.hit=1">\\u202E' + 'e' + '\\u0301'.repeat(10000)}}};
      b.ev[3].step.pieces = ['<b onclick=1>']; push(b); }""")
    seek(page, 0.08)
    assert page.locator(".la-text img, .la-text b").count() == 0 and page.evaluate("window.hit") is None
    assert page.evaluate("document.documentElement.scrollWidth <= innerWidth")
    assert page.evaluate(
        "[...document.querySelectorAll('.la-scroll')].every(n => getComputedStyle(n).contain.includes('strict') || getComputedStyle(n).contain.includes('paint'))"
    )


def test_phone_has_no_sideways_scroll_and_big_targets(chromium):
    page = blank(chromium, size=(390, 844))
    raced(page)
    page.wait_for_timeout(100)
    assert page.evaluate("document.documentElement.scrollWidth <= innerWidth")
    sizes = page.evaluate(
        "[...document.querySelectorAll('.la-timeline button')].filter(b => b.getClientRects().length).map(b => [b.offsetWidth, b.offsetHeight])"
    )
    assert all(width >= 40 and height >= 40 for width, height in sizes), sizes
    heights = page.evaluate("[...document.querySelectorAll('.la-lane')].map(l => l.offsetHeight)")
    assert len(set(heights)) == 1
    page.close()


def test_reduced_motion_cuts_the_sweep(chromium):
    page = blank(chromium, reduced_motion="reduce")
    raced(page, 0.03)
    assert page.evaluate("getComputedStyle(document.querySelector('.la-run')).backgroundImage") == "none"
    page.close()


# ------------------------------------------------------------------ color


@pytest.mark.parametrize("block", [":root", ".dark"])
def test_contrast(block):
    colors = palette(block)
    pairs = [
        ("ink", "paper", 12),
        ("ink-2", "paper", 4.5),
        ("ink", "accepted-tint", 4.5),
        ("ink", "forced-tint", 4.5),
        ("forced", "forced-tint", 4.5),
        ("rejected", "rejected-tint", 4.5),
        ("own", "own-tint", 4.5),
        ("own", "paper", 4.5),
        ("draft", "draft-tint", 4.5),
        ("draft", "paper", 4.5),
        ("draft", "accepted-tint", 4.5),
        ("accent", "paper", 4.5),
        ("accepted", "accepted-tint", 3),
        ("ink", "rejected-tint", 4.5),
    ]
    for front, back, minimum in pairs:
        seen = contrast(colors[front], colors[back])
        assert seen >= minimum, (front, back, seen)
