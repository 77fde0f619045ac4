/* transport.js: the playback controls: play, step, scrub, rate, and marks where each lane finished. */

import {make, setAttr, setText} from "../page/dom.js";
import {hundredths, percent, seconds} from "../page/numbers.js";
import {duration, liveEdge} from "./log.js";
import {RATES} from "./playhead.js";
import {rateLabel, rateText} from "./sentences.js";
import {icon, PAUSE, PLAY} from "./skeleton.js";

/** Connect the controls to a playhead. `on(node, type, handler)` listens until the timeline is destroyed. */
export function connect({ui, playhead, on}) {
  on(ui.play, "click", () => playhead.toggle());
  on(ui.back, "click", () => playhead.step(-1));
  on(ui.next, "click", () => playhead.step(1));
  on(ui.scrub, "input", () => playhead.seek(Number(ui.scrub.value), {keepPlaying: true}));
  on(ui.slower, "click", () => playhead.shift(-1));
  on(ui.faster, "click", () => playhead.shift(1));
  on(ui.teach, "click", () => playhead.teach());
  on(ui.onePass, "click", () => playhead.passByPass());
}

export class Transport {
  #ui;
  #playing = false; // as drawn
  #marks = ""; // key of the drawn marks

  constructor(ui) {
    this.#ui = ui;
  }

  draw(log, playhead) {
    const total = duration(log);
    this.#drawButtons(log, playhead);
    this.#drawRail(playhead.t, total);
    this.#drawMarks(log, total);
    const ui = this.#ui;
    const {rate} = playhead;
    setText(ui.rate, rateLabel(rate));
    setText(ui.pace, playhead.slowed ? "slow motion" : rateText(rate));
    setAttr(ui.teach, "aria-pressed", String(playhead.teaching));
    setAttr(ui.onePass, "aria-pressed", String(playhead.onePass));
    ui.slower.disabled = rate === RATES[0];
    ui.faster.disabled = rate === RATES.at(-1);
  }

  #drawButtons(log, {t, playing}) {
    const {play, back, next, scrub} = this.#ui;
    if (playing !== this.#playing) {
      this.#playing = playing;
      play.title = playing ? "Pause" : "Play";
      play.setAttribute("aria-label", play.title);
      play.replaceChildren(icon(playing ? PAUSE : PLAY));
    }
    play.disabled = scrub.disabled = !log.lanes.length;
    back.disabled = !log.lanes.length || t <= 0;
    next.disabled = !log.lanes.length || t >= liveEdge(log);
  }

  #drawRail(t, total) {
    const {scrub, time} = this.#ui;
    setAttr(scrub, "max", String(total || 1));
    scrub.value = String(t);
    scrub.style.setProperty("--la-done", percent(total ? t / total : 0));
    setAttr(scrub, "aria-valuetext", `${hundredths(t)} s of ${hundredths(total)} s`);
    setText(time, `${hundredths(t)} of ${hundredths(total)} s`);
  }

  /** Mark where each lane finished. */
  #drawMarks(log, total) {
    const finished = log.lanes.filter(lane => lane.finish);
    const marks = `${log.run}/${total}/${finished.length}`;
    if (marks === this.#marks) return;
    this.#marks = marks;
    this.#ui.marks.replaceChildren(
      ...finished.map(({naive, name, clock}) => {
        const title = `${name} finished at ${seconds(clock)}`;
        const mark = make(`span.la-mark.${naive ? "la-naive" : ""}`, {title});
        mark.style.left = percent(clock / (total || 1));
        return mark;
      }),
    );
  }
}
