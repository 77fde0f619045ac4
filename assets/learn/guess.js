/* guess.js: will a drafted token be accepted? Guess before you see the draw.

   Why it is so.  A lesson asks before it tells: the draw and the chance are not in the page until somebody has guessed.
   Digits are added where rounding would make "0.43, not below 0.43".

   What it does not know.  What accepts a token: `chance` and `accepted` come with each case. */

import {drawn} from "../inspector/parts.js";
import {make, setText, signs} from "../page/dom.js";
import {exact, percent} from "../page/numbers.js";
import {button, live, newId, part, text} from "./widget.js";

const ACCEPTED = "it is accepted";
const REJECTED = "it is rejected";

/** Two digits, or as many as it takes to look different from those `others` that are different. */
function exactApartFrom(x, others) {
  const looksDifferent = most => others.every(other => other === x || Number(exact(x, most)) !== other);
  return exact(x, [2, 3, 4, 5].find(looksDifferent) || 6);
}

/** Whether a guess was right, whether it was good, and what of it was luck. `chance` is in words. */
function verdict({chance: share, accepted}, chance, guess) {
  const isRight = guess === accepted;
  const isLikely = share > 0.5;
  const opening = isRight ? "You were right" : "Not right";
  if (share === 1) return `${opening}. This one was certain: p is not below q, so it is always accepted.`;
  if (share === 0) return `${opening}. This one was certain: p is 0, so it is always rejected.`;
  if (share === 0.5) return `${opening}. Both outcomes were equally likely.`;
  const likelier = isLikely ? "acceptance" : "a rejection";
  const why = `${chance} is ${isLikely ? "above" : "below"} a half, so ${likelier} was likelier.`;
  if (guess === isLikely) {
    return isRight
      ? `${opening}, and it was the better guess: ${why}`
      : `${opening}, but a good guess and bad luck: ${why}`;
  }
  const better = `The better guess was “${isLikely ? ACCEPTED : REJECTED}”: ${why}`;
  return isRight ? `${opening}, by luck. ${better}` : `${opening}. ${better}`;
}

/** The numbers from 0 to 1: tinted as far as a draw would accept, and the draw as a dot. */
function line({chance: share, draw}, chance) {
  const until = percent(share);
  const at = percent(draw);
  const limit = share === 1 ? "always accepted" : share === 0 ? "never accepted" : `accepted below ${chance}`;
  const flag = (style, words) => drawn("la-g-flag", style, words);
  const below = drawn("la-g-below", {}, flag({left: until, transform: `translateX(-${until})`}, limit));
  if (share > 0.08) below.prepend(flag({left: "0"}, "0"));
  if (share < 0.92) below.append(flag({right: "0"}, "1"));
  const above = drawn("la-g-above", {}, flag({left: at, transform: `translateX(-${at})`}, `draw ${exact(draw)}`));
  const scale = drawn("la-g-scale", {}, drawn("la-g-zone", {width: until}), drawn("la-g-dot", {left: at}));
  return drawn("la-g-line", {}, above, scale, below);
}

function bar(kind, label, value) {
  const rail = drawn("la-g-rail", {}, drawn(`la-g-fill.la-g-${kind}`, {width: percent(value)}));
  return part("la-g-bar", make("span.la-g-label", label), rail, make("span.la-g-value", exact(value)));
}

class Guess {
  #cases;
  #at = 0;
  #right = 0;
  #count = make("span");
  #score = make("span");
  #card = part("la-g-card");
  #after = live("la-g-after");

  constructor({cases}) {
    this.#cases = cases;
    this.nodes = [part("la-g-head", this.#count, this.#score), this.#card, this.#after];
    this.#ask();
  }

  /** Shows a case; the first choice, where the focus may go. */
  #ask() {
    const one = this.#cases[this.#at];
    const token = make("span.la-g-token", signs(one.token));
    const bars = [bar("p", "target’s p", one.p), bar("q", "drafter’s q", one.q)];
    const facts = part("la-g-facts", make("p", "Drafted: ", token), ...bars);
    facts.id = newId();
    const answer = guess => this.#answer(one, guess, token, choices);
    const choices = [
      button(ACCEPTED, () => answer(true), {"aria-describedby": facts.id}),
      button(REJECTED, () => answer(false), {"aria-describedby": facts.id}),
    ];
    this.#card.replaceChildren(facts, text("la-g-ask", "Will it be accepted?"), part("la-g-buttons", ...choices));
    setText(this.#count, `Case ${this.#at + 1} of ${this.#cases.length}`);
    this.#after.replaceChildren();
    return choices[0];
  }

  #answer(one, guess, token, choices) {
    this.#right += Number(guess === one.accepted);
    setText(this.#score, `${this.#right} of ${this.#at + 1} right`);
    token.classList.add(one.accepted ? "la-g-accepted" : "la-g-rejected");
    choices.forEach((choice, i) => {
      choice.disabled = true;
      choice.setAttribute("aria-pressed", String((i === 0) === guess));
    });
    this.#tell(one, guess);
  }

  /** The outcome of the token, and how good the guess was. */
  #tell(one, guess) {
    const chance = exactApartFrom(one.chance, [one.draw, 0, 0.5, 1]);
    const side = `${one.accepted ? "" : "not "}below ${chance}: ${one.accepted ? ACCEPTED : REJECTED}.`;
    const sum = `chance = min(1, p/q) = min(1, ${exact(one.p)}/${exact(one.q)}) = `;
    this.#after.replaceChildren(
      text("la-g-sum", sum, make("b", chance)),
      line(one, chance),
      make("p", make("b", `The draw is ${exact(one.draw)}, ${side}`), ` ${verdict(one, chance, guess)}`),
    );
    const isLast = this.#at + 1 === this.#cases.length;
    if (isLast) this.#after.append(this.#total());
    const next = isLast ? button("again", () => this.#go(0)) : button("next", () => this.#go(this.#at + 1));
    this.#after.append(part("la-g-buttons", next));
    next.focus();
  }

  #total() {
    const cases = this.#cases.length;
    const best = this.#cases.filter(one => one.chance >= 0.5 === one.accepted).length;
    const others = ` Always choosing the likelier outcome gets ${best} of ${cases} here.`;
    return text("la-g-end", make("b", `${this.#right} of ${cases} right.`), others);
  }

  #go(at) {
    this.#at = at;
    if (at === 0) {
      this.#right = 0;
      setText(this.#score, "");
    }
    this.#ask().focus();
  }
}

export const guess = data => new Guess(data).nodes;
