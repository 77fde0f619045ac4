/* inspector.js: the panel of the pass inspector: `show` fills the panel with one pass, and breadcrumbs lead from the
   text to a row's numbers. */

import {button, make} from "../page/dom.js";
import {duration, percent} from "../page/numbers.js";
import * as candidates from "./candidates.js";
import * as headDrafting from "./drafting.js";
import * as experts from "./experts.js";
import {flow, plain} from "./flow.js";
import {draftingOf} from "./heads.js";
import {maskOf} from "./jacobi.js";
import {Mask} from "./mask.js";
import * as microscope from "./microscope.js";
import {drawn, heading, quoted, small, token} from "./parts.js";
import {passOf} from "./pass.js";
import * as rollback from "./rollback.js";
import {quote} from "./text.js";
import * as translation from "./translation.js";

const PREFILL =
  "The target read the prompt except its last token into its cache, and emitted nothing. This is on no clock.";

/** A bar of pieces; `description` is its text for screen readers. */
function timeLine(label, description, pieces, longest) {
  const spans = pieces.map(({kind, seconds}) =>
    drawn(`la-i-span.la-i-${kind}`, {width: percent(seconds / longest, 3)}),
  );
  const attributes = {role: "img", "aria-label": description};
  return make("div.la-i-timeline", attributes, make("span.la-i-label", label), make("span.la-i-time", ...spans));
}

/** The time of a pass and of a naive pass on one scale, with the arithmetic. */
function timeBox({parts, total, naivePass, sentence, sum, basis, rows}) {
  const longest = Math.max(total, naivePass?.seconds || 0) || 1;
  const labels = parts.map(({name, seconds}) => `${name} ${duration(seconds)}`);
  const box = make("div.la-i-timebox", timeLine("this pass", `This pass: ${labels.join(", ")}`, parts, longest));
  if (naivePass) {
    const piece = {kind: "naive-pass", seconds: naivePass.seconds};
    box.append(timeLine("naive pass", `A naive pass: ${duration(naivePass.seconds)}`, [piece], longest));
  }
  const key = parts.map(({kind}, i) => make("li", drawn(`la-i-swatch.la-i-${kind}`, {}), labels[i]));
  box.append(make("ul.la-i-key", ...key));
  if (sentence) box.append(make("p.la-i-cost", sentence, ...(sum ? [" ", make("span.la-i-sum", sum)] : [])));
  box.append(...[basis, rows].filter(Boolean).map(note => small(note)));
  return box;
}

/** The rows, the cache and the attention mask of a drafted pass. A pass with a window has the microscope instead. */
function rowsBox(log, laneIndex, stepIndex, chosen) {
  const {node} = new Mask(maskOf(log, laneIndex, stepIndex), chosen, 0);
  return make("section.la-i-rows", {"aria-label": "Rows, cache and mask"}, node);
}

/** The flow of a pass, in the form for its kind. */
function flowOf(pass) {
  if (pass.kind === "prefill") return make("p.la-i-note", PREFILL);
  return pass.kind === "drafted" ? flow(pass) : plain(pass);
}

const labeled = (label, text, action) => button("la-button", text, action, {"aria-label": label});
const crumb = (content, action) => button("la-button", content, action);

export class Inspector {
  #at = null; // {laneIndex, stepIndex, pass}, while it is open
  #drawn = ""; // key of the drawn body
  #from = null; // the element that had the focus before it opened
  #close;
  #go;
  #title = make("h2.la-i-title", {tabindex: "-1"});
  #summary = make("p.la-i-summary");
  #body = make("div.la-i-body");
  #crumbs = make("nav.la-i-crumbs", {"aria-label": "From the text to its token ids"});
  #previous = labeled("Previous pass of this lane", "← previous", () => this.#step(-1));
  #next = labeled("Next pass of this lane", "next →", () => this.#step(1));

