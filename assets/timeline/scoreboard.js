/* scoreboard.js: the numbers of a race at the playhead. The verdict row has the passes, whether the texts are the same,
   and the speedup. Next to the text, each lane has a stack with one block per pass. */

import {HIDDEN, make, setAttr, setText} from "../page/dom.js";
import {count, percent, perSecond, seconds, tenths} from "../page/numbers.js";
import {duration, isDone, passesOf} from "./log.js";
import {frameAt} from "./player.js";
import {announcement, headlineAt, matchOf, passCount, statusLine} from "./sentences.js";

// The lane, its passes, tokens per pass, clock, rate, and badge.
const ROLES = ["rowheader", "cell", "cell", "cell", "cell", "cell"];
const STACK = {width: 96, height: 168}; // pixels
const MAX_BLOCK = 12; // pixels, with the gap

/** The size of a block in pixels, so that a stack of `count` blocks fits. */
function blockSize(count) {
  let size = MAX_BLOCK;
  while (size > 2 && Math.floor(STACK.width / size) * Math.floor(STACK.height / size) < count) size -= 1;
  return size;
}

/** The largest number of passes that a lane of the race can have. */
const mostPasses = log => {
  const most = Math.max(1, ...log.lanes.map(passesOf));
  return isDone(log) ? most : Math.max(most, log.header?.settings.max_new_tokens || 0);
};

export class Scoreboard {
  #ui;
  #rows = []; // by lane: {cells, stack}
  #announced = "";

  constructor(ui) {
    this.#ui = ui;
  }

  /** Build the stacks for a new run. */
  begin(log) {
    this.#announced = "";
    this.#rows = log.lanes.map(() => {
      const stack = make("span.la-stack", HIDDEN);
      Object.assign(stack.style, {width: `${STACK.width}px`, height: `${STACK.height}px`});
      return {cells: ROLES.map(role => make("span.la-cell", {role})), stack};
    });
    this.#ui.scores.replaceChildren(
      ...log.lanes.map((lane, i) => {
        const {cells, stack} = this.#rows[i];
        setText(cells[0], lane.name);
        return make(`div.la-score.${lane.naive ? "la-naive" : ""}`, {role: "row"}, stack, ...cells);
      }),
    );
  }

  /** Announce the start and the outcome of a run to screen readers. */
  announce(log, state, restored) {
    const end = frameAt(log, duration(log));
    const text = announcement(log, state, restored, end, headlineAt(log, end));
    if (!text || text === this.#announced) return;
    this.#announced = text;
    setText(this.#ui.announcer, text);
  }

  draw(log, frame, {state, restored, problem, isStale}) {
    const ui = this.#ui;
    const passes = passCount(log, frame);
    setText(ui.statusText, statusLine(log, state, restored, isStale));
    this.#drawProgress(log.status?.fraction ?? null);
    setText(ui.number, passes.number);
    setText(ui.comparison, passes.words);
    const match = matchOf(log, frame);
    setText(ui.match, match.text);
    setAttr(ui.match, "title", match.note || match.text);
    setAttr(ui.match, "data-match", match.kind);
    ui.match.classList.toggle("la-changed", match.text.startsWith("changes")); // explains the mark of changed tokens
    this.#drawRatio(log, frame);
    const size = blockSize(mostPasses(log));
    const agreement = log.lanes.length > 2 ? log.end?.agreement || [] : [];
    frame.lanes.forEach((lane, i) => {
      this.#drawRow(this.#rows[i], lane, size, lane.finished || frame.atEnd ? agreement[i] : null);
    });
    this.#drawProblem(log, problem);
  }

  #drawProgress(fraction) {
    const {bar} = this.#ui;
    bar.classList.toggle("la-on", fraction !== null);
    if (fraction !== null) bar.firstChild.style.width = percent(fraction, 0);
  }

  /** Draw the speedup, or that the text is wrong. It is gray until the end, because it changes until then. */
  #drawRatio(log, frame) {
    const {ratio, note} = this.#ui;
    const {number, label} = headlineAt(log, frame);
    const isSpeedup = Boolean(number);
    setText(ratio, `${number} ${label}`.trim());
    ratio.classList.toggle("la-final", frame.atEnd && isDone(log));
    ratio.classList.toggle("la-wrong", label.startsWith("the text"));
    const trust = frame.atEnd && (isSpeedup || !label) ? log.end?.trust : null;
    const compared = frame.lanes.length > 2 && isSpeedup ? `${log.lanes.at(-1).name} compared with naive. ` : "";
    setText(note, compared + (trust?.sentence || (isSpeedup ? "Measured once, on this text." : "")));
    note.classList.toggle("la-busy", trust?.steady === false);
  }

  #drawRow({cells: [, passes, perPass, clock, rate, badge], stack}, lane, size, agreement) {
    setText(passes, count(lane.passes, "pass"));
    setText(perPass, `${tenths(lane.perPass)} tokens/pass`);
    setText(clock, seconds(lane.clock));
    setText(rate, perSecond(lane.rate));
    const columns = Math.floor(STACK.width / size);
    const counts = {columns, rows: Math.floor(lane.passes / columns), rest: lane.passes % columns, block: `${size}px`};
    for (const [name, value] of Object.entries(counts)) stack.style.setProperty(`--la-${name}`, String(value));
    setText(badge, agreement ? agreement.badge : "");
    badge.classList.toggle("la-same", Boolean(agreement?.identical));
    if (!agreement) return;
    setAttr(badge, "title", agreement.detail || agreement.badge);
    badge.classList.toggle("la-differs", agreement.identical === false);
  }

  #drawProblem(log, problem) {
    const unexplained = "The run failed; the server gave no reason. Press Race to try again.";
    const failure = log.end?.reason === "error" ? log.end.message || unexplained : "";
    const message = problem || failure;
    this.#ui.error.hidden = !message;
    setText(this.#ui.error, message);
  }
}
