/* guess.js: a game: will a drafted token be accepted? The draw and the probability of acceptance are shown after the
   reader's guess. */

import {drawn, draws} from "../inspector/parts.js";
import {make, setText, signs} from "../page/dom.js";
import {exact, percent} from "../page/numbers.js";
import {button, classVote, live, newId, part, text} from "./widget.js";

const ACCEPTED = "it is accepted";
const REJECTED = "it is rejected";

/** `x` with two digits, or with more if it would otherwise look equal to a different number in `others`. */
function exactApartFrom(x, others) {
  const looksDifferent = digits => others.every(other => other === x || Number(exact(x, digits)) !== other);
  return exact(x, [2, 3, 4, 5].find(looksDifferent) || 6);
}

/** Sentences on whether a guess was right and whether it was the likelier outcome. `chance` is the formatted `share`.
 */
function verdictOf({chance: share, accepted}, chance, guess) {
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

/** The scale from 0 to 1, with the accepting draws tinted and the draw as a dot. */
function line({chance: share, draw}, chance) {
  const until = percent(share);
  const at = percent(draw);
  const limit = share === 1 ? "always accepted" : share === 0 ? "never accepted" : `accepted below ${chance}`;
  const flag = (style, label) => drawn("la-g-flag", style, label);
  const below = drawn("la-g-below", {}, flag({left: until, transform: `translateX(-${until})`}, limit));
  if (share > 0.08) below.prepend(flag({left: "0"}, "0"));
  if (share < 0.92) below.append(flag({right: "0"}, "1"));
  const above = drawn("la-g-above", {}, flag({left: at, transform: `translateX(-${at})`}, `draw ${exact(draw)}`));
  return drawn("la-g-line", {}, above, draws(share, draw), below);
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

  constructor(data, hooks) {
    this.#cases = data.cases;
    const vote = classVote(data, hooks, () => `${data.vote}-${this.#at + 1}`);
    this.nodes = [part("la-g-head", this.#count, this.#score), this.#card, this.#after, ...vote];
    this.#ask();
  }

  /** Show a case. Returns the first button, for the focus. */
  #ask() {
    const example = this.#cases[this.#at];
    const token = make("span.la-g-token", signs(example.token));
    const bars = [bar("p", "target’s p", example.p), bar("q", "drafter’s q", example.q)];
    const facts = part("la-g-facts", make("p", "Drafted: ", token), ...bars);
    facts.id = newId();
    const choose = guess => this.#guessed(example, guess, token, choices);
    const choices = [
      button(ACCEPTED, () => choose(true), {"aria-describedby": facts.id, "aria-pressed": "false"}),
      button(REJECTED, () => choose(false), {"aria-describedby": facts.id, "aria-pressed": "false"}),
    ];
    this.#card.replaceChildren(facts, text("la-g-ask", "Will it be accepted?"), part("la-g-buttons", ...choices));
    setText(this.#count, `Case ${this.#at + 1} of ${this.#cases.length}`);
    this.#after.replaceChildren();
    return choices[0];
  }

  #guessed(example, guess, token, choices) {
    this.#right += Number(guess === example.accepted);
    setText(this.#score, `${this.#right} of ${this.#at + 1} right`);
    token.classList.add(example.accepted ? "la-g-accepted" : "la-g-rejected");
    choices.forEach((choice, i) => {
      choice.disabled = true;
      choice.setAttribute("aria-pressed", String((i === 0) === guess));
    });
    this.#showOutcome(example, guess);
  }

  /** Show the outcome of the token and the verdict on the guess. */
  #showOutcome(example, guess) {
    const chance = exactApartFrom(example.chance, [example.draw, 0, 0.5, 1]);
    const side = `${example.accepted ? "" : "not "}below ${chance}: ${example.accepted ? ACCEPTED : REJECTED}.`;
    const sum = `chance = min(1, p/q) = min(1, ${exact(example.p)}/${exact(example.q)}) = `;
    this.#after.replaceChildren(
      text("la-g-sum", sum, make("b", chance)),
      line(example, chance),
      make("p", make("b", `The draw is ${exact(example.draw)}, ${side}`), ` ${verdictOf(example, chance, guess)}`),
    );
    const isLast = this.#at + 1 === this.#cases.length;
    if (isLast) this.#after.append(this.#total());
    const next = isLast ? button("again", () => this.#go(0)) : button("next", () => this.#go(this.#at + 1));
    this.#after.append(part("la-g-buttons", next));
    next.focus();
  }

  #total() {
    const cases = this.#cases.length;
    const best = this.#cases.filter(example => example.chance >= 0.5 === example.accepted).length;
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

export const guess = (data, hooks) => new Guess(data, hooks).nodes;
