/* timeline.js: the token timeline: its parts put together, and the entry point `mount`.

   What it is.  `mount({element, read, watch, resend, make, open})` builds the component once inside
   `element.querySelector('.la-timeline')` and from then on only changes what differs between two frames: `read()` gives
   the first batch, `watch(fn)` calls when there is another, `resend(run, received)` asks for what was lost; `make` and
   `open` are for home.js. All but `read` and `watch` may be absent. One that is not the page's main timeline (`main:
   false`) hears keys only when it has the focus, plays by itself only what is live, takes nothing home, and is not
   brought back by a reload.

   Why it is so.  Frames come from player.js, whose `frameAt` is pure. What changes is kept where it is changed: the
   run in the log, the instant in the playhead, the reader's choice of a pass in the selection.

   What it does not know.  Gradio (the host passes functions), how drafts are made or verified. */

import {make, setAttr, setText} from "../page/dom.js";
import {Chart} from "./chart.js";
import {Feed} from "./feed.js";
import * as home from "./home.js";
import {listen} from "./keyboard.js";
import {Lane} from "./lane.js";
import {createLog, duration, EPSILON, isDone, tokensOf} from "./log.js";
import {frameAt} from "./player.js";
import {Playhead} from "./playhead.js";
import {Scoreboard} from "./scoreboard.js";
import {Selection} from "./selection.js";
import {skeleton} from "./skeleton.js";
import * as stored from "./stored.js";
import {Strip} from "./strip.js";
import * as transport from "./transport.js";
import {stateOf} from "./words.js";

const LIVE_FRAME_MS = 100;
const WATCHDOG_MS = 100;
const COLUMNS = [1, 1, 2, 3]; // of lanes, by how many there are

class Timeline {
  #lanes = [];
  #stopShown = false; // a stop pauses the playhead once
  #closed = false;
  #drawn = {t: null, batches: null}; // what the last frame showed
  #drawnWhen = 0; // milliseconds
  #ends = new AbortController();
  #host;
  #widths;
  #watchdog;

