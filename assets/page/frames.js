/* frames.js: the stages of the teacher's plan that are not recordings: a question, two things to compare, a figure or a
   widget of a lesson. Everything is in large type. */

import * as games from "../learn/games.js";
import {make, setText} from "./dom.js";

const COLUMNS = 40; // of large type across the screen
const LINES = 22.5;
const GAME_PX = 17; // font size of a lesson's widget

/** The font size of large type in pixels: 32 on a screen of 1280 x 720, and the same share of every other screen. */
export const largePx = () => Math.max(16, Math.min(innerWidth / COLUMNS, innerHeight / LINES));

/** A side of a comparison. Each pass of a recording has a bracket. */
function side({name, text, passes}) {
  const shown = passes.length ? passes.map((pass, i) => make("span.la-p-pass", i ? pass : pass.trimStart())) : [text];
  return make("div.la-p-side", make("h3", name), make("p", ...shown));
}

const STAGES = {
  question: ({text}) => make("p.la-p-question", text),
  compare: ({sides}) => make("div.la-p-sides", ...sides.map(side)),
};

export class FramePanel {
  #answer = make("p.la-p-answer", {"aria-live": "polite"});
  #game = null;

  constructor() {
    this.node = make("div.la-p-panel", {tabindex: "0", role: "group", "aria-label": "Frame"});
  }

  /** Show the stage of a frame, or nothing for a recording. */
  show({kind, ...data}) {
    this.#game = null;
    this.node.hidden = kind === "recording";
    this.node.scrollTop = 0;
    this.setAnswer("");
    if (kind === "recording") this.node.replaceChildren();
    else if (STAGES[kind]) this.node.replaceChildren(STAGES[kind](data), this.#answer);
    else {
      this.#game = make("div");
      this.node.replaceChildren(this.#game);
      games.mount(this.#game, {kind, ...data});
    }
    this.resize();
  }

  /** Show an answer; "" hides it. */
  setAnswer(text) {
    setText(this.#answer, text);
  }

  /** Zoom a widget to large type. */
  resize() {
    if (this.#game) this.#game.style.zoom = String(Math.max(1, largePx() / GAME_PX));
  }
}
