/* timeline.js: the token timeline: `mount` builds the component once in the host's `.la-timeline`; afterwards only
   differences between frames are drawn. Frames are computed by player.js. */

import {button, make, setAttr, setText} from "../page/dom.js";
import {Chart} from "./chart.js";
import {Feed} from "./feed.js";
import * as home from "./home.js";
import {listen} from "./keyboard.js";
import {Lane} from "./lane.js";
import {
  createLog,
  differenceOf,
  duration,
  EPSILON,
  isCode,
  isDone,
  isOneText,
  OTHER_TEXT,
  secondsOf,
  tokensOf,
} from "./log.js";
import {measuredOf} from "./measured.js";
import {frameAt} from "./player.js";
import {Playhead} from "./playhead.js";
import {asked, Question, verdictOf} from "./question.js";
import {Scoreboard} from "./scoreboard.js";
import {Selection} from "./selection.js";
import {headlineAt, stateOf} from "./sentences.js";
import {skeleton} from "./skeleton.js";
import * as stored from "./stored.js";
import {isPartlyAccepted, partsOf, Strip} from "./strip.js";
import * as transport from "./transport.js";

const LIVE_FRAME_MS = 100;
const WATCHDOG_MS = 100;
const COLUMNS = [1, 1, 2, 3]; // by the number of lanes

class Timeline {
  #lanes = [];
  #isOneText = false; // whether naive and the other lane are drawn as one text
  #isAtField = false; // the error is shown at the form's field
  #isStale = false; // the form has changed since this run
  #isFirst = true; // no run has been shown yet
  #stoppedTime = null; // seconds: the end to which a stop has moved the playhead
  #closed = false;
  #drawn = {t: null, batches: null}; // values of the last frame
  #drawnTime = 0; // milliseconds
  #question = null; // the pass with a question: {index, run, parts}
  #listeners = new AbortController();
  #host;
  #widths;
  #watchdog;

