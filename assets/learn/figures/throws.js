/* throws.js: random throws of the rejection rule: a word drawn from q is accepted, or replaced by a draw from the
   residual. */

import {make, setText} from "../../page/dom.js";
import {count} from "../../page/numbers.js";
import {button, part} from "../widget.js";

export const WORDS = ["cat", "dog", "fox"];
const THROWS = 200;

function pick(shares) {
  let left = Math.random();
  for (const [i, share] of shares.entries()) {
    left -= share;
    if (left < 0) return i;
  }
  return shares.indexOf(Math.max(...shares)); // the shares add up to 1, except for rounding
}

/** One throw: {drafted, isAccepted, written}, as indices of words; `left` is the residual, null if it is empty. */
function throwOnce(p, q, left) {
  const drafted = pick(q);
  const isAccepted = Math.random() * q[drafted] < p[drafted];
  return {drafted, isAccepted, written: isAccepted ? drafted : pick(left || p)};
}

/** The throws by drafted word: how many were drafted, accepted and replaced, and what was written instead. */
function tally() {
  const heads = ["drawn from q", "times", "accepted", "rejected", "then drawn from the residual"];
  const head = make("thead", make("tr", ...heads.map(text => make("th", {scope: "col"}, text))));
  const body = make("tbody");
  const node = make("div.la-f-scroll", {tabindex: "0", role: "group", "aria-label": "The throws"});
  node.append(make("table.la-f-table", head, body));
  const line = (word, i, throws) => {
    const drafted = throws.filter(entry => entry.drafted === i);
    const rejected = drafted.filter(entry => !entry.isAccepted);
    const instead = WORDS.map((other, j) => [other, rejected.filter(({written}) => written === j).length])
      .filter(([, n]) => n)
      .map(([other, n]) => `${other} ${n}`);
    const counts = [drafted.length, drafted.length - rejected.length, rejected.length].map(String);
    const cells = [...counts, instead.join(", ") || "—"].map(text => make("td", text));
    return make("tr", make("th", {scope: "row"}, word), ...cells);
  };
  const show = throws => {
    node.hidden = !throws.length;
    body.replaceChildren(...WORDS.map((word, i) => line(word, i, throws)));
  };
  return {node, show};
}

/** A sentence on one throw. */
function describe({drafted, isAccepted, written}) {
  const start = `The last throw drew ${WORDS[drafted]} from q.`;
  if (isAccepted) return `${start} It was accepted.`;
  return `${start} It was rejected, and ${WORDS[written]} was drawn from the residual.`;
}

/** The buttons that throw, the last throw and the table of all. `distributions()` returns [p, q, residual];
    `changed()` is called after throws. */
export class Throws {
  #all = [];
  #last = make("p");
  #table = tally();

  constructor(distributions, changed) {
    const roll = n => {
      this.#all.push(...Array.from({length: n}, () => throwOnce(...distributions())));
      this.#draw();
      changed();
    };
    this.buttons = part(
      "la-g-buttons",
      button("throw one die", () => roll(1)),
      button(`throw ${THROWS} dice`, () => roll(THROWS)),
    );
    this.nodes = [this.#last, this.#table.node];
    this.clear();
  }

  /** The share of each word in the written words, 0 before the first throw. */
  get results() {
    const total = this.#all.length || 1;
    return WORDS.map((_, i) => this.#all.filter(({written}) => written === i).length / total);
  }

  /** "After 200 throws", or "" before the first one. */
  get title() {
    return this.#all.length ? `After ${count(this.#all.length, "throw")}` : "";
  }

  clear() {
    this.#all = [];
    this.#draw();
  }

  #draw() {
    this.#last.hidden = !this.#all.length;
    setText(this.#last, this.#all.length ? describe(this.#all.at(-1)) : "");
    this.#table.show(this.#all);
  }
}
