/* selection.js: the pass under the pointer, the pass that was picked, and what is said of them.

   What it is.  A `Selection` holds both; the line under the lanes tells of the hovered pass, else the picked one, else
   the latest. A picked pass is open in the inspector; the card shows the token under the pointer.

   What it does not know.  Playback; what the inspector shows. */

import {card} from "../inspector/card.js";
import {Inspector} from "../inspector/inspector.js";
import {make, signs} from "../page/dom.js";
import {isDone} from "./log.js";
import {describePass} from "./words.js";

const GAP = 8; // pixels between a token and its card

export class Selection {
  #log;
  #ui;
  #changed;
  #hovered = null; // {lane, step}: indices
  #picked = null;
  #drawn = "";

  /** `changed()` is called when another pass is hovered or picked, `seek(t)` when the reader walks to another. */
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

  /** What a lane tells of: see lane.js. */
  listener(lane) {
    return {
      hover: step => {
        this.#hovered = step < 0 ? null : {lane, step};
        this.#changed();
      },
      pick: step => {
        if (step < 0) return;
        const again = this.#picked?.lane === lane && this.#picked.step === step;
        this.open(again ? null : {lane, step});
      },
      point: (step, part, node) => this.#card(lane, step, part, node),
    };
  }

  /** Opens a pass in the inspector; null closes it. */
  open(pass) {
    this.#picked = pass;
    this.#ui.root.classList.toggle("la-docked", Boolean(pass));
    if (pass) this.inspector.show(this.#log, pass.lane, pass.step);
    else this.inspector.hide();
    this.#changed();
  }

  /** The card of a token, next to it and inside the figure; `node` null removes it. */
  #card(lane, step, part, node) {
    const {cardbox, root} = this.#ui;
    cardbox.hidden = !node;
    if (!node) return;
    cardbox.replaceChildren(card(this.#log, lane, step, part));
    const figure = root.getBoundingClientRect();
    const token = node.getClientRects()[0] || node.getBoundingClientRect();
    const {width, height} = cardbox.getBoundingClientRect();
    const below = token.bottom + GAP;
    const fits = below + height < innerHeight || token.top - height < GAP;
    const left = Math.min(figure.width - width, token.left - figure.left);
    cardbox.style.left = `${Math.max(0, left)}px`;
    cardbox.style.top = `${(fits ? below : token.top - height - GAP) - figure.top}px`;
  }

  /** The pass to tell of in a frame: {lane, step}, or null. */
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
    const {lead, said, tail} = describePass(this.#log, pass?.lane, pass?.step);
    const quotation = said === null ? [] : ["“", make("bdi.la-said", signs(said.trim() || said)), "”"];
    this.#ui.pass.replaceChildren(lead, ...quotation, tail);
    lanes.forEach((lane, i) => {
      lane.mark(marked && pass.lane === i ? pass.step : -1);
    });
  }
}