  constructor(host) {
    const root = host.element.querySelector(".la-timeline");
    const previous = host.element.laTimeline; // mounted again on the same element: keep its log
    const view = previous?.view();
    previous?.destroy();
    this.#host = host;
    this.main = host.main ?? true;
    this.log = previous ? previous.log : createLog();
    this.ui = skeleton(root);
    this.chart = new Chart(root);
    const asks = () => !root.classList.contains("la-embedded");
    const callbacks = {moved: () => this.#draw(), ticked: () => this.#tick(), asks};
    this.playhead = new Playhead(this.log, callbacks);
    this.feed = new Feed(this.log, host.read, host.first, {
      resend: async (run, received) => host.resend?.(run, received),
      refused: (message, field) => {
        this.#isAtField = Boolean(field && host.refused?.(field, message));
        if (!this.#isAtField) setText(this.ui.announcer, message);
      },
      updated: isNewRun => this.#update(isNewRun),
      changed: () => this.#draw(),
    });
    this.scoreboard = new Scoreboard(this.ui);
    this.transport = new transport.Transport(this.ui);
    this.strip = new Strip(this.ui.strip, () => this.selection.openCurrent());
    this.question = new Question(count => this.#predict(count));
    this.ui.stripbox.append(this.question.node);
    this.selection = new Selection({
      ...{log: this.log, ui: this.ui, changed: () => this.#draw()},
      seek: t => this.playhead.seek(t),
    });
    this.ui.chartbox.prepend(this.chart.canvas);
    this.ui.home.hidden = !this.main;
    this.ui.root.classList.toggle("la-new", this.main && !previous);
    this.#connect(host);
    host.element.laTimeline = this;
    if (this.main) publish(this);
    this.#start(view);
    host.watch(() => this.#closed || this.feed.update());
    this.#draw();
  }

  // ---------------------------------------------------------------- state for other modules

  view() {
    return {t: this.playhead.t, playing: this.playhead.playing};
  }

  /** Whether its live runs survive a reload. */
  get #isKept() {
    return this.main || Boolean(this.#host.name);
  }

  get state() {
    return stateOf(this.log, this.feed.repair.lost);
  }

  // ---------------------------------------------------------------- start of a run

  /** Show the host's first value; `view` is the playhead of the previous timeline on this element. */
  #start(view) {
    this.#begin();
    if (view && this.log.run) {
      this.playhead.t = view.t;
      this.playhead.play(view.playing);
    }
    this.feed.open();
    if (this.#isKept && !view && !this.log.live) this.#restore();
  }

  /** Reset everything to the start of the log's run. */
  #begin() {
    const {log, ui} = this;
    this.playhead.rewind();
    this.#stoppedTime = null;
    this.#isStale = false;
    ui.root.classList.remove("la-stale");
    this.#host.begun?.();
    this.selection.clear();
    this.scoreboard.begin(log);
    this.#buildLanes();
    ui.details.hidden = ui.offer.hidden = true;
    ui.details.open = false;
    const last = log.lanes.at(-1);
    const linked = this.#isFirst && this.main ? home.linkedTime(log) : null;
    this.#isFirst = !log.run;
    if (linked !== null) this.playhead.seek(linked);
    else if (log.pass) this.#showPass(last, last.passes.indexOf(log.pass));
    else if (this.main || log.live) this.playhead.play(log.lanes.length > 0);
    else this.playhead.seek(duration(log));
    const left = this.main && !log.live && stored.takePlayhead(log.run);
    if (left) this.#resume(left);
  }

  /** Show a pass of the last lane. In a lesson, the reader first predicts how much of its draft is accepted. */
  #showPass(lane, index) {
    const step = lane.steps[index];
    if (!this.main && step && isPartlyAccepted(step)) this.playhead.ask(index);
    else this.playhead.seek(lane.ends[index] || 0);
  }

  /** Build one text for both lanes if they write the same, or a text per lane. */
  #buildLanes() {
    const {log, ui} = this;
    this.#isOneText = this.#wantsOneText;
    const at = this.#isOneText ? [1] : [...log.lanes.keys()];
    const naive = this.#isOneText ? log.lanes[0] : null;
    this.#lanes = at.map(i => ({index: i, text: new Lane(log.lanes[i], log, this.selection.listener(i), naive)}));
    ui.lanes.replaceChildren(...(at.length ? this.#lanes.map(({text}) => text.node) : [this.#emptyBox(log.end)]));
    ui.lanes.style.setProperty("--la-columns", String(COLUMNS[at.length] || 2));
    ui.root.classList.toggle("la-many", at.length > 3);
    ui.root.classList.toggle("la-schema", Boolean(log.header?.settings.schema));
    ui.sideBySide.hidden = !(log.header && isOneText(log));
  }

  get #wantsOneText() {
    const isPressed = this.ui.sideBySide.getAttribute("aria-pressed") === "true";
    return Boolean(this.log.header) && !isPressed && isOneText(this.log);
  }

  /** The box shown without lanes: the settings of a link, and a button that runs the race. */
  #emptyBox(end) {
    if (!end?.chips) return make("p.la-empty");
    const run = button("la-button.la-run-this", "Run this race", () => this.#host.run?.());
    return make("div.la-empty.la-asked", make("p", ...end.chips.map(setting => make("span.la-setting", setting))), run);
  }

  #resume({t, playing}) {
    this.playhead.seek(t, {keepPlaying: true});
    this.playhead.play(playing);
  }

  #restore() {
    const run = stored.saved(this.#host.name);
    if (!run) return;
    this.feed.restore(run);
    this.#resume({t: run.t || 0, playing: Boolean(run.playing)});
  }

  /** Dim the race, because the form now describes another one. Returns whether it is dimmed. */
  setStale(isStale) {
    const {log, ui, playhead} = this;
    this.#isStale = isStale && Boolean(log.header) && isDone(log);
    ui.root.classList.toggle("la-stale", this.#isStale);
    if (this.#isStale) playhead.play(false);
    this.#draw();
    return this.#isStale;
  }

  // ---------------------------------------------------------------- new events

  #update(isNewRun) {
    if (isNewRun) this.#begin();
    if (isNewRun && this.#host.name) this.ui.root.scrollIntoView({block: "nearest"});
    if (this.#isOneText !== this.#wantsOneText) this.#buildLanes(); // the texts differ from a new token on
    if (!this.#isOneText && this.log.lanes.length > 1) this.#markDifferences();
    this.ui.root.classList.toggle("la-code", isCode(this.log));
    this.#drawnTime = 0; // the next frame draws the new events
    this.playhead.adapt();
    // A stop shows the end, also if its last events arrive later, unless the reader has moved the playhead.
    if (this.log.stopped && [null, this.playhead.t].includes(this.#stoppedTime)) {
      this.playhead.seek(Number.POSITIVE_INFINITY);
      this.#stoppedTime = this.playhead.t;
    }
    this.scoreboard.announce(this.log, this.state, this.feed.restored);
    if (!this.playhead.playing) this.#draw();
  }

  #markDifferences() {
    const {lanes} = this.log;
    const naive = lanes.find(lane => lane.naive);
    for (const {index, text} of this.#lanes) {
      const isCompared = naive && !lanes[index].options.server && !OTHER_TEXT[this.log.header.settings.rule];
      text.markDifference(isCompared ? differenceOf(lanes[index].naive ? lanes.at(-1) : lanes[index], naive) : -1);
    }
  }

  // ---------------------------------------------------------------- frames

  /** Draw less often during a live race, which may run on this machine's cores. */
  #tick() {
    const now = performance.now();
    if (this.log.live && !isDone(this.log) && now - this.#drawnTime < LIVE_FRAME_MS) return;
    this.#drawnTime = now;
    const {t, batches} = this.#drawn;
    if (t !== this.playhead.t || batches !== this.feed.batches) this.#draw();
  }

  #draw() {
    if (this.#closed) return;
    const {log, ui, playhead, feed, state} = this;
    this.#drawn = {t: playhead.t, batches: feed.batches};
    const frame = frameAt(log, playhead.t);
    setAttr(ui.root, "data-state", state);
    const naive = this.#isOneText ? frame.lanes[0] : null;
    const changed = this.#lanes.filter(({index, text}) => text.update(frame.lanes[index], playhead.playing, naive));
    const {restored} = feed;
    const problem = this.#isAtField ? "" : feed.problem;
    this.scoreboard.draw(log, frame, {state, restored, problem, isStale: this.#isStale});
    this.transport.draw(log, playhead, this.chart.axis(log));
    const isFast = this.#drawStrip(frame);
    this.selection.draw(frame, this.#lanes, isFast, playhead.question);
    home.draw(log, ui);
    this.#drawVerdict(frame);
    this.chart.draw(log, frame);
    for (const {text} of changed) text.toEnd();
  }

  /** Draw the strip and the question about its pass. Returns whether passes are too short to be shown step by step. */
  #drawStrip(frame) {
    const {log, playhead, selection} = this;
    const {question, answer} = playhead;
    const lane = question === null && !answer ? selection.lane : log.lanes.length - 1;
    const rate = playhead.playing ? playhead.speed : 0;
    const isFast = this.strip.draw(log, lane, frame, {rate, question, answer});
    this.question.show(question === null ? null : this.#asked(question));
    return isFast;
  }

  /** The pass with a question, as `partsOf` returns it; announced when it is new. */
  #asked(index) {
    if (this.#question?.index !== index || this.#question.run !== this.log.run) {
      this.#question = {index, run: this.log.run, parts: partsOf(this.log.lanes.at(-1).steps[index])};
      const {drafted} = this.#question.parts;
      const text = drafted.map(token => token.text).join("");
      setText(this.ui.announcer, `The draft is “${text}”: ${asked(this.#question.parts)} Press a digit.`);
    }
    return this.#question.parts;
  }

  /** Show the outcome after the reader's prediction. */
  #predict(count) {
    setText(this.ui.announcer, verdictOf(this.#question.parts, count));
    this.playhead.predict(count);
  }

  /** Show the verdict when the playhead has reached the end; it stays visible. */
  #drawVerdict(frame) {
    const {log, ui} = this;
    const verdict = log.end?.verdict;
    if (!verdict || !(frame.atEnd || log.stopped) || !ui.details.hidden) return;
    const details = (log.end.agreement || []).map(badge => badge?.detail).filter(Boolean);
    const {number, label} = headlineAt(log, frame);
    const hasSpeedup = Boolean(number) || !label; // a text that differs has no speedup
    const {badge} = log.end.agreement?.at(-1) || {};
    setText(ui.verdict, hasSpeedup ? verdict.sentence || "" : `No speedup is reported, because the text ${badge}.`);
    ui.sums.replaceChildren(
      ...[...(hasSpeedup ? verdict.arithmetic || [] : []), ...details].map(line => make("p", line)),
    );
    ui.details.hidden = false;
    this.#suggest();
    if (hasSpeedup) return;
    const naive = log.lanes.find(lane => lane.naive);
    for (const {text} of this.#lanes) text.toToken(differenceOf(naive, log.lanes.at(-1)));
  }

  /** Suggest the presets after this one. */
  #suggest() {
    const others = this.#host.next?.(this.log.run) || [];
    const buttons = others.map(({id, label}) =>
      button("la-button", label, () => this.#host.press(id), {"aria-label": `try ${label} next`}),
    );
    this.ui.offer.replaceChildren("try next: ", ...buttons);
    this.ui.offer.hidden = !others.length;
  }

  // ---------------------------------------------------------------- controls

  #connect(host) {
    const {log, ui, playhead, feed, main} = this;
    const on = (node, type, handler) => node.addEventListener(type, handler, {signal: this.#listeners.signal});
    const help = () => ui.help.showModal();
    const step = (direction, isOfAll) =>
      log.lanes.length && playhead.step(direction, isOfAll ? -1 : this.selection.lane);
    transport.connect({ui, playhead, step, on});
    listen({parts: {root: ui.root, scrub: ui.scrub, main}, playhead, question: this.question, step, help, on});
    home.connect({log, ui, host, receive: text => feed.receive(text), timeNow: () => playhead.t});
    on(ui.ask, "click", help);
    on(ui.open, "click", () => this.selection.openCurrent());
    on(ui.fade, "click", () => this.#keep(false));
    on(ui.keep, "click", () => this.#keep(true));
    on(ui.sideBySide, "click", () => this.#toggleSideBySide());
    for (const choice of ui.heat) on(choice, "click", () => this.#show(choice.dataset.view));
    const drag = event => {
      if (event.buttons & 1) playhead.seek(this.chart.timeAt(event.clientX), {keepPlaying: true});
    };
    on(this.chart.canvas, "pointerdown", drag);
    on(this.chart.canvas, "pointermove", drag);
    on(window, "pagehide", () => {
      if (this.#isKept && log.live && log.header) stored.save(log, this.view(), host.name);
    });
    this.#observe(host.element);
  }

  /** Keep rejected tokens visible, or fade them. */
  #keep(on) {
    this.ui.root.classList.toggle("la-keep", on);
    setAttr(this.ui.keep, "aria-pressed", String(on));
    setAttr(this.ui.fade, "aria-pressed", String(!on));
    for (const {text} of this.#lanes) text.toEnd();
  }

  #toggleSideBySide() {
    const {sideBySide} = this.ui;
    setAttr(sideBySide, "aria-pressed", String(sideBySide.getAttribute("aria-pressed") !== "true"));
    this.#buildLanes();
    this.#draw();
  }

  /** Select the view of the text: drafts, failures or entropy. */
  #show(view) {
    this.ui.root.dataset.view = view;
    for (const choice of this.ui.heat) setAttr(choice, "aria-pressed", String(choice.dataset.view === view));
  }

  // ---------------------------------------------------------------- observers, and the end

  #observe(element) {
    const {root} = this.ui;
    this.#widths = new ResizeObserver(([{contentRect}]) => {
      root.classList.toggle("la-medium", contentRect.width < 1100);
      root.classList.toggle("la-phone", contentRect.width <= 640);
      root.classList.toggle("la-small", contentRect.width < 352);
    });
    this.#widths.observe(root);
    this.#watchdog = setInterval(() => {
      if (root.isConnected) this.feed.repair.tick(performance.now());
      else this.destroy();
    }, WATCHDOG_MS);
    // Sticky controls do not work in an ancestor with hidden overflow; clipping looks the same.
    for (let node = element; node && node !== document.body; node = node.parentElement) {
      if (getComputedStyle(node).overflow === "hidden") node.style.overflow = "clip";
    }
  }

  destroy() {
    this.#closed = true;
    this.playhead.play(false);
    clearInterval(this.#watchdog);
    this.#widths.disconnect();
    this.#listeners.abort();
    this.chart.destroy();
  }
}

/** Publish the functions of `window.lookahead`, for tests and the page's other scripts. */
function publish(timeline) {
  const {log} = timeline;
  const trace = () => (log.header ? JSON.stringify(home.traceOf(log)) : null);
  const race = () => measuredOf(log);
  window.lookahead = Object.assign(window.lookahead || {}, {trace, race, state: () => stateFor(timeline)});
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
  error: feed.problem || (ui.error.hidden ? null : ui.error.textContent),
});

/** The functions for the tour and the projector mode: read the last lane's passes, seek a moment of a pass, show a
    bundled recording. */
const stageOf = (timeline, host) => {
  const {log, ui, playhead, feed} = timeline;
  const last = () => log.lanes.at(-1);
  const drafts = step => step.draft.tokens.length > 0;
  let chosen = null; // the last request for a recording; an earlier one may arrive after it
  return {
    root: ui.root,
    edited: () => timeline.setStale(true),
    steps: () => last()?.steps || [],
    /** The time of the end of the pass, or of a moment in its phase "draft" or "verify". */
    timeOf(index, phase) {
      const {starts, ends, steps} = last();
      const {propose_s, verify_s} = steps[index];
      if (phase === "accept") return ends[index];
      const spent = phase === "draft" ? propose_s * 0.999 : propose_s + verify_s / 2;
      return starts[index] + ((ends[index] - starts[index]) * spent) / (secondsOf(steps[index]) || 1);
    },
    end: () => duration(log),
    seek: t => playhead.seek(t),
    nextDraft() {
      const index = last()?.steps.findIndex((step, i) => drafts(step) && last().ends[i] > playhead.t + EPSILON);
      if (index >= 0) playhead.seek(last().ends[index]);
    },
    togglePlaying: () => playhead.toggle(),
    session: async name => host.session?.(name),
    /** Pause, and ignore a recording that arrives later. */
    clear() {
      chosen = null;
      playhead.play(false);
    },
    seekPass(pass, phase) {
      const index = last()?.passes.indexOf(pass) ?? -1;
      if (index >= 0) playhead.seek(this.timeOf(index, phase));
    },
    /** Show a bundled recording: played from its start, or paused in a phase of a pass, from 1. */
    async record(id, pass = 0, phase = "accept") {
      const request = {};
      chosen = request;
      playhead.play(false);
      const batch = await host.recording?.(id);
      if (!batch || chosen !== request) return;
      if (!feed.receive(batch).fresh && log.live) return;
      playhead.seek(0);
      if (pass) this.seekPass(pass, phase);
      else playhead.play(true);
    },
  };
};

/** Mount a timeline. `host` has `element`; `read()` returns the current batch; `watch(fn)` calls `fn` when there is
    another. Optional: `resend(run, received)` requests lost events, `make` and `open` are for home.js. With `main:
    false` it has keys only with the focus, plays only live runs, exports nothing, and its runs survive a reload only
    with a `name`. */
export function mount(host) {
  return stageOf(new Timeline(host), host);
}
