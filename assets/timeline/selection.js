/* selection.js: the current pass. The selected lane and the playhead define it: the strip, the marks in the text, the
   line under the legend and the inspector all show this pass. A pointer on a token describes another pass for a moment.
   */

import {card} from "../inspector/card.js";
import {Inspector} from "../inspector/inspector.js";
import {make, signs} from "../page/dom.js";
import {isDone} from "./log.js";
import {describePass} from "./sentences.js";
import {sceneAt} from "./strip.js";

const GAP = 8; // pixels between a token and its card

export class Selection {
  #log;
  #ui;
  #seek;
  #changed;
  #lane = -1; // -1 for the last lane
  #isOpen = false;
  #current = null; // {lane, step}: indices, as drawn
  #hovered = null;
  #drawn = "";

  /** `changed()` is called when another pass is hovered or the inspector opens or closes; `seek(t)` moves the playhead,
      and pauses it. */
  constructor({log, ui, changed, seek}) {
    this.#log = log;
    this.#ui = ui;
    this.#changed = changed;
    this.#seek = seek;
    this.inspector = new Inspector({close: () => this.close(), go: (lane, step) => this.open(lane, step)});
    ui.panel.append(this.inspector.node);
  }

  clear() {
    this.#hovered = this.#current = null;
    this.#lane = -1;
    this.#isOpen = false;
    this.inspector.hide();
  }

  /** The index of the selected lane. */
  get lane() {
    return this.#lane < 0 ? this.#log.lanes.length - 1 : this.#lane;
  }

  /** The listener of a lane: see lane.js. */
  listener(lane) {
    return {
      hover: step => {
        this.#hovered = step < 0 ? null : {lane, step};
        this.#changed();
      },
      pick: step => {
        if (step < 0) return;
        this.#ui.root.classList.remove("la-new"); // the reader has found out that words can be clicked
        const isSame = this.#isOpen && this.#current.lane === lane && this.#current.step === step;
        if (isSame) this.close();
        else this.open(lane, step);
      },
      point: (step, part, node) => this.#card(lane, step, part, node),
    };
  }

  /** Make a pass the current one, and show it in the inspector. */
  open(lane, step) {
    this.#lane = lane;
    this.#isOpen = true;
    this.#seek(this.#log.lanes[lane].ends[step]);
  }

  /** Show the current pass in the inspector. */
  openCurrent() {
    if (this.#current?.step >= 0) this.open(this.#current.lane, this.#current.step);
  }

  close() {
    this.#isOpen = false;
    this.inspector.hide();
    this.#changed();
  }

  /** Show the card of a token next to its node; null hides it. */
  #card(lane, step, part, node) {
    const {cardbox, root} = this.#ui;
    cardbox.hidden = !node;
    if (!node) return;
    cardbox.replaceChildren(card(this.#log, lane, step, part));
    const figure = root.getBoundingClientRect();
    const token = node.getClientRects()[0] || node.getBoundingClientRect();
    const {width, height} = cardbox.getBoundingClientRect();
    const below = token.bottom + GAP;
    const isBelow = below + height < innerHeight || token.top - height < GAP;
    const left = Math.min(figure.width - width, token.left - figure.left);
    cardbox.style.left = `${Math.max(0, left)}px`;
    cardbox.style.top = `${(isBelow ? below : token.top - height - GAP) - figure.top}px`;
  }

  /** Draw the current pass of a frame. `isFast` is true if passes are too short to be read. `question` is the pass of
      the last lane whose outcome the reader predicts: until then, the pass before it is current. */
  draw(frame, lanes, isFast, question) {
    const {lane} = this;
    const view = frame.lanes[lane];
    const step = view ? sceneAt(this.#log.lanes[lane], view, frame.t).index : -1;
    const isAsked = step === question && lane === this.#log.lanes.length - 1;
    this.#current = view ? {lane, step: isAsked ? step - 1 : step} : null;
    if (this.#isOpen && !isFast && view) this.inspector.show(this.#log, lane, this.#current.step);
    const pass = this.#hovered || this.#current;
    const isMarked = Boolean(this.#hovered) || this.#isOpen;
    this.#ui.open.hidden = !pass || pass.step < 0;
    const key = pass ? [this.#log.run, pass.lane, pass.step, isDone(this.#log), isMarked].join("/") : "";
    if (key === this.#drawn) return;
    this.#drawn = key;
    const {lead, quotation, tail} = describePass(this.#log, pass?.lane, pass?.step);
    const quoted = quotation === null ? [] : ["“", make("bdi.la-said", signs(quotation.trim() || quotation)), "”"];
    this.#ui.pass.replaceChildren(lead, ...quoted, tail);
    for (const {index, text} of lanes) text.mark(isMarked && pass.lane === index ? pass.step : -1);
  }
}
