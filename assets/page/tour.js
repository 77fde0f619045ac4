/* tour.js: a tour of six stops on the recording that is shown. Each stop seeks a moment of one pass and outlines a
   part of the page; the last stop is a question. */

import {isPartlyAccepted, partsOf} from "../timeline/strip.js";
import {make, setText} from "./dom.js";

const button = (label, action) => {
  const node = make("button.la-button", {type: "button"}, label);
  node.addEventListener("click", action);
  return node;
};

/** The stops on a drafting lane's steps: [{part, sentence, at: [step, phase]}]; the last one has a `question`. */
export function stopsOf(steps) {
  const indices = [...steps.keys()];
  const drafting = indices.filter(i => steps[i].draft.tokens.length > 1);
  const partly = drafting.find(i => isPartlyAccepted(steps[i])) ?? drafting[0];
  const next = drafting.find(i => i > partly) ?? partly;
  const count = partsOf(steps[partly]).drafted.length;
  return [
    {
      part: ".la-lanes",
      at: [partly, "draft"],
      sentence: "One model writes the same text twice: on the left one token per pass, on the right with drafts.",
    },
    {
      part: ".la-strip",
      at: [partly, "draft"],
      sentence: `A fast drafter proposes ${count} tokens. Drafts are cheap.`,
    },
    {
      part: ".la-strip",
      at: [partly, "verify"],
      sentence: "The model verifies all of them in one pass, which takes less time than one pass per token.",
    },
    {
      part: ".la-strip",
      at: [partly, "accept"],
      sentence: "Tokens that equal the model’s own are accepted. At the first rejection, the model writes its own.",
    },
    {
      part: ".la-head",
      at: [steps.length - 1, "accept"],
      sentence: "Fewer passes, the same text. The speedup shown was measured.",
    },
    {
      part: ".la-strip",
      at: [next, "verify"],
      sentence: "Your turn. Will all of these tokens be accepted?",
      question: steps[next],
    },
  ];
}

class Tour {
  #stage;
  #stops;
  #number = 0;
  #sentence = make("p", {"aria-live": "polite"});
  #position = make("span.la-t-place");
  #back = button("Back", () => this.#go(this.#number - 1));
  #next = button("Next", () => this.#go(this.#number + 1));
  #choices = make("span");
  #outlined = null;

  constructor(stage) {
    this.#stage = stage;
    this.#stops = stopsOf(stage.steps());
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

  #go(number) {
    this.#number = number;
    const {part, sentence, at, question} = this.#stops[number];
    setText(this.#sentence, sentence);
    setText(this.#position, `${number + 1} of ${this.#stops.length}`);
    this.#back.disabled = number === 0;
    this.#next.hidden = number === this.#stops.length - 1;
    this.#choices.replaceChildren(...(question ? [true, false].map(all => this.#choice(all, question)) : []));
    this.#outline(this.#stage.root.querySelector(part));
    this.#stage.seek(...at);
  }

  #choice(guess, step) {
    return button(guess ? "All accepted" : "Not all", () => {
      const {drafted} = partsOf(step);
      const accepted = drafted.filter(({kind}) => kind === "accepted").length;
      const isRight = guess === (accepted === drafted.length);
      const result =
        accepted === drafted.length
          ? `All ${accepted} were accepted`
          : `${accepted} of ${drafted.length} were accepted`;
      setText(
        this.#sentence,
        `${isRight ? "Right" : "Not this time"}: ${result}. Now press Race, or try a chip under the prompt.`,
      );
      this.#choices.replaceChildren();
      this.#stage.seek(this.#stops.at(-1).at[0], "accept");
    });
  }

  #outline(node) {
    this.#outlined?.classList.remove("la-toured");
    this.#outlined = node;
    node?.classList.add("la-toured");
    node?.scrollIntoView({block: "nearest"});
  }

  end() {
    this.#outline(null);
    this.node.remove();
    current = null;
  }
}

let current = null;

const hasDrafts = stage => stage.steps().some(step => step.draft.tokens.length > 1);

/** Start the tour again. If no draft is shown, it starts on the first recording. */
export async function begin(stage) {
  current?.end();
  if (!hasDrafts(stage)) await stage.record("story");
  if (hasDrafts(stage)) current = new Tour(stage);
}

/** Called when the main timeline is ready. `?tour` in the address starts the tour. */
export function connect(stage) {
  if (new URLSearchParams(location.search).has("tour")) begin(stage);
}
