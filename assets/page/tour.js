/* tour.js: a tour of a minute in six stops on the recording that is shown. At each stop, the playhead moves on and a
   part of the page is outlined; the last stop is a question. With reduced motion, the playhead jumps. */

import {isPartlyAccepted, partsOf} from "../timeline/strip.js";
import {button as createButton, make, setText} from "./dom.js";

const button = (label, action) => createButton("la-button", label, action);

/** The stops: [{part, sentence, to, seconds}]. The playhead moves to the time `to` in `seconds`. The last stop has a
    `question`: a step. */
export function stopsOf(stage) {
  const steps = stage.steps();
  const drafting = [...steps.keys()].filter(i => steps[i].draft.tokens.length > 1);
  const partly = drafting.find(i => isPartlyAccepted(steps[i])) ?? drafting[0];
  const next = drafting.find(i => i > partly) ?? partly;
  const count = partsOf(steps[partly]).drafted.length;
  const at = (index, phase) => stage.timeOf(index, phase);
  const stop = (part, seconds, to, sentence, more = {}) => ({part, seconds, to, sentence, ...more});
  const text =
    "This text is written in two ways. Above it: a tick per naive pass. Below it: a bracket per pass with drafts.";
  const draft = `A fast drafter has proposed ${count} tokens. The model verifies all of them in one pass.`;
  const accept = "Tokens that equal the model’s own are accepted. At the first rejection, the model writes its own.";
  const lead =
    "A pass that accepts tokens writes several at once. So the green caret leads, and its stack grows more slowly.";
  const question = {question: steps[next], answer: at(next, "accept")};
  return [
    stop(".la-stage", 12, at(partly, "draft"), text),
    stop(".la-strip", 10, at(partly, "verify"), draft),
    stop(".la-strip", 10, at(partly, "accept"), accept),
    stop(".la-stage", 18, stage.end(), lead),
    stop(".la-head", 8, stage.end(), "The same text in fewer passes. The speedup was measured."),
    stop(".la-strip", 0, at(next, "verify"), "Your turn. Will all of these tokens be accepted?", question),
  ];
}

class Tour {
  #stage;
  #stops;
  #number = 0;
  #moving = 0; // ends the previous movement
  #sentence = make("p", {"aria-live": "polite"});
  #position = make("span.la-t-place");
  #isManual = false; // the reader has pressed Back or Next: each stop stays
  #back = button("Back", () => this.#step(-1));
  #next = button("Next", () => this.#step(1));
  #choices = make("span");
  #outlined = null;

  constructor(stage) {
    this.#stage = stage;
    this.#stops = stopsOf(stage);
    const close = button("Close", () => this.end());
    const row = make("div.la-t-row", this.#position, this.#choices, this.#back, this.#next, close);
    this.node = make("div.la-tour", {role: "dialog", "aria-label": "A tour in six stops"}, this.#sentence, row);
    this.node.addEventListener("keydown", event => {
      if (event.key === "Escape") this.end();
    });
    stage.root.append(this.node);
    this.#go(0);
    this.#next.focus({preventScroll: true});
  }

  #step(direction) {
    this.#isManual = true;
    this.#go(this.#number + direction);
  }

  #go(number) {
    this.#number = number;
    const {part, sentence, question} = this.#stops[number];
    setText(this.#sentence, sentence);
    setText(this.#position, `${number + 1} of ${this.#stops.length}`);
    this.#back.disabled = number === 0;
    this.#next.hidden = number === this.#stops.length - 1;
    this.#choices.replaceChildren(...(question ? [true, false].map(all => this.#choice(all, question)) : []));
    this.#outline(this.#stage.root.querySelector(part));
    this.#play(this.#stops[number - 1]?.to ?? 0, this.#stops[number]);
  }

  /** Move the playhead to the time of a stop, then go to the next stop. */
  #play(from, {to, seconds}) {
    this.#moving += 1;
    const [movement, begun] = [this.#moving, performance.now()];
    const isStill = matchMedia("(prefers-reduced-motion: reduce)").matches || !seconds;
    const frame = now => {
      if (movement !== this.#moving) return;
      const share = seconds ? Math.min(1, Math.max(0, now - begun) / (1000 * seconds)) : 1;
      this.#stage.seek(isStill ? to : from + (to - from) * share);
      if (share < 1) requestAnimationFrame(frame);
      else if (!this.#isManual && this.#number < this.#stops.length - 1) this.#go(this.#number + 1);
    };
    frame(begun);
  }

  #choice(guess, step) {
    return button(guess ? "All accepted" : "Not all", () => {
      const {drafted} = partsOf(step);
      const accepted = drafted.filter(({kind}) => kind === "accepted").length;
      const isAll = accepted === drafted.length;
      const result = isAll ? `All ${accepted} were accepted` : `${accepted} of ${drafted.length} were accepted`;
      const opening = guess === isAll ? "Right" : "Not this time";
      setText(this.#sentence, `${opening}: ${result}. Now press Race, or try a chip under the prompt.`);
      this.#choices.replaceChildren();
      this.#stage.seek(this.#stops.at(-1).answer);
    });
  }

  #outline(node) {
    this.#outlined?.classList.remove("la-toured");
    this.#outlined = node;
    node?.classList.add("la-toured");
    node?.scrollIntoView({block: "nearest"});
  }

  end() {
    this.#moving += 1;
    this.#outline(null);
    this.node.remove();
    current = null;
  }
}

let current = null;

const hasDrafts = stage => stage.steps().some(step => step.draft.tokens.length > 1);

/** Start the tour again. If no draft is shown, it starts on the first recording. */
async function begin(stage) {
  current?.end();
  if (!hasDrafts(stage)) await stage.record("story");
  if (hasDrafts(stage)) current = new Tour(stage);
}

let shown = null; // the stage of the page's main timeline

/** Called when the main timeline is ready. A button or `?tour` in the address starts the tour. `isPressed` is true if
    the button has been pressed before. */
export function connect(stage, isPressed) {
  if (!shown) {
    document.addEventListener("click", ({target}) => target.closest("#la-tour-button") && begin(shown));
  }
  shown = stage;
  if (isPressed || new URLSearchParams(location.search).has("tour")) begin(stage);
}
