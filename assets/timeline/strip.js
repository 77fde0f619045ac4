/* strip.js: a pass in slow motion: the text so far, the drafted tokens, their verification, and the outcome. A scene
   depends only on the time, so stepping and scrubbing show the same as playing. */

import {ending, make, setText, signs} from "../page/dom.js";
import {count, percent} from "../page/numbers.js";
import {MARKS, NAMES} from "./boxes.js";
import {EPSILON} from "./log.js";
import {passParts} from "./player.js";
import {asked, verdictOf} from "./question.js";
import {promptOf} from "./sentences.js";

const TAIL = 90; // characters of the text so far
const FAST_S = 0.4; // of playback: a shorter pass is not shown step by step
const OUTCOME_MS = 600; // how long an outcome is shown while passes are fast

/** The scene at time t: {index, phase, share}. The phase is "draft", "verify" or "accept" (the outcome);
    `share` is the completed part of the phase. Pure. */
export function sceneAt(lane, {settled, inFlight, ghosts, sweep}, t) {
  const last = settled - 1;
  const hasEnded = settled > 0 && t - lane.ends[last] <= EPSILON;
  if (inFlight < 0 || hasEnded) return {index: last, phase: "accept", share: 1};
  return {index: inFlight, phase: sweep === null ? "draft" : "verify", share: sweep ?? ghosts};
}

/** A pass as {drafted: [{text, kind}], more, added: [text]}. One branch of a tree is shown; `more` is a note on the
    other rows. `added` is the target's own token. */
export function partsOf(step) {
  const parts = passParts(step, false);
  const drafted = parts.filter(({kind}) => MARKS[kind]);
  const more = parts.find(({kind}) => kind === "note")?.text || "";
  return {drafted, more, added: parts.filter(({kind}) => kind === "own" || kind === "plain").map(({text}) => text)};
}

/** Whether some drafted tokens were accepted and others were not. */
export function isPartlyAccepted(step) {
  const {drafted} = partsOf(step);
  const accepted = drafted.filter(({kind}) => kind === "accepted").length;
  return accepted > 0 && accepted < drafted.length;
}

const ORDINALS = ["first", "second", "third", "fourth", "fifth", "sixth", "seventh", "eighth"];

/** A caption of a phase: its number and name, and a description. */
export function caption({drafted, added}, phase) {
  const total = drafted.length;
  if (!total)
    return [
      "",
      phase === "accept" ? "No draft here: the target wrote one token." : "No draft here: the target writes one token.",
    ];
  if (phase === "draft") return ["1 draft", `the drafter proposes ${count(total, "token")}`];
  if (phase === "verify") return ["2 verify", `the target verifies ${total === 1 ? "it" : `all ${total}`} in one pass`];
  const accepted = drafted.filter(({kind}) => kind === "accepted").length;
  const end = added.length ? "the target adds one more" : "the text ends";
  if (accepted === total)
    return ["3 accept", `${total === 1 ? "it is accepted" : `all ${total} are accepted`}, and ${end}`];
  const ordinal = ORDINALS[accepted] || `${accepted + 1}th`;
  if (!accepted)
    return ["3 accept", `${total === 1 ? "it is" : "the first is"} rejected: the target writes its own token`];
  return ["3 accept", `${accepted} of ${total}; instead of the ${ordinal}, the target writes its own token`];
}

/** The states of a pass's tokens. */
const kindsOf = step => {
  const {drafted, added} = partsOf(step);
  return [...drafted.map(({kind}) => kind), ...(drafted.length && added.length ? ["own"] : [])];
};

export class Strip {
  #drawn = "";
  #outcomeTime = -Infinity; // milliseconds
  #shown = null; // the lane and run that are shown: {log, run, lane, prompt}
  #pass = null; // {index, parts, columns, more}
  #context = make("span.la-s-past");
  #boxes = make("div.la-s-boxes.la-boxes");
  #title = make("b");
  #description = make("span");

