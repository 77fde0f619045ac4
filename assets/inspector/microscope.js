/* microscope.js: the window of lookahead decoding on the page: the grid, the n-grams that were tried, the mask.

   What it is.  `view(log, lane, step, go, chosen)` makes the part of the inspector that a pass with a window, or with
   n-grams of one, has. Birthplaces are buttons: `go(lane, step)` opens the pass an n-gram was born in; `chosen(row)`
   is told where in the mask the reader is.

   What it does not know.  How levels, columns and births follow from a draft: that is jacobi.js's business. */

import {make} from "../page/dom.js";
import {count} from "../page/numbers.js";
import {maskOf, triedOf, windowOf} from "./jacobi.js";
import {Mask} from "./mask.js";
import {heading, sign, small, table, token, unseen} from "./parts.js";

const MOVES = {
  opened: "The window starts with one level of tokens, chosen at random from the text.",
  restarted: "The window was paused and starts again with its oldest level.",
  grew: "The window is filling: the target’s predictions of the previous pass are its newest level.",
  moved: "Every level moved up by one: the oldest was dropped, the target’s predictions became the newest.",
};
const ANSWER = "“Predicted now” is the target’s prediction at the newest level";
const SETTLING =
  " marks a token that the previous iteration also predicted for the same position (one level up, one column right): " +
  "it is converging.";

function gridCell({text, settled}) {
  if (!settled) return make("td", token(text));
  return make("td.la-m-settled", token(text), sign("="), unseen(" unchanged"));
}

/** Which of `levels` levels one is, in a word; "" for those between. */
const ageOf = (level, levels) => (levels < 2 ? "" : level === 0 ? "oldest" : level === levels - 1 ? "newest" : "");

function gridTable({columns, levels, said}) {
  const lines = levels.map((level, l) => {
    const age = ageOf(l, levels.length);
    const name = make("th", {scope: "row"}, `level ${l + 1}`, ...(age ? [make("span.la-i-word", age)] : []));
    return make("tr", name, ...level.map(gridCell));
  });
  if (said) lines.push(make("tr.la-m-said", make("th", {scope: "row"}, "predicted now"), ...said.map(gridCell)));
  const heads = [unseen("level"), ...Array.from({length: columns}, (_, c) => `column ${c + 1}`)];
  return table("la-m-grid", "Window: levels down, columns across", heads, lines);
}

function answerWords({said, full}) {
  if (!said) return "The predictions at the newest level are not known, because no pass with a window follows.";
  if (!full) return `${ANSWER}; it becomes the next level.`;
  return `${ANSWER}. Each column, with its prediction, went into the pool as one n-gram.`;
}

function grid(window) {
  const {columns, levels, moved} = window;
  const scroll = {role: "region", tabindex: "0", "aria-label": "Window of guesses"};
  return make(
    "div.la-m-part.la-m-gridpart",
    heading(`The window: ${count(columns, "column")}, ${count(levels.length, "level")}`),
    small(MOVES[moved]),
    make("div.la-i-scroll", scroll, gridTable(window)),
    small("Level l, column c guesses the token l + c − 1 positions ahead. ", make("b", "="), SETTLING),
    small(answerWords(window)),
  );
}

function birthplace(birth, lane, go) {
  if (birth.kind === "unknown") return "not recorded";
  if (birth.kind === "prompt") return "from the prompt";
  const words = `pass ${birth.pass}, column ${birth.column}`;
  if (birth.step < 0) return words;
  const label = `Open ${words}, the origin of this n-gram`;
  const button = make("button.la-button.la-m-birth", {type: "button", "aria-label": label}, words);
  button.addEventListener("click", () => go(lane, birth.step));
  return button;
}

function gramLine(gram, i, lane, go) {
  const outcome = sign(gram.accepted ? "✓" : gram.outcome === "rejected" ? "✕" : "–");
  const tokens = gram.tokens.map(({text, fate}) => token(text, fate));
  return make(
    `tr.${gram.accepted ? "la-m-accepted" : ""}`,
    make("td", String(i + 1)),
    make("th", {scope: "row"}, token(gram.root, "root"), ...tokens),
    make("td", birthplace(gram.birth, lane, go)),
    make("td", outcome, gram.outcome),
  );
}

/** Where an n-gram that was accepted as a whole came from. */
function origin({birth: {kind, pass, column}, tokens}) {
  const gram = `This accepted ${tokens.length + 1}-gram`;
  return kind === "prompt" ? `${gram} came from the prompt.` : `${gram} was found at pass ${pass}, column ${column}.`;
}

function triedBox(grams, lane, go) {
  const box = make("div.la-m-part", heading("N-grams from the pool that were verified"));
  if (!grams.length) {
    box.append(
      small("None: no n-gram in the pool begins with the last token of the text, or verifying one did not pay."),
    );
    return box;
  }
  const heads = [unseen("number"), "n-gram", "born", "outcome"];
  const lines = grams.map((gram, i) => gramLine(gram, i, lane, go));
  box.append(table("la-m-tried", "N-grams verified in this pass", heads, lines));
  const wholes = grams.filter(({whole, birth}) => whole && birth.kind !== "unknown");
  box.append(...wholes.map(gram => make("p.la-m-origin", origin(gram))));
  return box;
}

/** The microscope of one pass; of a pass whose window rested, the n-grams alone. */
export function view(log, laneIndex, stepIndex, go, chosen) {
  const window = windowOf(log, laneIndex, stepIndex);
  const tried = triedBox(triedOf(log, laneIndex, stepIndex), laneIndex, go);
  const box = (label, ...parts) => make("section.la-microscope", {"aria-label": label}, ...parts);
  if (window) {
    const {node} = new Mask(maskOf(log, laneIndex, stepIndex), chosen);
    return box("Lookahead window", make("div.la-m-column", grid(window), tried), node);
  }
  const rests = small("The window is paused, because it lost time. Its n-grams in the pool are still verified.");
  return box("N-grams from the pool", make("div.la-m-column", tried, rests));
}
