/* tour.js: six stops with a sentence each, on the recording that is on show; the last one is a guess.

    What it is.  `begin(stage)` puts a small box on the page and walks `stage`, the main timeline's published
   functions, from stop to stop: each seeks a moment of one pass and outlines a part of the page. An address with
   `?tour` begins it.

    Why it is so.  Nothing is acted: every stop is a moment of a race that was really run. The page stays usable all
   the while.

    What it does not know.  Gradio; how a moment is drawn. */

import {fitsPartly, partsOf} from "../timeline/strip.js";
import {make, setText} from "./dom.js";

const button = (label, act) => {
  const node = make("button.la-button", {type: "button"}, label);
  node.addEventListener("click", act);
  return node;
};

/** The stops on a drafting lane's steps: {part, words, at: [step, phase]}; the last asks. */
export function stopsOf(steps) {
  const all = [...steps.keys()];
  const drafting = all.filter(i => steps[i].draft.tokens.length > 1);
  const partly = drafting.find(i => fitsPartly(steps[i])) ?? drafting[0];
  const next = drafting.find(i => i > partly) ?? partly;
  const count = partsOf(steps[partly]).guesses.length;
  return [
    {
      part: ".la-lanes",
      at: [partly, "draft"],
      words: "One model writes the same text twice: on the left one token per pass, on the right with drafts.",
    },
    {
      part: ".la-strip",
      at: [partly, "draft"],
      words: `A fast drafter drafts ${count} tokens. Drafts are cheap.`,
    },
    {
      part: ".la-strip",
      at: [partly, "check"],
      words: "The model verifies all of them in one pass, which takes less time than one pass per token.",
    },
    {
      part: ".la-strip",
      at: [partly, "kept"],
      words: "Tokens that equal the model’s own are accepted. At the first other one, the model writes its own.",
    },
    {
      part: ".la-head",
      at: [steps.length - 1, "kept"],
      words: "Fewer passes, the same text. The speedup shown was measured.",
    },
    {
      part: ".la-strip",
      at: [next, "check"],
      words: "Your turn. Will all of these tokens be accepted?",
      asks: steps[next],
    },
  ];
}

class Tour {
  #stage;
  #stops;
  #number = 0;
  #words = make("p", {"aria-live": "polite"});
  #place = make("span.la-t-place");
  #back = button("Back", () => this.#go(this.#number - 1));
  #next = button("Next", () => this.#go(this.#number + 1));
  #answers = make("span");
  #outlined = null;

  constructor(stage) {
    this.#stage = stage;
    this.#stops = stopsOf(stage.steps());
    const close = button("Close", () => this.end());
    const row = make("div.la-t-row", this.#place, this.#answers, this.#back, this.#next, close);
    this.node = make("div.la-tour", {role: "dialog", "aria-label": "A tour in six stops"}, this.#words, row);
    this.node.addEventListener("keydown", event => {
      if (event.key === "Escape") this.end();
    });
    stage.root.append(this.node);
    this.#go(0);
    this.#next.focus({preventScroll: true});
  }

  #go(number) {
    this.#number = number;
    const {part, words, at, asks} = this.#stops[number];
    setText(this.#words, words);
    setText(this.#place, `${number + 1} of ${this.#stops.length}`);
    this.#back.disabled = number === 0;
    this.#next.hidden = number === this.#stops.length - 1;
    this.#answers.replaceChildren(...(asks ? [true, false].map(all => this.#answer(all, asks)) : []));
    this.#outline(this.#stage.root.querySelector(part));
    this.#stage.seek(...at);
  }

  #answer(guess, step) {
    return button(guess ? "All accepted" : "Not all", () => {
      const {guesses} = partsOf(step);
      const fit = guesses.filter(({kind}) => kind === "accepted").length;
      const isRight = guess === (fit === guesses.length);
      const told = fit === guesses.length ? `All ${fit} were accepted` : `${fit} of ${guesses.length} were accepted`;
      setText(
        this.#words,
        `${isRight ? "Right" : "Not this time"}: ${told}. Now press Race, or try a chip under the prompt.`,
      );
      this.#answers.replaceChildren();
      this.#stage.seek(this.#stops.at(-1).at[0], "kept");
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

const shows = stage => stage.steps().some(step => step.draft.tokens.length > 1);

/** Begins, or begins again; where nothing is on show to be told of, on the first recording. */
export async function begin(stage) {
  current?.end();
  if (!shows(stage)) await stage.record("story");
  if (shows(stage)) current = new Tour(stage);
}

/** Called when the main timeline is ready; `?tour` starts the tour. */
export function connect(stage) {
  if (new URLSearchParams(location.search).has("tour")) begin(stage);
}
