/* pass.js: a pass that the reader predicts: the drawing of passtable.js, with the choices around it. The target is a
   table of next words, so each prediction can be checked. With `ask`, the outcome is hidden until the reader has
   predicted a number; with `build`, the reader makes the draft of words; `bugs` can be switched on. */

import {make, setAttr, setText} from "../../page/dom.js";
import {count} from "../../page/numbers.js";
import {button, live, part} from "../widget.js";
import {cacheBoxes, table} from "./passtable.js";

const MOST = 4; // drafted words
const LOOPS = {
  "": "correct loop",
  "prefix-dropped": "accepted prefix dropped",
  "bonus-lost": "bonus token lost",
  "no-rollback": "cache not rolled back",
};
const QUESTIONS = {
  tokens: "Predict: how many tokens does the pass write?",
  cache: "Predict: how many words are in the cache after the pass?",
};

const split = text => text.split(/\s+/).filter(Boolean);
const isSame = (a, b) => a.toLowerCase() === b.toLowerCase();

/** The target's prediction after some words: the rule of the last two words, or else of the last word. */
export function predictionAfter(words, rules) {
  const last = words.slice(-2).map(word => word.toLowerCase());
  return rules[[last.join(" "), last.at(-1)].find(key => Object.hasOwn(rules, key))];
}

/** The outcome of a pass over the last word of `text` and the draft: {predictions, outcomes, accepted, written, kept,
    isRight}. `kept` is the number of words in the cache after the pass; `isRight` is false for a wrong text. */
export function passOf({text, draft, rules, bug = ""}) {
  const read = [...text, ...draft];
  const predictions = [null, ...draft].map((_, i) => predictionAfter(read.slice(0, text.length + i), rules));
  const mismatch = draft.findIndex((word, i) => !isSame(word, predictions[i]));
  const accepted = mismatch < 0 ? draft.length : mismatch;
  const outcomes = draft.map((_, i) => (i < accepted ? "accepted" : i === accepted ? "rejected" : "unvisited"));
  const right = predictions.slice(0, accepted + 1); // naive decoding writes the same
  let written = right;
  let kept = text.length + accepted;
  if (bug === "prefix-dropped" && mismatch > 0) [written, kept] = [right.slice(-1), text.length];
  if (bug === "bonus-lost" && mismatch < 0 && accepted) [written, kept] = [right.slice(0, -1), kept - 1];
  if (bug === "no-rollback") kept = read.length;
  const isRight = isSame(written[0], right[0]) && kept <= text.length + accepted;
  return {predictions, outcomes, accepted, written, kept, isRight};
}

/** Sentences on the outcome of a pass: why tokens are accepted or rejected, and the effect of a bug. */
export function explain({draft, bug}, {predictions, accepted, written}) {
  const total = draft.length;
  if (!total) return "Without a draft, the pass writes one token: naive decoding.";
  if (accepted === total) {
    const lost = bug === "bonus-lost" ? " With the bug, it is not written." : "";
    return `All ${total} accepted. The prediction after the last row, “${predictions.at(-1)}”, is the bonus.${lost}`;
  }
  const counted = accepted ? `${accepted} of ${total} accepted.` : "The first drafted token is rejected.";
  const wrong = draft[accepted];
  const sentences = [counted, `The target predicts “${predictions[accepted]}”, not “${wrong}”: the correction.`];
  if (total > accepted + 1) sentences.push(`Later rows have read “${wrong}”, so they do not count.`);
  if (written.length <= accepted) sentences.push(`With the bug, only “${written[0]}” is written.`);
  return sentences.join(" ");
}

class Pass {
  #data;
  #text;
  #draft;
  #bug;
  #guess;
  #isVerified;
  #passes; // before the shown one
  #past = make("p.la-f-past");
  #table = make("table.la-f-pass.la-boxes");
  #cache = make("div.la-f-cache", {"data-part": "cache"});
  #chips = part("la-f-choices.la-f-chips");
  #loops = part("la-f-choices");
  #question = part("la-f-choices");
  #actions = part("la-f-choices");
  #after = live("la-f-after");

