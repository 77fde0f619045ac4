/* lane.js: the text of one lane, or the one text that naive and a drafting lane write. A bracket under the text spans
   the tokens of a pass, and rejected tokens hang under it. A tick above the text marks a pass of naive. A settled pass
   is built once and then only attached or detached. Model text is untrusted: it becomes text nodes. */

import {HIDDEN, make, setText, signs} from "../page/dom.js";
import {percent} from "../page/numbers.js";
import {heatOf, levelOf} from "./heat.js";
import {ghostChain, isForced, moreRows, passParts} from "./player.js";
import {TokenPointer} from "./pointer.js";
import {finish, plainName, prefill, promptOf} from "./sentences.js";

const AT_END = 40; // pixels from the end within which the text follows new tokens
const MARGIN = 80; // pixels above a token that is scrolled to
const HANGING = ["rejected", "unvisited", "note"]; // parts of a pass that are not in the text
const NOTHING = {inFlight: -1, ghosts: 0, sweep: null};

/** A token of a settled pass; `heat` is its entry of `heatOf`. */
function tokenNode(part, heat) {
  const text = HANGING.includes(part.kind) ? signs(part.text) : part.text;
  const node = make(`span.la-tok.la-${part.kind}`, text);
  if (part.hatched) node.classList.add("la-hatched");
  if (part.forced) node.classList.add("la-forced");
  if (part.kind === "note") return node;
  node.laPart = part; // TokenPointer reads laPart and laStep
  if (heat && heat.fails !== null) node.dataset.fails = String(heat.fails);
  if (heat && heat.bits !== null) node.dataset.bits = String(levelOf(heat.bits));
  return node;
}

/** Tokens that are not in the text, under the token that the target wrote instead. */
const hanging = nodes => make("span.la-hang", HIDDEN, make("span.la-hung", ...nodes));

/** The node of a pass, and the nodes of its emitted tokens: {node, tokens}. */
function passNodes(lane, index) {
  const step = lane.steps[index];
  const heat = heatOf(step);
  const parts = passParts(step, lane.naive);
  const nodes = parts.map(part => tokenNode(part, heat[part.emitted]));
  const tests = step.tests.filter(test => test.outcome !== "rejected"); // one per emitted token
  nodes.forEach((node, i) => {
    node.classList.toggle("la-changed", Boolean(tests[parts[i].emitted]?.change));
  });
  const hangs = parts.map(({kind}) => HANGING.includes(kind));
  const [text, under] = [false, true].map(wanted => nodes.filter((_, i) => hangs[i] === wanted));
  if (under.length) text.splice(hangs.indexOf(true), 0, hanging(under));
  const tokens = nodes.filter(node => node.laPart?.emitted >= 0);
  if (step.finish === "eos" && !tokens.at(-1)?.textContent) tokens.at(-1)?.classList.add("la-end");
  const node = make(`span.la-pass${parts[0]?.kind === "plain" ? ".la-undrafted" : ""}`, ...text);
  node.laStep = index;
  return {node, tokens};
}

export class Lane {
  #lane;
  #naive; // the lane that writes the same text without drafts, or null
  #prompt;
  #passes = []; // the passes' nodes, built when first shown
  #tokens = []; // the tokens' nodes, by their position in the text
  #settled = 0; // number of passes on the page
  #counted = 0; // number of tokens that naive has written
  #reached = ""; // key of naive's caret and of the tokens that only naive has written
  #difference = -1;
  #latest = null;
  #marked = null;
  #inFlight = -1;
  #ghosts = 0;
  #follows = true;
  #run = make("span.la-run", HIDDEN);
  #caret = make("span.la-caret", HIDDEN);
  #ahead = make("span.la-ahead");
  #aside = make("span.la-aside");

