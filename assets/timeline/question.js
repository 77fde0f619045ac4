/* question.js: the question before the outcome of a pass: how many of the drafted tokens are accepted? */

import {button, make, setAttr} from "../page/dom.js";
import {count} from "../page/numbers.js";

const acceptedOf = ({drafted}) => drafted.filter(({kind}) => kind === "accepted").length;

/** The question about a pass, as `partsOf` returns it. */
export const asked = ({drafted}) =>
  drafted.length === 1 ? "is it accepted? choose 0 or 1" : `how many of the ${drafted.length} are accepted?`;

/** A sentence on the reader's number: whether it was right, and why. */
export function verdictOf(parts, guess) {
  const [accepted, total] = [acceptedOf(parts), parts.drafted.length];
  const isRight = guess === accepted;
  const opening = isRight ? "Right:" : `Not right, you chose ${guess}:`;
  if (accepted === total) return `${opening} ${total === 1 ? "it is" : `all ${total} are`} accepted.`;
  if (total === 1) return `${opening} it is rejected.`;
  return `${opening} ${accepted} of ${total} accepted, because token ${accepted + 1} is rejected.`;
}

/** The row of numbers. `choose(number)` is called with the reader's choice. */
export class Question {
  node = make("div.la-question", {role: "group", hidden: ""});
  #choose;
  #shown = null; // the pass, as `partsOf` returns it

  constructor(choose) {
    this.#choose = choose;
  }

  /** Show the question about a pass; null hides it. */
  show(parts) {
    if (parts === this.#shown) return;
    this.#shown = parts;
    this.node.hidden = !parts;
    if (!parts) return;
    const draft = parts.drafted.map(({text}) => text).join("");
    setAttr(this.node, "aria-label", `The draft is “${draft}”: ${asked(parts)}`);
    const numbers = [...parts.drafted.keys(), parts.drafted.length];
    const choices = numbers.map(n =>
      button("la-button", String(n), () => this.press(n), {"aria-label": `${count(n, "token")} accepted`}),
    );
    this.node.replaceChildren(...choices);
  }

  /** Choose a number. Returns whether it is an answer of the shown question. */
  press(number) {
    if (!this.#shown || number > this.#shown.drafted.length) return false;
    this.#choose(number);
    return true;
  }
}
