/* lane.js: one lane of text.

   What it is.  A `Lane` makes the box of one lane; `update(view, playing)` brings its text to one frame: the settled
   passes, then the run in flight (ghosts, and the sweep of the target's pass over them).

   Why it is so.  A settled pass is built once and afterwards only attached or detached, so going forward appends and
   going back cuts the tail; spans that did not change are never touched. A rejected run folds by a class on its pass.
   The sweep is one custom property on one container: nothing is animated per token.

   What it does not know.  Time, playback, the other lanes. `listener.hover(step)` and `listener.pick(step)` are
   called with the pass that the reader points at, `listener.point(step, part, node)` with the token (node null: none
   any more). Model text is untrusted: it enters the page through text nodes only. */

import {HIDDEN, make, setText, signs} from "../page/dom.js";
import {percent} from "../page/numbers.js";
import {heatOf, levelOf} from "./heat.js";
import {ghostChain, moreRows, passParts} from "./player.js";
import {TokenPointer} from "./pointer.js";
import {finish, plainName, prefill, promptOf} from "./words.js";

const AT_END = 40; // pixels: a reader who is nearer to the end follows the text

/** A token of a settled pass; `heat` is its entry of `heatOf`. */
function tokenNode(part, heat) {
  const isDead = part.kind === "rejected" || part.kind === "unvisited";
  const isSign = part.kind === "note" || part.kind === "tick";
  const attributes = isDead || isSign ? HIDDEN : {};
  const node = make(`span.la-tok.la-${part.kind}`, attributes, isDead ? signs(part.text) : part.text);
  if (part.hatched) node.classList.add("la-hatched");
  if (isSign) return node;
  node.laPart = part; // read back by TokenPointer, as is laStep
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
  #passes = []; // their nodes, made when first shown
  #settled = 0; // how many of them are on the page
  #latest = null;
  #marked = null;
  #flying = -1;
  #ghosts = 0;
  #follows = true;
  #run = make("span.la-run", HIDDEN);
  #caret = make("span.la-caret", HIDDEN);
  #aside = make("span.la-aside");

  constructor(lane, log, listener) {
    this.#lane = lane;
    const {chat} = log.header.settings; // an answer begins a line of its own
    const prompt = make(`span.la-prompt${chat ? ".la-turn" : ""}`, promptOf(log), chat ? "\n" : "");
    const words = make("div.la-text", {dir: "auto"}, prompt, this.#run, this.#caret);
    const label = `${lane.name}: text`;
    this.scroll = make("div.la-scroll", {tabindex: "0", role: "region", "aria-label": label}, words);
    const plain = make("span.la-plain-name", plainName(lane, log));
    const head = make("div.la-lanehead", plain, make("span.la-name", lane.name), this.#aside);
    this.node = make(`section.la-lane.${lane.naive ? "la-naive" : ""}`, head, this.scroll);
    this.scroll.addEventListener("scroll", () => this.#scrolled(), {passive: true});
    new TokenPointer(words, this.scroll, listener);
  }

  #scrolled() {
    const {scrollHeight, clientHeight, scrollTop} = this.scroll;
    this.#follows = scrollHeight - clientHeight - scrollTop < AT_END;
  }

  /** Keeps the end of the text in view, where it was. The browser lays the page out for that: after all changes. */
  toEnd() {
    if (this.#follows) this.scroll.scrollTop = this.scroll.scrollHeight;
  }

  #pass(index) {
    this.#passes[index] ||= passNode(this.#lane, index);
    return this.#passes[index];
  }

  /** Brings the text to a lane's frame, as `frameAt` gives it; whether its end may have moved. */
  update(view, playing) {
    const settledChanged = this.#settle(view.settled);
    const ghostsChanged = !this.#lane.naive && this.#fly(view);
    this.#caret.classList.toggle("la-on", playing && !view.finished);
    setText(this.#aside, this.#remark(view));
    return settledChanged || ghostsChanged;
  }

  /** Shows the first `count` passes; whether that changed anything. */
  #settle(count) {
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

  /** The run in flight: its ghosts one by one, then the sweep; whether the ghosts changed. */
  #fly({flying, ghosts, sweep}) {
    const before = this.#ghosts;
    if (flying !== this.#flying || ghosts < before) {
      this.#run.replaceChildren();
      this.#ghosts = 0;
      this.#flying = flying;
    }
    if (this.#ghosts < ghosts) this.#addGhosts(this.#lane.steps[flying], ghosts);
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

  #remark({finished, tokens, settled}) {
    if (finished) return `${tokens} tokens; ${finish(this.#lane.steps[settled - 1].finish)}`;
    return this.#lane.prefill_s === null ? "" : prefill(this.#lane);
  }

  /** Marks the pass of that index; -1: none. */
  mark(index) {
    this.#marked?.classList.remove("la-marked");
    this.#marked = index < 0 ? null : this.#pass(index);
    this.#marked?.classList.add("la-marked");
  }
}
