/* strip.js: the pass, in slow motion: the text so far, the draft's guesses, the check of all of them at once, what
   stayed.

    What it is.  `sceneAt` says what the strip shows of a lane at an instant; a `Strip` draws it: a column for every
   drafted token, under it its mark, and under that the token that the target wrote itself.

    Why it is so.  A scene follows from the instant alone, so that stepping and scrubbing show the same as playing.
   Passes that go by too fast to be followed are not drawn one after the other: the outcome of one is shown now and
   then.

    What it does not know.  Playback; other lanes. It draws one branch of a tree, the one that was gone down, and
   counts the other rows. Text is untrusted: it enters the page through text nodes. */

import {ending, make, setText, signs} from "../page/dom.js";
import {count, percent} from "../page/numbers.js";
import {EPSILON} from "./log.js";
import {passParts} from "./player.js";
import {promptOf} from "./words.js";

const TAIL = 90; // characters of the text so far
const QUICK_S = 0.4; // of the reader's seconds: a shorter pass is not followed
const OUTCOME_MS = 600; // how long an outcome is shown while passes are fast
const MARKS = {accepted: "✓", rejected: "✕", unvisited: "·"};

/** {index, phase, share}: which pass, and whether the strip shows its drafting ("draft"), its check, or its outcome
    ("kept"); the share of the drafting or of the check that is over. PURE. */
export function sceneAt(lane, {settled, flying, ghosts, sweep}, t) {
  const last = settled - 1;
  const hasEnded = settled > 0 && t - lane.ends[last] <= EPSILON;
  if (flying < 0 || hasEnded) return {index: last, phase: "kept", share: 1};
  return {index: flying, phase: sweep === null ? "draft" : "check", share: sweep ?? ghosts};
}

/** A pass as {guesses: [{text, kind}], more, own: [text]}; `more` are the words for rows of other branches. */
export function partsOf(step) {
  const parts = passParts(step, false);
  const guesses = parts.filter(({kind}) => MARKS[kind]);
  const more = parts.find(({kind}) => kind === "note")?.text || "";
  return {guesses, more, own: parts.filter(({kind}) => kind === "own" || kind === "plain").map(({text}) => text)};
}

/** Whether a first few guesses fit and the others do not. */
export function fitsPartly(step) {
  const {guesses} = partsOf(step);
  const fit = guesses.filter(({kind}) => kind === "accepted").length;
  return fit > 0 && fit < guesses.length;
}

const ORDINALS = ["first", "second", "third", "fourth", "fifth", "sixth", "seventh", "eighth"];

/** What happens, in a sentence: its number and name, and the rest. */
export function caption({guesses, own}, phase) {
  const all = guesses.length;
  if (!all)
    return [
      "",
      phase === "kept" ? "No draft here: the target wrote one token." : "No draft here: the target writes one token.",
    ];
  if (phase === "draft") return ["1 draft", `the drafter proposes ${count(all, "token")}`];
  if (phase === "check") return ["2 verify", `the target computes ${all === 1 ? "it" : `all ${all}`} in one pass`];
  const fit = guesses.filter(({kind}) => kind === "accepted").length;
  const then = own.length ? "the target adds one more" : "the text ends";
  if (fit === all) return ["3 accept", `${all === 1 ? "it is accepted" : `all ${all} are accepted`}, and ${then}`];
  const which = ORDINALS[fit] || `${fit + 1}th`;
  if (!fit) return ["3 accept", `${all === 1 ? "it is" : "the first is"} rejected: the target writes its own token`];
  return ["3 accept", `${fit} of ${all}; instead of the ${which}, the target writes its own token`];
}

export class Strip {
  #prompt = "";
  #drawn = "";
  #outcomeWhen = -Infinity; // milliseconds
  #lane = null;
  #pass = null; // {index, parts, columns}
  #past = make("span.la-s-past");
  #boxes = make("div.la-s-boxes");
  #title = make("b");
  #words = make("span");