  /** `listener` has hover(step), pick(step) and point(step, part, node); `node` is null when no token is pointed at.
      With `naive`, the node has no heading, and shows the progress of both lanes. */
  constructor(lane, log, listener, naive = null) {
    this.#lane = lane;
    this.#naive = naive;
    const {chat} = log.header.settings; // a reply starts on a new line
    this.#prompt = make(`span.la-prompt${chat ? ".la-turn" : ""}`, promptOf(log), chat ? "\n" : "");
    const text = make("div.la-text", {dir: "auto"}, this.#prompt, this.#run, this.#caret, this.#ahead);
    const label = `${naive ? `${naive.name} and ${lane.name}` : lane.name}: text`;
    this.scroll = make("div.la-scroll", {tabindex: "0", role: "group", "aria-label": label}, text);
    const plain = make("span.la-plain-name", plainName(lane, log));
    const head = naive ? [] : [make("div.la-lanehead", plain, make("span.la-name", lane.name), this.#aside)];
    const kind = naive ? ".la-both" : lane.naive ? ".la-naive" : "";
    this.node = make(`section.la-lane${kind}`, ...head, this.scroll);
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
    if (!this.#passes[index]) {
      const {node, tokens} = passNodes(this.#lane, index);
      const first = this.#lane.tokens[index] - this.#lane.steps[index].emitted.length;
      tokens.forEach((token, i) => {
        this.#tokens[first + i] = token;
        this.#drawToken(first + i);
      });
      this.#passes[index] = node;
    }
    return this.#passes[index];
  }

  #drawToken(position) {
    const {classList} = this.#tokens[position] || {};
    classList?.toggle("la-counted", position < this.#counted);
    classList?.toggle("la-different", position === this.#difference);
  }

  /** Show a lane's frame, as `frameAt` returns it. Returns whether the end of the text may have moved. */
  update(view, playing, naiveView = null) {
    const settledChanged = this.#showPasses(view.settled);
    const ahead = naiveView ? naiveView.tokens - view.tokens : 0;
    const ghostsChanged = !this.#lane.naive && this.#drawInFlight(ahead > 0 ? NOTHING : view);
    const naiveChanged = naiveView !== null && this.#drawNaive(naiveView.tokens, view.tokens);
    this.#caret.classList.toggle("la-on", playing && !view.finished);
    this.#latest?.classList.toggle("la-latest", !view.finished); // nothing hangs under a finished text
    setText(this.#aside, this.#summary(view));
    return settledChanged || ghostsChanged || naiveChanged;
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

  /** Show that naive has written `count` tokens, and the drafting lane `written`. Returns whether the text changed. */
  #drawNaive(count, written) {
    const key = `${count}/${written}`;
    if (key === this.#reached) return false;
    this.#reached = key;
    const [from, to] = [this.#counted, count].sort((a, b) => a - b);
    this.#counted = count;
    for (let i = from; i < to; i++) this.#drawToken(i);
    const hadAhead = this.#ahead.childNodes.length > 0;
    const pieces = count > written ? this.#naive.steps.flatMap(step => step.pieces).slice(written, count) : [];
    this.#ahead.replaceChildren(...pieces.map(piece => make("span.la-tok.la-plain.la-counted", piece)));
    this.node.querySelector(".la-reached")?.classList.remove("la-reached");
    const last = this.#ahead.lastChild || this.#tokens[count - 1] || this.#prompt;
    last.classList.add("la-reached");
    return hadAhead || pieces.length > 0;
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
      .map(row =>
        make(`span.la-tok.la-ghost${isForced(step, row) ? ".la-forced" : ""}`, signs(step.draft.pieces[row])),
      );
    if (count === rows.length && more > 0) added.push(make("span.la-tok.la-note", moreRows(more)));
    this.#run.append(...added);
    this.#ghosts = count;
  }

  #summary({finished, tokens, settled}) {
    const step = this.#lane.steps[settled - 1];
    const missed = step?.satisfied === false ? ", before it matches the schema" : "";
    if (finished) return `${tokens} tokens; ${finish(step.finish)}${missed}`;
    return this.#lane.prefill_s === null ? "" : prefill(this.#lane);
  }

  /** Mark the pass with this index; -1 for none. */
  mark(index) {
    this.#marked?.classList.remove("la-marked");
    this.#marked = index < 0 ? null : this.#pass(index);
    this.#marked?.classList.add("la-marked");
  }

  /** Scroll to the token at a position of the text, which is then not followed to its end. */
  toToken(position) {
    const token = this.#tokens[Math.min(position, this.#tokens.length - 1)];
    if (!token) return;
    this.#follows = false;
    const [line, box] = [token, this.scroll].map(node => node.getBoundingClientRect().top);
    this.scroll.scrollTop += line - box - MARGIN;
  }

  /** Mark the token at which this text differs from naive's; -1 for none. */
  markDifference(position) {
    const before = this.#difference;
    this.#difference = position;
    for (const changed of [before, position]) this.#drawToken(changed);
  }
}
