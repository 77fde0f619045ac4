"""The page's drawing time: two lanes of a thousand tokens, live and replayed, in software rendering.

No server and no model, so the times are the page's only. The limits are 1.5 times the times of a quiet machine, multiplied by
the time of a fixed layout relative to that machine. At 4x, 2,600 tokens per second are drawn. A measurement is repeated up to
three times, because noise only adds time. `pytest -s` prints the results.
"""

from __future__ import annotations

import pytest
from synthetic import lane, trace
from test_timeline import blank, mount

from lookahead.server.runs import complete_batch
from lookahead.trace import wire

pytestmark = [pytest.mark.browser, pytest.mark.timed]
FRAME_MS, GAP_MS, SCRUB_MS, SCREEN_MS = 30, 75, 100, 300

# The median of fifteen times, in milliseconds, to build, lay out and measure two thousand spans. QUIET_MS is the time on
# the machine where the limits were set.
LAYOUT = """() => {
  const times = [];
  for (let i = 0; i < 15; i++) {
    const start = performance.now(), box = document.body.appendChild(document.createElement("div"));
    for (let at = 0; at < 2000; at++) { const span = document.createElement("span"); span.textContent = `word${at} `; box.append(span); }
    box.lastChild.getBoundingClientRect();
    box.remove();
    times.push(performance.now() - start);
  }
  return times.sort((a, b) => a - b)[7];
}"""
QUIET_MS = 12

# The time between the browser's frames, and our callbacks' time per frame.
WATCH = """() => {
  window.gaps = []; window.work = [];
  const ask = requestAnimationFrame.bind(window);
  window.requestAnimationFrame = fn => ask(now => { const start = performance.now(); fn(now); work.push(performance.now() - start); });
  let last = null;
  const look = now => { if (last !== null) gaps.push(now - last); last = now; ask(look); };
  ask(look);
}"""
# The log as it arrives: a batch every 80 ms with the new steps of the lanes, which run in turns.
FEED = """events => new Promise(done => {
  let at = 0, sum = 0;
  const clocks = [0, 0], due = events.map(event => {
    if (event.kind === "step") { sum += event.clock_s - clocks[event.lane]; clocks[event.lane] = event.clock_s; }
    return sum;
  });
  const start = performance.now(); window.delays = [];
  const send = () => {
    const now = (performance.now() - start) / 1000, first = at;
    while (at < events.length && due[at] <= now) at += 1;
    if (at > first) {
      push({run: "live", i0: first, ev: events.slice(first, at), end: at === events.length});
      const tokens = lookahead.state().lanes.map(lane => lane.tokens), made = start + due[first] * 1000;
      const seen = () => {
        const shown = [...document.querySelectorAll(".la-text")].map(node => node.laShown || 0);
        if (document.querySelector(".la-statustext").textContent.includes(`${Math.max(...tokens)} of`) || at === events.length) delays.push(performance.now() - made);
        else requestAnimationFrame(seen);
      };
      requestAnimationFrame(seen);
    }
    if (at < events.length) setTimeout(send, 80); else done();
  };
  send();
})"""


@pytest.fixture(scope="module")
def long_race():
    return trace(lane("naive", 1000), lane("draft", 1000, k=6), max_new_tokens=1000)


def p95(values):
    return sorted(values)[int(len(values) * 0.95)]


def measured(name, page):
    gaps, work = page.evaluate("[gaps, work]")
    print(
        f"\n{name}: {len(gaps)} frames, gap p95 {p95(gaps):.1f} ms, most {max(gaps):.0f} ms; own work p95 {p95(work):.1f} ms"
    )
    return p95(gaps), p95(work)


def slower(page):
    """Return this machine's layout time divided by that of the machine where the limits were set; at least 1."""
    took = page.evaluate(LAYOUT)
    print(f"\n2,000 spans laid out in {took:.1f} ms")
    return max(1, took / QUIET_MS)


def repeated_if_noisy(measure):
    """Run a measurement up to three times, until it is within its limits."""

    def tried(chromium, long_race):
        for left in (2, 1, 0):
            page = blank(chromium, (1440, 900))
            try:
                return measure(page, long_race)
            except OverLimit:
                if not left:
                    raise
            finally:
                page.close()

    tried.__name__, tried.__doc__ = measure.__name__, measure.__doc__
    return tried


class OverLimit(AssertionError):
    """A time above its limit."""


def check(slow, *limits):
    """Check each (milliseconds, limit) on a machine that is `slow` times as slow."""
    if any(took >= limit * slow for took, limit in limits):
        raise OverLimit(slow, limits)


@repeated_if_noisy
def test_two_lanes_of_a_thousand_tokens_live(page, long_race):
    mount(page, "")
    slow = slower(page)
    page.evaluate(WATCH)
    events = [event.to_dict() for event in wire.events(long_race)]
    events[0]["live"] = True
    page.evaluate(FEED, events)
    gap, work = measured("live", page)
    delays = page.evaluate("delays")
    print(f"event to screen: p95 {p95(delays):.0f} ms of {len(delays)}")
    state = page.evaluate("lookahead.state()")
    assert (
        state["done"]
        and state["received"] == state["expected"]
        and [x["tokens"] for x in state["lanes"]] == [1000, 1000]
    )
    check(max(slow, slower(page)), (work, FRAME_MS), (gap, GAP_MS), (p95(delays), SCREEN_MS))


@repeated_if_noisy
def test_two_lanes_of_a_thousand_tokens_replayed_and_scrubbed(page, long_race):
    mount(page, complete_batch("r", wire.events(long_race, "A recording")))
    for _ in range(8):
        page.keyboard.press("]")
    assert page.evaluate("lookahead.state().rate") == 4
    page.keyboard.press("Home")
    slow = slower(page)
    page.evaluate(WATCH)
    page.evaluate("lookahead.state().playing || document.querySelector('.la-play').click()")
    page.wait_for_function("!lookahead.state().playing")
    gap, work = measured("replay at 4x", page)
    check(max(slow, slower(page)), (work, FRAME_MS), (gap, GAP_MS))
    times = page.evaluate("""async () => {
      const scrub = document.querySelector(".la-scrub"), most = Number(scrub.max), times = [];
      for (let i = 0; i < 120; i++) {
        scrub.value = most * (i * 37 % 120) / 120;
        const start = performance.now();
        scrub.dispatchEvent(new Event("input", {bubbles: true}));
        await new Promise(done => requestAnimationFrame(() => { const channel = new MessageChannel(); channel.port1.onmessage = done; channel.port2.postMessage(0); }));
        times.push(performance.now() - start);
      }
      return times; }""")
    print(f"scrub: p95 {p95(times):.1f} ms")
    check(slow, (p95(times), SCRUB_MS))