  constructor(node, open) {
    this.node = node;
    node.append(make("p.la-s-caption", this.#title, " ", this.#words), make("div.la-s-line", this.#past, this.#boxes));
    node.addEventListener("click", () => this.#pass && open(this.#pass.index));
  }

  begin(log) {
    const lane = log.lanes.at(-1);
    this.#lane = lane && !lane.naive && !lane.opaque ? lane : null;
    this.#prompt = log.header ? promptOf(log) + (log.header.settings.chat ? " " : "") : "";
    this.#pass = null;
    this.#drawn = "";
    this.#outcomeWhen = -Infinity;
    this.node.hidden = !this.#lane;
    setText(this.#title, "");
    setText(this.#words, "The prompt is read first.");
    setText(this.#past, ending(this.#prompt, TAIL).replace(/\s+/g, " "));
    this.#boxes.replaceChildren();
  }

  /** `view` is the lane's part of a frame; `rate` says how fast the playhead goes by itself, 0 while it rests. */
  draw(view, t, rate) {
    const lane = this.#lane;
    if (!lane?.steps.length) return;
    const scene = sceneAt(lane, view, t);
    const {index} = scene;
    const isQuick = rate > 0 && (lane.ends[index] - lane.starts[index]) / rate < QUICK_S && !view.finished;
    if (isQuick) {
      const now = performance.now();
      if (now - this.#outcomeWhen < OUTCOME_MS) return;
      this.#outcomeWhen = now;
      Object.assign(scene, {index: Math.max(0, view.settled - 1), phase: "kept", share: 1});
    }
    const key = `${scene.index}/${scene.phase}/${scene.phase === "draft" ? scene.share : ""}`;
    if (scene.phase === "check") this.#boxes.style.setProperty("--la-s-check", percent(scene.share));
    if (key === this.#drawn) return;
    this.#drawn = key;
    this.#show(scene);
  }

  #show({index, phase, share}) {
    const step = this.#lane.steps[index];
    if (this.#pass?.index !== index) this.#build(index, step);
    const {parts, columns, more} = this.#pass;
    const [title, words] = step.kind === "prefill" ? ["", "The prompt has been read."] : caption(parts, phase);
    setText(this.#title, title);
    setText(this.#words, words);
    this.#boxes.dataset.phase = phase;
    columns.forEach(({node, mark, own}, i) => {
      const guess = parts.guesses[i];
      const isSeen = phase !== "draft" || i < share;
      node.classList.toggle("la-s-unseen", !isSeen || (!guess && phase !== "kept"));
      const kind = guess && phase === "kept" ? guess.kind : "ghost";
      node.dataset.kind = guess ? kind : "own";
      setText(mark, phase === "kept" && guess ? MARKS[guess.kind] : "");
      setText(own, phase === "kept" ? own.laText : "");
    });
    more.hidden = phase === "draft";
  }

  #build(index, step) {
    const parts = partsOf(step);
    const at = parts.guesses.findIndex(({kind}) => kind !== "accepted");
    const ownAt = at < 0 ? parts.guesses.length : at;
    const columns = [...parts.guesses, ...(at < 0 && parts.own.length ? [null] : [])].map((guess, i) => {
      const box = make("span.la-s-box", guess ? signs(guess.text) : "");
      const mark = make("span.la-s-mark");
      const own = make("span.la-s-own");
      own.laText = i === ownAt ? signs(parts.own.join("")) : "";
      return {node: make("span.la-s-column", box, mark, own), mark, own};
    });
    const more = make("span.la-s-more", parts.more);
    this.#boxes.replaceChildren(...columns.map(({node}) => node), more);
    this.#pass = {index, parts, columns, more};
    const before = this.#lane.steps.slice(Math.max(0, index - 30), index).map(one => one.pieces.join(""));
    setText(this.#past, ending(this.#prompt + before.join(""), TAIL).replace(/\s+/g, " "));
  }
}
