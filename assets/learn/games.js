/* games.js: the widgets of a lesson that need no server: a guess, a question, this machine's costs, a listing, a
   figure.

    What it is.  `mount(element, data, hooks)` fills an empty element with the widget that `data.kind` names: guess,
   quiz, cost, code or figure. `hooks.solved()` is called once, when a quiz is answered rightly. Mounting again
   begins anew.

    What it does not know.  Lessons, the server, models. Texts of lessons are untrusted: they are text nodes. */

import {HIDDEN, make, setText} from "../page/dom.js";
import {cost} from "./cost.js";
import * as costs from "./figures/costs.js";
import * as matching from "./figures/matching.js";
import * as overlap from "./figures/overlap.js";
import * as pencil from "./figures/pencil.js";
import * as shelf from "./figures/shelf.js";
import * as weights from "./figures/weights.js";
import * as jacobi from "./figures/window.js";
import {guess} from "./guess.js";
import {button, live, part, text} from "./widget.js";

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
    for (const {node} of list) node.disabled = node !== chosen; // the right one keeps the focus
    hooks.solved?.();
  }

  return [make("fieldset.la-g-quiz", make("legend", question), ...list.flatMap(({node, why}) => [node, why]))];
}

/** Into the clipboard; where that is forbidden the listing is selected, for the keyboard to copy. */
async function copy(words, node) {
  try {
    await navigator.clipboard.writeText(words);
    return "copied";
  } catch {
    getSelection().selectAllChildren(node);
    return "selected; copy it with the keyboard";
  }
}

/** A listing whose first line has the number `first`; `marked` are numbers of lines. */
function code({title, source, first, marked, text: lines}) {
  const where = source ? `${source}, from line ${first}` : "";
  const name = title || where || "Listing";
  // The style sheet draws the numbers, so they are in no selection. The marks are elements: they are heard, too.
  const nodes = lines.split("\n").map((words, i) => {
    const tag = marked.includes(first + i) ? "mark" : "span";
    return make(`${tag}.la-g-codeline`, {"data-line": first + i}, `${words}\n`);
  });
  const listing = make("code", ...nodes);
  listing.style.setProperty("--la-g-digits", `${String(first + nodes.length - 1).length}ch`);
  const outcome = make("span.la-g-small", {role: "status"});
  const act = async () => setText(outcome, await copy(lines, listing));
  const titles = [title && text("la-g-title", title), where && text("la-g-small", where)].filter(Boolean);
  const copier = button("copy", act, {"aria-label": `copy: ${name}`});
  const head = part("la-g-head", part("la-g-titles", ...titles), outcome, copier);
  const label = marked.length ? `${name}; marked lines: ${marked.join(", ")}` : name;
  const attributes = {tabindex: "0", role: "region", "aria-label": label};
  return [head, make("div.la-g-listing", attributes, make("pre", listing))];
}

const FIGURES = {
  weights,
  pencil,
  shelf,
  overlap,
  matching,
  window: jacobi,
  costs,
};
const figure = data => FIGURES[data.figure].figure();

const KINDS = {figure, guess, cost, quiz, code};

export function mount(element, data, hooks = {}) {
  element.className = `la-game la-game-${data.kind}`;
  element.replaceChildren(...KINDS[data.kind](data, hooks), ...(data.say ? [text("la-g-say", data.say)] : []));
}