  constructor(node, open) {
    this.node = node;
    node.append(
      make("p.la-s-caption", this.#title, " ", this.#description),
      make("div.la-s-line", this.#context, this.#boxes),
    );
    node.addEventListener("click", () => this.#pass && open());
  }

  #begin(log, lane) {
    const prompt = log.header ? promptOf(log) + (log.header.settings.chat ? " " : "") : "";
    this.#shown = {run: log.run, header: log.header, lane, prompt};
    this.#pass = null;
    this.#drawn = "";
    this.#outcomeTime = -Infinity;
    setText(this.#title, "");
    setText(this.#description, lane ? "The prompt is read first." : "");
    setText(this.#context, ending(prompt, TAIL).replace(/\s+/g, " "));
    this.#boxes.replaceChildren();
  }

  /** Draw the current pass of the lane with this index, or of the last lane if it drafts nothing. `rate` is the speed
      of the playhead, 0 while it is paused. `question` is the pass with a question, and `answer` the reader's
      prediction. Returns whether passes are too short to be shown step by step. */
  draw(log, laneIndex, {lanes, t}, {rate, question, answer}) {
    const at =
      [laneIndex, lanes.length - 1].find(i => log.lanes[i] && !log.lanes[i].naive && !log.lanes[i].opaque) ?? -1;
    const lane = log.lanes[at] || null;
    if (this.#shown?.lane !== lane || this.#shown.header !== log.header) this.#begin(log, lane);
    this.node.classList.toggle("la-s-none", !lane);
    if (!lane?.steps.length) return false;
    const scene = sceneAt(lane, lanes[at], t);
    const {index} = scene;
    const isFast = rate > 0 && (lane.ends[index] - lane.starts[index]) / rate < FAST_S && !lanes[at].finished;
    if (isFast) {
      const now = performance.now();
      if (now - this.#outcomeTime < OUTCOME_MS) return true;
      this.#outcomeTime = now;
      Object.assign(scene, {index: Math.max(0, lanes[at].settled - 1), phase: "accept", share: 1});
    }
    scene.isAsked = question === scene.index;
    scene.guess = answer?.index === scene.index && scene.phase === "accept" ? answer.count : null;
    const drafted = scene.phase === "draft" ? scene.share : "";
    const key = `${scene.index}/${scene.phase}/${drafted}/${scene.isAsked}/${scene.guess}`;
    if (scene.phase === "verify") this.#boxes.style.setProperty("--la-s-verify", percent(scene.share));
    if (key !== this.#drawn) {
      this.#drawn = key;
      this.#show(scene);
    }
    return isFast;
  }

  #show({index, phase, share, isAsked, guess}) {
    const step = this.#shown.lane.steps[index];
    if (this.#pass?.index !== index) this.#build(index, step);
    const {parts, columns, more} = this.#pass;
    const [title, description] = step.kind === "prefill" ? ["", "The prompt has been read."] : caption(parts, phase);
    const isAnswered = guess !== null;
    setText(this.#title, isAsked ? "Predict" : title);
    setText(this.#description, isAsked ? asked(parts) : isAnswered ? verdictOf(parts, guess) : description);
    this.node.classList.toggle("la-s-answered", isAnswered);
    this.#boxes.dataset.phase = phase;
    columns.forEach((node, i) => {
      const token = parts.drafted[i];
      const isSeen = phase !== "draft" || i < share;
      node.classList.toggle("la-s-unseen", !isSeen || (!token && phase !== "accept"));
      const kind = token && phase === "accept" ? token.kind : "ghost";
      node.dataset.kind = token ? kind : "own";
    });
    more.hidden = phase === "draft";
  }

  #build(index, step) {
    const {lane, prompt} = this.#shown;
    const parts = partsOf(step);
    const rejectedAt = parts.drafted.findIndex(({kind}) => kind !== "accepted");
    const addedAt = rejectedAt < 0 ? parts.drafted.length : rejectedAt;
    const named = new Set(lane.steps.slice(0, index).flatMap(kindsOf)); // a state has its name where it occurs first
    const nameOf = kind => {
      const name = named.has(kind) ? "" : ` ${NAMES[kind]}`;
      named.add(kind);
      return name;
    };
    const columns = [...parts.drafted, ...(rejectedAt < 0 && parts.added.length ? [null] : [])].map((token, i) => {
      const box = make("span.la-s-box", token ? signs(token.text) : "");
      const mark = make("span.la-s-mark", token ? MARKS[token.kind] + nameOf(token.kind) : "");
      const added = i === addedAt ? signs(parts.added.join("")) : "";
      const name = i === addedAt && parts.drafted.length ? make("span.la-s-name", nameOf("own")) : "";
      return make(
        `span.la-s-column${token?.forced ? ".la-forced" : ""}`,
        box,
        mark,
        make("span", make("span.la-s-own", added), name),
      );
    });
    const more = make("span.la-s-more", parts.more);
    this.#boxes.replaceChildren(...columns, more);
    this.#pass = {index, parts, columns, more};
    const before = lane.steps.slice(Math.max(0, index - 30), index).map(step => step.pieces.join(""));
    setText(this.#context, ending(prompt + before.join(""), TAIL).replace(/\s+/g, " "));
    this.#fit();
  }

  /** Hide the tokens that have no room, and show how many they are. */
  #fit() {
    const {columns, more} = this.#pass;
    const right = this.#boxes.parentElement.getBoundingClientRect().right - 48;
    const outside = columns.filter(node => node.getBoundingClientRect().right > right);
    for (const node of outside) node.hidden = true;
    if (outside.length) setText(more, `+${outside.length}`);
    this.#boxes.classList.toggle("la-s-cut", outside.length > 0);
  }
}
