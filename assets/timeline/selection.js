/* selection.js: the pass under the pointer and the picked pass. The line under the lanes describes the hovered pass,
   else the picked one, else the latest; the inspector shows the picked one. */

import {card} from "../inspector/card.js";
import {Inspector} from "../inspector/inspector.js";
import {make, signs} from "../page/dom.js";
import {isDone} from "./log.js";
import {describePass} from "./sentences.js";

const GAP = 8; // pixels between a token and its card

export class Selection {
  #log;
  #ui;
  #changed;
  #hovered = null; // {lane, step}: indices
  #picked = null;
  #drawn = "";

  /** `changed()` is called when another pass is hovered or picked, `seek(t)` when the reader goes to another pass. */
  constructor({log, ui, changed, seek}) {
    this.#log = log;
    this.#ui = ui;
    this.#changed = changed;
    const go = (lane, step) => {
      this.open({lane, step});
      seek(log.lanes[lane].ends[step]);
    };
    this.inspector = new Inspector({close: () => this.open(null), go});
    ui.panel.append(this.inspector.node);
  }

  clear() {
    this.#hovered = this.#picked = null;
    this.inspector.hide();
    this.#ui.root.classList.remove("la-docked");
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
        const isSame = this.#picked?.lane === lane && this.#picked.step === step;
        this.open(isSame ? null : {lane, step});
      },
      point: (step, part, node) => this.#card(lane, step, part, node),
    };
  }

  /** Open a pass in the inspector; null closes it. */
  open(pass) {
    this.#picked = pass;
    this.#ui.root.classList.toggle("la-docked", Boolean(pass));
    if (pass) this.inspector.show(this.#log, pass.lane, pass.step);
    else this.inspector.hide();
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

  /** The pass to describe in a frame: {lane, step}, or null. */
  chosen(frame) {
    const lane = frame.lanes.length - 1;
    return this.#hovered || this.#picked || (lane < 0 ? null : {lane, step: frame.lanes[lane].settled - 1});
  }

  draw(frame, lanes) {
    const pass = this.chosen(frame);
    const marked = this.#hovered || this.#picked;
    this.#ui.open.hidden = !pass || pass.step < 0;
    const key = pass ? [this.#log.run, pass.lane, pass.step, isDone(this.#log), Boolean(marked)].join("/") : "";
    if (key === this.#drawn) return;
    this.#drawn = key;
    const {lead, quotation, tail} = describePass(this.#log, pass?.lane, pass?.step);
    const quoted = quotation === null ? [] : ["“", make("bdi.la-said", signs(quotation.trim() || quotation)), "”"];
    this.#ui.pass.replaceChildren(lead, ...quoted, tail);
    lanes.forEach((lane, i) => {
      lane.mark(marked && pass.lane === i ? pass.step : -1);
    });
  }
}
