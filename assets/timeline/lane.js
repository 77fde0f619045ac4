/* lane.js: one lane of text. A settled pass is built once and then only attached or detached; nothing is animated per
   token. Model text is untrusted: it becomes text nodes. */

import {HIDDEN, make, setText, signs} from "../page/dom.js";
import {percent} from "../page/numbers.js";
import {heatOf, levelOf} from "./heat.js";
import {ghostChain, moreRows, passParts} from "./player.js";
import {TokenPointer} from "./pointer.js";
import {finish, plainName, prefill, promptOf} from "./sentences.js";

const AT_END = 40; // pixels from the end within which the text follows new tokens

/** A token of a settled pass; `heat` is its entry of `heatOf`. */
function tokenNode(part, heat) {
  const isUnaccepted = part.kind === "rejected" || part.kind === "unvisited";
  const isSign = part.kind === "note" || part.kind === "tick";
  const attributes = isUnaccepted || isSign ? HIDDEN : {};
  const node = make(`span.la-tok.la-${part.kind}`, attributes, isUnaccepted ? signs(part.text) : part.text);
  if (part.hatched) node.classList.add("la-hatched");
  if (isSign) return node;
  node.laPart = part; // TokenPointer reads laPart and laStep
  if (heat && heat.fails !== null) node.dataset.fails = String(heat.fails);
  if (heat && heat.bits !== null) node.dataset.bits = String(levelOf(heat.bits));
  return node;
}

function passNode(lane, index) {
  const step = lane.steps[index];
  const heat = heatOf(step);
  const node = make("span.la-pass", ...passParts(step, lane.naive).map(part => tokenNode(part, heat[part.emitted])));
  node.laStep = index;
  return node;
}

export class Lane {
  #lane;
  #passes = []; // the passes' nodes, built when first shown
  #settled = 0; // number of passes on the page
  #latest = null;
  #marked = null;
  #inFlight = -1;
  #ghosts = 0;
  #follows = true;
  #run = make("span.la-run", HIDDEN);
  #caret = make("span.la-caret", HIDDEN);
  #aside = make("span.la-aside");

  /** `listener` has hover(step), pick(step) and point(step, part, node); `node` is null when no token is pointed at.
   */
  constructor(lane, log, listener) {
    this.#lane = lane;
    const {chat} = log.header.settings; // a reply starts on a new line
    const prompt = make(`span.la-prompt${chat ? ".la-turn" : ""}`, promptOf(log), chat ? "\n" : "");
    const text = make("div.la-text", {dir: "auto"}, prompt, this.#run, this.#caret);
    const label = `${lane.name}: text`;
    this.scroll = make("div.la-scroll", {tabindex: "0", role: "region", "aria-label": label}, text);
    const plain = make("span.la-plain-name", plainName(lane, log));
    const head = make("div.la-lanehead", plain, make("span.la-name", lane.name), this.#aside);
    this.node = make(`section.la-lane.${lane.naive ? "la-naive" : ""}`, head, this.scroll);
    this.scroll.addEventListener("scroll", () => this.#scrolled(), {passive: true});
    new TokenPointer(text, this.scroll, listener);
  }

  #scrolled() {
    const {scrollHeight, clientHeight, scrollTop} = this.scroll;
    this.#follows = scrollHeight - clientHeight - scrollTop < AT_END;
  }

  /** Keep the end of the text in view if it was visible. This forces a layout, so it comes after a frame's changes. */
  toEnd() {
    if (this.#follows) this.scroll.scrollTop = this.scroll.scrollHeight;
  }

  #pass(index) {
    this.#passes[index] ||= passNode(this.#lane, index);
    return this.#passes[index];
  }

  /** Show a lane's frame, as `frameAt` returns it. Returns whether the end of the text may have moved. */
  update(view, playing) {
    const settledChanged = this.#showPasses(view.settled);
    const ghostsChanged = !this.#lane.naive && this.#drawInFlight(view);
    this.#caret.classList.toggle("la-on", playing && !view.finished);
    setText(this.#aside, this.#summary(view));
    return settledChanged || ghostsChanged;
  }

  /** Show the first `count` passes. Returns whether anything changed. */
  #showPasses(count) {
    if (this.#lane.recounted) {
      while (this.#settled) this.#pass(--this.#settled).remove();
      this.#passes = [];
      this.#lane.recounted = false;
    }
    if (count === this.#settled) return false;
    while (this.#settled > count) this.#passes[--this.#settled].remove();
    const added = [];
    while (this.#settled < count) added.push(this.#pass(this.#settled++));
    this.#run.before(...added);
    this.#latest?.classList.remove("la-latest");
    this.#latest = this.#passes[count - 1] || null;
    this.#latest?.classList.add("la-latest");
    return true;
  }

  /** Show the pass in flight: its drafted tokens one by one, then the sweep. Returns whether the tokens changed. */
  #drawInFlight({inFlight, ghosts, sweep}) {
    const before = this.#ghosts;
    if (inFlight !== this.#inFlight || ghosts < before) {
      this.#run.replaceChildren();
      this.#ghosts = 0;
      this.#inFlight = inFlight;
    }
    if (this.#ghosts < ghosts) this.#addGhosts(this.#lane.steps[inFlight], ghosts);
    this.#run.classList.toggle("la-sweeping", sweep !== null && ghosts > 0);
    if (sweep !== null) this.#run.style.setProperty("--la-sweep", percent(sweep));
    return this.#ghosts !== before;
  }

  #addGhosts(step, count) {
    const {rows, more} = ghostChain(step);
    const added = rows
      .slice(this.#ghosts, count)
      .map(row => make("span.la-tok.la-ghost", signs(step.draft.pieces[row])));
    if (count === rows.length && more > 0) added.push(make("span.la-tok.la-note", moreRows(more)));
    this.#run.append(...added);
    this.#ghosts = count;
  }

  #summary({finished, tokens, settled}) {
    if (finished) return `${tokens} tokens; ${finish(this.#lane.steps[settled - 1].finish)}`;
    return this.#lane.prefill_s === null ? "" : prefill(this.#lane);
  }

  /** Mark the pass with this index; -1 for none. */
  mark(index) {
    this.#marked?.classList.remove("la-marked");
    this.#marked = index < 0 ? null : this.#pass(index);
    this.#marked?.classList.add("la-marked");
  }
}