  /** `close()` is called when the reader closes the panel, `go(lane, step)` when the reader chooses another pass. */
  constructor({close, go}) {
    this.#close = close;
    this.#go = go;
    const closeButton = labeled("Close the inspector", "close", () => this.#closePanel());
    const group = {role: "group", "aria-label": "Passes"};
    const buttons = make("div.la-i-buttons", group, this.#previous, this.#next, closeButton);
    const head = make("div.la-i-head", make("div.la-i-summary-box", this.#title, this.#summary), buttons);
    const attributes = {"aria-label": "Pass inspector", hidden: ""};
    this.node = make("section.la-inspector.la-i", attributes, this.#crumbs, head, this.#body);
    this.node.addEventListener("keydown", event => {
      if (event.key !== "Escape" || event.defaultPrevented) return;
      event.preventDefault();
      event.stopPropagation();
      this.#closePanel();
    });
  }

  show(log, laneIndex, stepIndex) {
    const pass = passOf(log, laneIndex, stepIndex);
    if (!pass) {
      this.hide();
      return;
    }
    this.#at = {laneIndex, stepIndex, pass};
    this.#draw(log);
    if (!this.node.hidden) return;
    this.#from = document.activeElement;
    this.node.hidden = false;
    this.node.scrollIntoView({block: "nearest"});
    this.#crumbs.scrollIntoView({block: "nearest"}); // if the panel is longer than the screen
    this.#title.focus({preventScroll: true});
  }

  #draw(log) {
    const {laneIndex, stepIndex, pass} = this.#at;
    // The next pass has the target's predictions at the window; the end of the run has the number of passes.
    const key = [log.run, laneIndex, stepIndex, pass.next, pass.title].join("/");
    if (key === this.#drawn) return;
    this.#drawn = key;
    this.#title.replaceChildren(make("bdi", pass.method), `: ${pass.title}`);
    this.#summary.replaceChildren(...quoted(pass));
    const hasWindow = pass.window || pass.pooled;
    const chosen = row => this.#drawCrumbs(log, row);
    const window = hasWindow ? [microscope.view(log, laneIndex, stepIndex, this.#go, chosen)] : [];
    const rows = pass.kind === "drafted" && !hasWindow ? [rowsBox(log, laneIndex, stepIndex, chosen)] : [];
    const rolledBack =
      pass.kind === "drafted" && !hasWindow ? [rollback.view(rollback.rollbackOf(log, laneIndex, stepIndex))] : [];
    const activated = experts.expertsOf(log, laneIndex, stepIndex);
    const mixture = activated ? [experts.view(activated)] : [];
    const drafting = draftingOf(log, laneIndex, stepIndex);
    const head = drafting ? [headDrafting.view(drafting)] : [];
    const translated = translation.translationOf(log, laneIndex, stepIndex);
    const rulers = translated ? [translation.view(translated)] : [];
    const positions = candidates.positions(pass);
    const parts = [...head, ...rulers, ...rows, ...rolledBack, ...mixture, ...positions, ...window];
    this.#body.replaceChildren(flowOf(pass), ...parts, heading("Time"), timeBox(pass.time));
    this.#drawCrumbs(log, hasWindow ? -1 : 0);
    // Not `disabled`: a focused button that becomes disabled loses the focus.
    this.#previous.setAttribute("aria-disabled", String(!pass.previous));
    this.#next.setAttribute("aria-disabled", String(!pass.next));
  }

  /** The path from the text to this pass, its rows, and the target's candidates after one row; -1 for none. */
  #drawCrumbs(log, row) {
    const {laneIndex, stepIndex, pass} = this.#at;
    const to = node => () => node.scrollIntoView({block: "start"});
    const field = this.#body.querySelector(".la-m-field");
    const boxes = [...this.#body.querySelectorAll(".la-i-place")];
    const chosen = boxes.find(({dataset}) => Number(dataset.row) === row);
    const crumbs = [crumb("text", () => this.#closePanel()), crumb(pass.title, to(this.node))];
    if (field) crumbs.push(crumb("rows", to(field.closest(".la-m-part"))));
    for (const box of boxes) box.classList.toggle("la-i-zoomed", box === chosen && Boolean(field));
    if (row >= 0 && boxes.length) {
      const {text} = maskOf(log, laneIndex, stepIndex)[row];
      const label = [`row ${row}: `, token(quote(text), "quoted")];
      crumbs.push(chosen ? crumb(make("span", ...label), to(chosen)) : make("span", ...label, ", not tested"));
    }
    this.#crumbs.replaceChildren(...crumbs.flatMap((node, i) => (i ? [" › ", node] : [node])));
  }

  hide() {
    if (this.node.hidden) return;
    const hadFocus = this.node.contains(document.activeElement);
    this.node.hidden = true;
    this.#at = null;
    this.#drawn = "";
    if (hadFocus && this.#from?.isConnected) this.#from.focus();
    this.#from = null;
  }

  #closePanel() {
    this.hide();
    this.#close();
  }

  #step(direction) {
    if (!this.#at) return;
    const {laneIndex, stepIndex, pass} = this.#at;
    if (direction > 0 ? pass.next : pass.previous) this.#go(laneIndex, stepIndex + direction);
  }
}