  constructor(data) {
    this.#data = data;
    this.#bug = data.bugs?.[0] ?? "";
    const {ask, build, bugs} = data;
    const scroll = make("div.la-f-scroll", {tabindex: "0", role: "group", "aria-label": "the pass"}, this.#table);
    const choices = [bugs?.length && this.#loops, ask && this.#question, ask && this.#actions].filter(Boolean);
    const side = choices.length ? part("la-f-side", ...choices) : null;
    this.nodes = [this.#past, scroll, this.#cache, build && this.#chips, side, this.#after].filter(Boolean);
    this.#start();
  }

  /** Show the first pass. */
  #start() {
    this.#text = split(this.#data.text);
    this.#draft = split(this.#data.draft);
    this.#passes = 0;
    this.#begin();
  }

  /** Hide the outcome of the pass, if the reader has to predict it. */
  #begin() {
    this.#guess = null;
    this.#isVerified = !this.#data.ask;
    this.#draw();
  }

  get #pass() {
    return {text: this.#text, draft: this.#draft, rules: this.#data.rules, bug: this.#bug};
  }

  #draw() {
    const pass = this.#pass;
    const outcome = passOf(pass);
    const shown = this.#isVerified ? outcome : null;
    setText(this.#past, `The text so far: ${this.#text.join(" ")}`);
    this.#table.replaceChildren(table(pass, shown, 1 + (this.#data.build ? MOST : this.#draft.length)));
    const title = make("span.la-g-small", shown ? "cache after the pass:" : "cache before the pass:");
    this.#cache.replaceChildren(title, ...cacheBoxes(pass, shown));
    this.#drawChoices(outcome);
    this.#after.replaceChildren(...(shown && this.#data.ask ? this.#sentences(outcome) : []));
  }

  // ---------------------------------------------------------------- the reader's choices

  #drawChoices(outcome) {
    const {ask, build, bugs} = this.#data;
    if (build) this.#drawChips();
    const toggle = (label, isOn, action) => button(label, action, {"aria-pressed": String(isOn)});
    if (bugs?.length) {
      const loops = ["", ...bugs].map(bug => toggle(LOOPS[bug], bug === this.#bug, () => this.#choose(bug)));
      fill(this.#loops, "The loop:", loops);
    }
    if (!ask) return;
    const first = ask === "cache" ? this.#text.length : 0;
    const answer = ask === "cache" ? outcome.kept : outcome.written.length;
    const numbers = [0, 1, ...this.#draft.map((_, i) => i + 2)].map(n => n + first);
    const choices = numbers.map(n => {
      const node = toggle(String(n), n === this.#guess, () => this.#predict(n));
      node.disabled = this.#isVerified;
      node.classList.toggle("la-f-answer", this.#isVerified && n === answer);
      return node;
    });
    fill(this.#question, QUESTIONS[ask], choices);
    this.#drawActions();
  }

  #drawChips() {
    const isFixed = this.#isVerified;
    const words = Object.keys(this.#data.rules).filter(key => !key.includes(" "));
    const chips = words.map(word =>
      button(word, () => this.#edit([...this.#draft, word]), {"aria-label": `draft ${word}`}),
    );
    for (const chip of chips) chip.disabled = isFixed || this.#draft.length === MOST;
    const remove = button("remove the last", () => this.#edit(this.#draft.slice(0, -1)));
    remove.disabled = isFixed || !this.#draft.length;
    fill(this.#chips, "Add to the draft:", [...chips, remove]);
  }

  #drawActions() {
    const verify = button("verify", () => this.#verify());
    verify.disabled = this.#guess === null;
    const again = button("start again", () => this.#restart());
    const next = this.#data.build ? [button("next pass", () => this.#next())] : [];
    fill(this.#actions, "", this.#isVerified ? [...next, again] : [verify, ...(this.#passes ? [again] : [])]);
  }

  #edit(draft) {
    this.#draft = draft;
    this.#begin();
  }

  #choose(bug) {
    this.#bug = bug;
    this.#begin();
  }

  #predict(n) {
    this.#guess = n;
    this.#draw();
  }

  #verify() {
    this.#isVerified = true;
    this.#draw();
    this.#actions.querySelector("button").focus();
  }

  #next() {
    this.#text = [...this.#text, ...passOf(this.#pass).written];
    this.#draft = [];
    this.#passes += 1;
    this.#begin();
    this.#chips.querySelector("button").focus();
  }

  #restart() {
    this.#start();
    (this.#data.build ? this.#chips : this.#question).querySelector("button:enabled").focus();
  }

  // ---------------------------------------------------------------- the explanation

  #sentences(outcome) {
    const isCache = this.#data.ask === "cache";
    const answer = isCache ? outcome.kept : outcome.written.length;
    const opening = this.#guess === answer ? "Right." : `Not right, you chose ${this.#guess}.`;
    const total = isCache ? this.#ofCache(outcome) : this.#ofTokens(outcome);
    const wrong = isCache
      ? "The model continues as if the rejected words were in the text."
      : "The text is wrong: naive decoding writes the accepted tokens too.";
    return [
      make("p", make("b", opening), ` ${explain(this.#pass, outcome)}`),
      make("p", total),
      ...(outcome.isRight ? [] : [make("p.la-f-false", `≠ ${wrong}`)]),
    ];
  }

  #ofTokens({written}) {
    const passes = this.#passes + 1;
    const total = this.#text.length + written.length - split(this.#data.text).length;
    const counts = `${count(total, "token")} in ${count(passes, "pass")}; naive decoding needs ${count(total, "pass")}`;
    return `Written: “${written.join(" ")}”. So far, ${counts}.`;
  }

  #ofCache({kept, written}) {
    const read = [...this.#text, ...this.#draft].slice(0, kept);
    const rule = this.#bug === "no-rollback" ? "With the bug, the rejected rows stay" : "The rejected rows are dropped";
    const next = [...read, written.at(-1)].join(" ");
    return `${rule}: ${count(kept, "word")} in the cache. The next pass continues: “${next}”.`;
  }
}

/** Replace the buttons of a group. The focus stays on the button with the same text, or on the last enabled one. */
function fill(node, title, buttons) {
  const focused = node.contains(document.activeElement) ? document.activeElement.textContent : null;
  setAttr(node, "role", "group");
  setAttr(node, "aria-label", title || "the pass");
  node.replaceChildren(...(title ? [make("span.la-f-title", title)] : []), ...buttons);
  if (focused === null) return;
  const enabled = buttons.filter(({disabled}) => !disabled);
  (enabled.find(({textContent}) => textContent === focused) || enabled.at(-1))?.focus();
}

export const figure = data => new Pass(data).nodes;
