/* transport.js: the playback controls: play, step, scrub and rate. The scrubber is the time axis of the chart. */

import {setAttr, setText} from "../page/dom.js";
import {hundredths} from "../page/numbers.js";
import {duration, liveEdge} from "./log.js";
import {RATES} from "./playhead.js";
import {rateLabel, rateText} from "./sentences.js";
import {icon, PAUSE, PLAY} from "./skeleton.js";

/** Connect the controls to a playhead. `on(node, type, handler)` listens until the timeline is destroyed. */
export function connect({ui, playhead, step, on}) {
  on(ui.play, "click", () => playhead.toggle());
  on(ui.back, "click", () => step(-1));
  on(ui.next, "click", () => step(1));
  on(ui.scrub, "input", () => playhead.seek(Number(ui.scrub.value), {keepPlaying: true}));
  on(ui.slower, "click", () => playhead.shift(-1));
  on(ui.faster, "click", () => playhead.shift(1));
  on(ui.teach, "click", () => playhead.teach());
  on(ui.onePass, "click", () => playhead.passByPass());
}

export class Transport {
  #ui;
  #playing = false; // as drawn

  constructor(ui) {
    this.#ui = ui;
  }

  /** `axis` is the end of the chart's time axis, in seconds. */
  draw(log, playhead, axis) {
    this.#drawButtons(log, playhead);
    this.#drawTime(playhead.t, duration(log), axis);
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

  #drawTime(t, total, axis) {
    const {scrub, time} = this.#ui;
    setAttr(scrub, "max", String(axis || 1));
    scrub.value = String(t);
    setAttr(scrub, "aria-valuetext", `${hundredths(t)} s of ${hundredths(total)} s`);
    setText(time, `${hundredths(t)} of ${hundredths(total)} s`);
  }
}
