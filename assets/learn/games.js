/* games.js: the widgets of a lesson that need no server. `mount` fills an element with the widget that `data.kind`
   names: guess, quiz, cost, code, figure or exercise. Texts of lessons are untrusted: they become text nodes. */

import {HIDDEN, make, setText} from "../page/dom.js";
import {cost} from "./cost.js";
import {exercise} from "./exercise.js";
import * as costs from "./figures/costs.js";
import * as counters from "./figures/counters.js";
import * as matching from "./figures/matching.js";
import * as overlap from "./figures/overlap.js";
import * as pass from "./figures/pass.js";
import * as state from "./figures/state.js";
import * as towers from "./figures/towers.js";
import * as tree from "./figures/tree.js";
import * as weights from "./figures/weights.js";
import * as jacobi from "./figures/window.js";
import {guess} from "./guess.js";
import {question} from "./marks.js";
import {button, classVote, live, part, text} from "./widget.js";

function quiz({question, answers}, hooks) {
  const list = answers.map(answer => {
    const sign = make("span.la-g-sign", HIDDEN, "○");
    const why = live("la-g-why");
    const node = button("", () => choose(answer, node, sign, why), {"aria-pressed": "false"});
    node.classList.add("la-g-answer");
    node.append(sign, make("span", answer.text));
    return {node, why};
  });

  function choose({right, why: reason}, chosen, sign, why) {
    if (chosen.getAttribute("aria-pressed") === "true") return;
    chosen.setAttribute("aria-pressed", "true");
    chosen.classList.add(right ? "la-g-right" : "la-g-wrong");
    setText(sign, right ? "✓" : "✕");
    why.replaceChildren(make("p", make("b", right ? "Right. " : "Not quite. "), reason));
    if (!right) return;
    for (const {node} of list) node.disabled = node !== chosen; // the right answer keeps the focus
    hooks.solved?.();
  }

  return [make("fieldset.la-g-quiz", make("legend", question), ...list.flatMap(({node, why}) => [node, why]))];
}

/** Copy a text to the clipboard. If that is forbidden, select the listing, so that the reader can copy it. */
async function copy(source, node) {
  try {
    await navigator.clipboard.writeText(source);
    return "copied";
  } catch {
    getSelection().selectAllChildren(node);
    return "selected; copy it with the keyboard";
  }
}

/** A listing; with `ask`, the reader first selects the lines that may be marked. */
const code = data => (data.ask ? [question(data, selected => listing(data, selected))] : listing(data));

/** A listing whose first line has the number `first`; `marked` and `selected` are numbers of lines. */
function listing({title, source, first, marked, text: lines}, selected = []) {
  const origin = source ? `${source}, from line ${first}` : "";
  const name = title || origin || "Listing";
  // The style sheet draws the numbers, so they are never selected. Marks are elements, for screen readers.
  const nodes = lines.split("\n").map((line, i) => {
    const tag = marked.includes(first + i) ? "mark" : "span";
    const chosen = selected.includes(first + i) ? ".la-g-chosen" : "";
    return make(`${tag}.la-g-codeline${chosen}`, {"data-line": first + i}, `${line}\n`);
  });
  const block = make("code", ...nodes);
  block.style.setProperty("--la-g-digits", `${String(first + nodes.length - 1).length}ch`);
  const outcome = make("span.la-g-small", {role: "status"});
  const copyLines = async () => setText(outcome, await copy(lines, block));
  const titles = [title && text("la-g-title", title), origin && text("la-g-small", origin)].filter(Boolean);
  const copier = button("copy", copyLines, {"aria-label": `copy: ${name}`});
  const head = part("la-g-head", part("la-g-titles", ...titles), outcome, copier);
  const label = marked.length ? `${name}; marked lines: ${marked.join(", ")}` : name;
  const attributes = {tabindex: "0", role: "group", "aria-label": label};
  return [head, make("div.la-g-listing", attributes, make("pre", block))];
}

const FIGURES = {
  weights,
  pass,
  overlap,
  matching,
  window: jacobi,
  costs,
  towers,
  counters,
  tree,
  state,
};
const figure = (data, hooks) => [...FIGURES[data.figure].figure(data), ...classVote(data, hooks)];

const KINDS = {figure, guess, cost, quiz, code, exercise};

/** `hooks.solved()` is called once, when the right answer of a quiz is chosen. `hooks.ask(id, place)` opens a vote of
    the class. A second call starts again. */
export function mount(element, data, hooks = {}) {
  element.className = `la-game la-game-${data.kind}`;
  element.replaceChildren(...KINDS[data.kind](data, hooks), ...(data.say ? [text("la-g-say", data.say)] : []));
}
