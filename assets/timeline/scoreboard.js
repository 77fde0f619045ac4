/* scoreboard.js: the area above the lanes: the state of the run, the speedup and a line of numbers per lane, all at
   the playhead. A lane's badge is shown after the lane has finished. */

import {make, setAttr, setText} from "../page/dom.js";
import {percent, perSecond, seconds, tenths} from "../page/numbers.js";
import {duration} from "./log.js";
import {frameAt} from "./player.js";
import {announcement, headline, outcome, statusLine} from "./sentences.js";

const ROLES = ["rowheader", "cell", "cell", "cell", "cell"]; // lane, clock, rate, tokens per pass, badge
const REJECTION = "rejection sampling: same distribution, different text";

export class Scoreboard {
  #ui;
  #rows = [];
  #announced = "";

  constructor(ui) {
    this.#ui = ui;
  }

  /** Build the lines for a new run. */
  begin(log) {
    this.#announced = "";
    this.#rows = log.lanes.map(() => ROLES.map(role => make("span.la-cell", {role})));
    this.#ui.scores.replaceChildren(
      ...log.lanes.map((lane, i) => {
        setText(this.#rows[i][0], lane.name);
        return make(`div.la-score.${lane.naive ? "la-naive" : ""}`, {role: "row"}, ...this.#rows[i]);
      }),
    );
  }

  /** Announce the start and the outcome of a run to screen readers. */
  announce(log, state, restored) {
    const text = announcement(log, state, restored, frameAt(log, duration(log)).speedup);
    if (!text || text === this.#announced) return;
    this.#announced = text;
    setText(this.#ui.announcer, text);
  }

  draw(log, frame, {state, restored, problem}) {
    const {number, label: comparison} = headline(frame.speedup);
    const ui = this.#ui;
    setText(ui.statusText, statusLine(log, state, restored));
    this.#drawProgress(log.status?.fraction ?? null);
    setText(ui.number, number);
    setText(ui.comparison, comparison);
    setText(ui.winner, comparison ? `with ${log.lanes.at(-1).name}` : "");
    const lanesCompared = frame.lanes.length > 2 && comparison ? `${log.lanes.at(-1).name} compared with naive` : "";
    const rule = log.header?.settings.rule === "rejection" ? REJECTION : "";
    setText(ui.outcome, outcome(log, frame));
    const trustSentence = frame.atEnd && log.end?.trust ? log.end.trust.sentence : "";
    const remarks = [lanesCompared, rule].filter(Boolean).join("; ");
    setText(ui.note, [remarks, trustSentence].filter(Boolean).join(". "));
    ui.note.classList.toggle("la-busy", Boolean(trustSentence) && !log.end.trust.steady);
    const agreement = log.end?.agreement || [];
    frame.lanes.forEach((lane, i) => {
      this.#drawRow(this.#rows[i], lane, lane.finished || frame.atEnd ? agreement[i] : null);
    });
    this.#drawProblem(log, problem);
  }

  #drawProgress(fraction) {
    const {bar} = this.#ui;
    bar.classList.toggle("la-on", fraction !== null);
    if (fraction !== null) bar.firstChild.style.width = percent(fraction, 0);
  }

  #drawRow([, clock, rate, perPass, badge], lane, agreement) {
    setText(clock, seconds(lane.clock));
    setText(rate, perSecond(lane.rate));
    setText(perPass, `${tenths(lane.perPass)} tokens per pass`);
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
