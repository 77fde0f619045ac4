/* microscope.js: the window of lookahead decoding on the page: its grid, the n-grams that were verified, and the
   mask. */

import {button, make} from "../page/dom.js";
import {count} from "../page/numbers.js";
import {maskOf, ngramsOf, windowOf} from "./jacobi.js";
import {Mask} from "./mask.js";
import {heading, sign, small, table, token, unseen} from "./parts.js";

const WINDOW_CHANGES = {
  opened: "The window starts with one level of tokens, chosen at random from the text.",
  restarted: "The window was paused and starts again with its oldest level.",
  grew: "The window is filling: the target’s predictions of the previous pass are its newest level.",
  moved: "Every level moved up by one: the oldest was dropped, the target’s predictions became the newest.",
};
const PREDICTED = "“Predicted now” is the target’s prediction at the newest level";
const CONVERGING =
  " marks a token that the previous iteration also predicted for the same position (one level up, one column right): " +
  "it is converging.";

function gridCell({text, repeats}) {
  if (!repeats) return make("td", token(text));
  return make("td.la-m-settled", token(text), sign("="), unseen(" unchanged"));
}

/** "oldest" or "newest" for the first or last of `levels` levels, else "". */
const ageOf = (level, levels) => (levels < 2 ? "" : level === 0 ? "oldest" : level === levels - 1 ? "newest" : "");

function gridTable({columns, levels, predictions}) {
  const lines = levels.map((level, l) => {
    const age = ageOf(l, levels.length);
    const name = make("th", {scope: "row"}, `level ${l + 1}`, ...(age ? [make("span.la-i-word", age)] : []));
    return make("tr", name, ...level.map(gridCell));
  });
  if (predictions)
    lines.push(make("tr.la-m-said", make("th", {scope: "row"}, "predicted now"), ...predictions.map(gridCell)));
  const heads = [unseen("level"), ...Array.from({length: columns}, (_, c) => `column ${c + 1}`)];
  return table("la-m-grid", "Window: levels down, columns across", heads, lines);
}

function predictionsNote({predictions, full}) {
  if (!predictions) return "The predictions at the newest level are not known, because no pass with a window follows.";
  if (!full) return `${PREDICTED}; it becomes the next level.`;
  return `${PREDICTED}. Each column, with its prediction, went into the pool as one n-gram.`;
}

function grid(window) {
  const {columns, levels, change} = window;
  const scroll = {role: "group", tabindex: "0", "aria-label": "Window of guesses"};
  return make(
    "div.la-m-part.la-m-gridpart",
    heading(`The window: ${count(columns, "column")}, ${count(levels.length, "level")}`),
    small(WINDOW_CHANGES[change]),
    make("div.la-i-scroll", scroll, gridTable(window)),
    small("Level l, column c guesses the token l + c − 1 positions ahead. ", make("b", "="), CONVERGING),
    small(predictionsNote(window)),
  );
}

function originCell(origin, lane, go) {
  if (origin.kind === "unknown") return "not recorded";
  if (origin.kind === "prompt") return "from the prompt";
  const text = `pass ${origin.pass}, column ${origin.column}`;
  if (origin.step < 0) return text;
  const label = `Open ${text}, the origin of this n-gram`;
  return button("la-button.la-m-origin-button", text, () => go(lane, origin.step), {"aria-label": label});
}

function ngramLine(ngram, i, lane, go) {
  const outcome = sign(ngram.accepted ? "✓" : ngram.outcome === "rejected" ? "✕" : "–");
  const tokens = ngram.tokens.map(({text, status}) => token(text, status));
  return make(
    `tr.${ngram.accepted ? "la-m-accepted" : ""}`,
    make("td", String(i + 1)),
    make("th", {scope: "row"}, token(ngram.root, "root"), ...tokens),
    make("td", originCell(ngram.origin, lane, go)),
    make("td", outcome, ngram.outcome),
  );
}

/** A sentence on the origin of an n-gram that was accepted completely. */
function originSentence({origin: {kind, pass, column}, tokens}) {
  const phrase = `This accepted ${tokens.length + 1}-gram`;
  return kind === "prompt"
    ? `${phrase} came from the prompt.`
    : `${phrase} was found at pass ${pass}, column ${column}.`;
}

function ngramsBox(ngrams, lane, go) {
  const box = make("div.la-m-part", heading("N-grams from the pool that were verified"));
  if (!ngrams.length) {
    box.append(
      small("None: no n-gram in the pool begins with the last token of the text, or verifying one did not pay."),
    );
    return box;
  }
  const heads = [unseen("number"), "n-gram", "origin", "outcome"];
  const lines = ngrams.map((ngram, i) => ngramLine(ngram, i, lane, go));
  box.append(table("la-m-tried", "N-grams verified in this pass", heads, lines));
  const accepted = ngrams.filter(({isAccepted, origin}) => isAccepted && origin.kind !== "unknown");
  box.append(...accepted.map(ngram => make("p.la-m-origin", originSentence(ngram))));
  return box;
}

/** The part of the inspector for a pass with a window or with n-grams from the pool. `go(lane, step)` opens the pass in
    which an n-gram was found; `chosen(row)` is called when the reader chooses a row of the mask. */
export function view(log, laneIndex, stepIndex, go, chosen) {
  const window = windowOf(log, laneIndex, stepIndex);
  const ngrams = ngramsBox(ngramsOf(log, laneIndex, stepIndex), laneIndex, go);
  const box = (label, ...parts) => make("section.la-microscope", {"aria-label": label}, ...parts);
  if (window) {
    const {node} = new Mask(maskOf(log, laneIndex, stepIndex), chosen);
    return box("Lookahead window", grid(window), ngrams, node);
  }
  const paused = small("The window is paused, because it lost time. N-grams from the pool are still verified.");
  return box("N-grams from the pool", ngrams, paused);
}