  constructor(host) {
    const root = host.element.querySelector(".la-timeline");
    const before = host.element.laTimeline; // mounted again on the same element: take over its log
    const view = before?.view();
    before?.destroy();
    this.#host = host;
    this.main = host.main ?? true;
    this.log = before ? before.log : createLog();
    this.ui = skeleton(root);
    this.chart = new Chart(root);
    const moves = {moved: () => this.#draw(), ticked: () => this.#tick()};
    this.playhead = new Playhead(this.log, moves);
    this.feed = new Feed(this.log, host.read, host.first, {
      resend: async (run, received) => host.resend?.(run, received),
      refused: words => setText(this.ui.say, words),
      news: isNewRun => this.#hear(isNewRun),
      changed: () => this.#draw(),
    });
    this.scoreboard = new Scoreboard(this.ui);
    this.transport = new transport.Transport(this.ui);
    const openLast = step => this.selection.open({lane: this.log.lanes.length - 1, step});
    this.strip = new Strip(this.ui.strip, openLast);
    this.selection = new Selection({
      ...{log: this.log, ui: this.ui, changed: () => this.#draw()},
      seek: t => this.playhead.seek(t),
    });
    this.ui.chartbox.append(this.chart.canvas);
    this.ui.home.hidden = !this.main;
    this.#connect(host);
    host.element.laTimeline = this;
    if (this.main) publish(this);
    this.#open(view);
    host.watch(() => this.#closed || this.feed.hear());
    this.#draw();
  }

  // ---------------------------------------------------------------- what this timeline is, for others

  view() {
    return {t: this.playhead.t, playing: this.playhead.playing};
  }

  get state() {
    return stateOf(this.log, this.feed.repair.lost);
  }

  // ---------------------------------------------------------------- beginnings

  /** Shows the host's first value; `view` is the position of the timeline before this one. */
  #open(view) {
    this.#begin();
    if (view && this.log.run) {
      this.playhead.t = view.t;
      this.playhead.play(view.playing);
    }
    this.feed.open();
    if (this.main && !view && !this.log.live) this.#restore();
  }

  /** Everything is as at the start of the log's run. */
  #begin() {
    const {log, ui} = this;
    this.playhead.rewind();
    this.#stopShown = false;
    this.selection.clear();
    this.scoreboard.begin(log);
    this.strip.begin(log);
    this.#lanes = log.lanes.map((lane, i) => new Lane(lane, log, this.selection.listener(i)));
    ui.lanes.replaceChildren(...(this.#lanes.length ? this.#lanes.map(lane => lane.node) : [this.#nothing(log.end)]));
    ui.lanes.style.setProperty("--la-columns", String(COLUMNS[this.#lanes.length] || 2));
    ui.root.classList.toggle("la-many", this.#lanes.length > 3);
    ui.details.hidden = ui.offer.hidden = true;
    ui.details.open = false;
    const last = log.lanes.at(-1);
    if (log.pass) this.playhead.seek(last.ends[last.passes.indexOf(log.pass)] || 0);
    else this.playhead.play(log.lanes.length > 0 && (this.main || log.live));
    const left = this.main && !log.live && stored.left(log.run);
    if (left) this.#resume(left);
  }

  /** In place of lanes: what a link asks for, and a button that runs it. */
  #nothing(end) {
    if (!end?.chips) return make("p.la-empty");
    const run = make("button.la-button.la-run-this", {type: "button"}, "Run this race");
    run.addEventListener("click", () => this.#host.run?.());
    return make("div.la-empty.la-asked", make("p", ...end.chips.map(words => make("span.la-setting", words))), run);
  }

  #resume({t, playing}) {
    this.playhead.seek(t, {keepPlaying: true});
    this.playhead.play(playing);
  }

  #restore() {
    const run = stored.saved();
    if (!run) return;
    this.feed.restore(run);
    this.#resume({t: run.t || 0, playing: Boolean(run.playing)});
  }

  // ---------------------------------------------------------------- news

  #hear(isNewRun) {
    if (isNewRun) this.#begin();
    this.#drawnWhen = 0; // news is drawn with the next frame
    this.playhead.adapt();
    if (this.log.stopped && !this.#stopShown) {
      this.#stopShown = true;
      this.playhead.seek(Number.POSITIVE_INFINITY); // the number is of the same instant as the verdict
    }
    this.scoreboard.announce(this.log, this.state, this.feed.restored);
    if (!this.playhead.playing) this.#draw();
  }

  // ---------------------------------------------------------------- frames

  /** A race that is being run may share this machine's cores: little but news is drawn, so as not to slow it. */
  #tick() {
    const now = performance.now();
    if (this.log.live && !isDone(this.log) && now - this.#drawnWhen < LIVE_FRAME_MS) return;
    this.#drawnWhen = now;
    const {t, batches} = this.#drawn;
    if (t !== this.playhead.t || batches !== this.feed.batches) this.#draw();
  }

  #draw() {
    if (this.#closed) return;
    const {log, ui, playhead, feed, state} = this;
    this.#drawn = {t: playhead.t, batches: feed.batches};
    const frame = frameAt(log, playhead.t);
    setAttr(ui.root, "data-state", state);
    const changed = this.#lanes.filter((lane, i) => lane.update(frame.lanes[i], playhead.playing));
    this.scoreboard.draw(log, frame, {state, restored: feed.restored, problem: feed.problem});
    this.transport.draw(log, playhead);
    if (log.lanes.length) this.strip.draw(frame.lanes.at(-1), playhead.t, playhead.playing ? playhead.speed : 0);
    this.selection.draw(frame, this.#lanes);
    home.draw(log, ui);
    this.#drawVerdict(frame);
    this.chart.draw(log, frame);
    for (const lane of changed) lane.toEnd();
  }

  /** The verdict; once the playhead has seen the end it stays. */
  #drawVerdict(frame) {
    const {log, ui} = this;
    const verdict = log.end?.verdict;
    if (!verdict || !(frame.atEnd || log.stopped) || !ui.details.hidden) return;
    setText(ui.verdict, verdict.sentence || "");
    ui.sums.replaceChildren(...(verdict.arithmetic || []).map(line => make("p", line)));
    ui.details.hidden = false;
    this.#offer();
  }

  /** What to try next, by the chips that come after this one. */
  #offer() {
    const others = this.#host.next?.(this.log.run) || [];
    const buttons = others.map(({id, label}) => {
      const node = make("button.la-button", {type: "button", "aria-label": `try ${label} next`}, label);
      node.addEventListener("click", () => this.#host.press(id));
      return node;
    });
    this.ui.offer.replaceChildren("try next: ", ...buttons);
    this.ui.offer.hidden = !others.length;
  }

  // ---------------------------------------------------------------- the reader's hands

  #connect(host) {
    const {log, ui, playhead, feed, main} = this;
    const on = (node, type, handler) => node.addEventListener(type, handler, {signal: this.#ends.signal});
    const help = () => ui.help.showModal();
    const passNow = () => frameAt(log, playhead.t).lanes.at(-1)?.passes || 0;
    transport.connect({ui, playhead, on});
    listen({place: {root: ui.root, scrub: ui.scrub, main}, playhead, help, on});
    home.connect({log, ui, host, receive: text => feed.receive(text), passNow});
    on(ui.ask, "click", help);
    on(ui.tour, "click", () => host.tour?.());
    ui.tour.hidden = !host.tour;
    on(ui.open, "click", () => this.selection.open(this.selection.chosen(frameAt(log, playhead.t))));
    on(ui.fade, "click", () => this.#keep(false));
    on(ui.keep, "click", () => this.#keep(true));
    for (const button of ui.heat) on(button, "click", () => this.#show(button.dataset.view));
    const drag = event => {
      if (event.buttons & 1) playhead.seek(this.chart.timeAt(event.clientX), {keepPlaying: true});
    };
    on(this.chart.canvas, "pointerdown", drag);
    on(this.chart.canvas, "pointermove", drag);
    on(window, "pagehide", () => {
      if (main && log.live && log.header) stored.save(log, this.view());
    });
    this.#watch(host.element);
  }

  /** Whether rejected runs stay visible. */
  #keep(on) {
    this.ui.root.classList.toggle("la-keep", on);
    setAttr(this.ui.keep, "aria-pressed", String(on));
    setAttr(this.ui.fade, "aria-pressed", String(!on));
    for (const lane of this.#lanes) lane.toEnd();
  }

  /** What the text shows: drafts, failures or entropy. */
  #show(view) {
    this.ui.root.dataset.view = view;
    for (const button of this.ui.heat) setAttr(button, "aria-pressed", String(button.dataset.view === view));
  }

  // ---------------------------------------------------------------- from the first frame to the last

  #watch(element) {
    const {root} = this.ui;
    this.#widths = new ResizeObserver(([{contentRect}]) => {
      root.classList.toggle("la-medium", contentRect.width < 1100);
      root.classList.toggle("la-phone", contentRect.width <= 640);
      root.classList.toggle("la-small", contentRect.width < 352);
    });
    this.#widths.observe(root);
    this.#watchdog = setInterval(() => {
      if (root.isConnected) this.feed.repair.poke(performance.now());
      else this.destroy();
    }, WATCHDOG_MS);
    // An ancestor that hides overflow would hold the phone's sticky transport captive; clipping looks the same.
    for (let node = element; node && node !== document.body; node = node.parentElement) {
      if (getComputedStyle(node).overflow === "hidden") node.style.overflow = "clip";
    }
  }

  destroy() {
    this.#closed = true;
    this.playhead.play(false);
    clearInterval(this.#watchdog);
    this.#widths.disconnect();
    this.#ends.abort();
    this.chart.destroy();
  }
}

/** What tests and the page's other scripts may ask of the main timeline. */
function publish(timeline) {
  const {log} = timeline;
  const trace = () => (log.header ? JSON.stringify(home.traceOf(log)) : null);
  window.lookahead = Object.assign(window.lookahead || {}, {trace, state: () => stateFor(timeline)});
}

const stateFor = ({log, playhead, feed, ui, state}) => ({
  run: log.run,
  done: isDone(log),
  received: log.received,
  expected: log.expected,
  speedup: frameAt(log, duration(log)).speedup,
  lanes: log.lanes.map(lane => ({
    method: lane.method,
    text: lane.steps.map(step => step.pieces.join("")).join(""),
    tokens: tokensOf(lane),
    clock_s: lane.clock,
    finished: Boolean(lane.finish),
  })),
  t: playhead.t,
  playing: playhead.playing,
  status: state,
  rate: playhead.rate,
  restored: feed.restored,
  link: log.link,
  error: ui.error.hidden ? null : ui.error.textContent,
});

/** What a tour and a projector may do with a timeline: look at the last lane's passes, seek a moment of one of
    them, and show a bundled recording. */
const stageOf = ({log, ui, playhead, feed}, host) => {
  const last = () => log.lanes.at(-1);
  const drafts = step => step.draft.tokens.length > 0;
  let chosen = null; // the recording that was last to be shown: another's may come later
  return {
    root: ui.root,
    steps: () => last()?.steps || [],
    seek(index, phase) {
      const {starts, ends, steps} = last();
      const {propose_s, verify_s, other_s} = steps[index];
      const share = {draft: propose_s * 0.999, check: propose_s + verify_s / 2, kept: propose_s + verify_s + other_s}[
        phase
      ];
      const whole = propose_s + verify_s + other_s || 1;
      playhead.seek(phase === "kept" ? ends[index] : starts[index] + ((ends[index] - starts[index]) * share) / whole);
    },
    nextDraft() {
      const index = last()?.steps.findIndex((step, i) => drafts(step) && last().ends[i] > playhead.t + EPSILON);
      if (index >= 0) playhead.seek(last().ends[index]);
    },
    async record(id) {
      chosen = id;
      const batch = await host.recording?.(id);
      if (!batch || chosen !== id) return;
      const isShown = feed.receive(batch).fresh || !log.live;
      if (!isShown) return;
      playhead.seek(0);
      playhead.play(true);
    },
  };
};

export function mount(host) {
  return stageOf(new Timeline(host), host);
}
