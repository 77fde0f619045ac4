/* passtable.js: the drawing of a pass, like the strip's: a column per row of the pass, with its input, the target's
   prediction, the drafted token, its outcome and the written token; and the cache as boxes. `data-part` names the part
   that a term in the prose outlines. */

import {make} from "../../page/dom.js";
import {MARKS, NAMES} from "../../timeline/boxes.js";

const line = (label, part, cells, className = "") =>
  make(`tr.${className}`, {"data-part": part}, make("th", {scope: "row"}, label), ...cells);

/** The columns at which tokens are written: {first, own}; `own` is that of the target's own token, -1 for none. */
function writtenColumns({accepted, written, outcomes}) {
  const isLost = written.length === outcomes.length && accepted === outcomes.length; // the bonus
  return {first: isLost ? 0 : accepted + 1 - written.length, own: isLost ? -1 : accepted};
}

function sumOf({accepted, written}) {
  const tokens = written.length;
  if (tokens !== accepted + 1) return `${tokens}, not a + 1`;
  return tokens < 3 ? `a + 1 = ${tokens}` : `a + 1 = ${accepted} + 1 = ${tokens} tokens`;
}

/** The lines of the outcome of a pass: marks, written tokens, and their number under a bracket. */
function outcomeLines(columns, outcome) {
  const {outcomes, accepted, written} = outcome;
  const isFull = accepted === outcomes.length;
  const {first, own} = writtenColumns(outcome);
  const marks = columns.map(i => {
    const kind = outcomes[i];
    if (!kind) return make("td", make("span.la-s-name", isFull && i === own ? "bonus" : ""));
    // As in the strip, a state has its name where it occurs first.
    const name = outcomes.indexOf(kind) === i ? [" ", make("span.la-f-name", NAMES[kind])] : [];
    return make("td", {"data-kind": kind}, make("span.la-s-mark", MARKS[kind], ...name));
  });
  const words = columns.map(i => {
    if (written[i - first] === undefined) return make("td");
    const part = i !== own ? "accepted" : isFull ? "bonus" : "correction";
    const kind = i === own ? "own" : "accepted";
    return make("td", {"data-kind": kind, "data-part": part}, make(`span.la-s-${kind}`, written[i - first]));
  });
  const bracket = make("td.la-f-bracket", {colspan: Math.max(1, written.length)}, sumOf(outcome));
  const before = first > 0 ? [make("td", {colspan: first})] : [];
  return [line("outcome", "", marks), line("written", "", words), make("tr.la-f-sum", make("td"), ...before, bracket)];
}

/** The table of a pass: `outcome` as `passOf` returns it; null while it is hidden. `width` is the number of columns. */
export function table({text, draft}, outcome, width) {
  const inputs = [text.at(-1), ...draft];
  const columns = [...Array(width).keys()];
  const cells = contentOf => columns.map(i => make("td", inputs[i] === undefined ? "" : contentOf(i)));
  const drafted = columns.map(i =>
    make("td", {"data-kind": outcome?.outcomes[i] ?? "ghost"}, make("span.la-s-box", draft[i] ?? "")),
  );
  const input = i => make(`span.la-f-input${i ? ".la-f-guess" : ""}`, inputs[i]);
  return make(
    "tbody",
    line("row", "rows", cells(String), "la-f-numbers"),
    line("input", "rows", cells(input)),
    line(
      "prediction",
      "predictions",
      cells(i => outcome?.predictions[i] ?? "?"),
    ),
    line("draft", "draft", drafted),
    ...(outcome ? outcomeLines(columns, outcome) : []),
  );
}

/** The boxes of the cache: before the pass without the last word, and after it with the kept and the dropped rows. */
export function cacheBoxes({text, draft}, outcome) {
  if (!outcome) {
    const words = text.slice(0, -1).map(word => make("span.la-f-kept", word));
    return words.length ? words : [make("span.la-g-small", "empty, because row 0 is not in it yet")];
  }
  const {accepted, kept} = outcome;
  return [...text, ...draft].map((word, i) => {
    if (i >= kept) return make("span.la-f-kept.la-f-swept", `✕ ${word}`);
    return i < text.length + accepted ? make("span.la-f-kept", word) : make("span.la-f-kept.la-f-wrong", `≠ ${word}`);
  });
}
