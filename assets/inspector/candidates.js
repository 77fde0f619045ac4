/* candidates.js: shows the target's candidates at each position of a pass: its most likely tokens, and their residual
   after a rejection. */

import {make} from "../page/dom.js";
import {probability} from "../page/numbers.js";
import {bar, heading, small, table, token, unseen} from "./parts.js";
import {quote} from "./text.js";

/** The style of an entry, and its label: [kind, label]. */
function styleOf(entry, origin, targetKind) {
  if (entry.emitted) return [origin === "accepted" ? "accepted" : targetKind, "emitted"];
  if (entry.rejected) return ["rejected", "rejected"];
  return entry.drafted ? ["ghost", "drafted"] : ["", ""];
}

function residualCell(bounds) {
  const {low, high} = bounds || {low: 0, high: 0};
  const label = low === high ? probability(bounds ? low : null) : `${probability(low)} to ${probability(high)}`;
  return make("td", bar(low, "left", high), label);
}

function line(entry, [kind, label], residual, i) {
  return make(
    `tr.${entry.emitted ? "la-i-chosen" : ""}`,
    make("th", {scope: "row"}, token(entry.text, kind)),
    make("td", bar(entry.p || 0, "p"), probability(entry.p)),
    ...(residual ? [residualCell(residual.rows[i])] : []),
    make("td.la-i-word", label),
  );
}

/** The indices of tokens by descending probability; of equally likely tokens, the emitted one is first. */
const likeliestFirst = tokens =>
  [...tokens.keys()].sort(
    (a, b) => (tokens[b].p || 0) - (tokens[a].p || 0) || Number(tokens[b].emitted) - Number(tokens[a].emitted),
  );

function positionBox(position, targetKind) {
  const {residual, tokens} = position;
  const number = position.index + 1;
  const head = make("p.la-i-after", make("span.la-i-small", `${number}. after `), token(position.after));
  const box = make(`div.la-i-place.${residual ? "la-i-wide" : ""}`, {"data-row": position.parentRow + 1}, head);
  const lines = likeliestFirst(tokens).map(i =>
    line(tokens[i], styleOf(tokens[i], position.origin, targetKind), residual, i),
  );
  const heads = ["token", "p", ...(residual ? ["residual: max(0, p − q)"] : []), unseen("outcome")];
  if (lines.length)
    box.append(table("la-i-candidates", `The target’s likeliest tokens at position ${number}`, heads, lines));
  if (!tokens.some(entry => entry.candidate)) box.append(small("The likeliest tokens were not recorded."));
  if (position.entropy) box.append(small(`entropy ${position.entropy}`));
  if (residual) box.append(small(residual.explanation));
  if (residual?.share != null) {
    const sentence = ` was drawn with ${probability(residual.share)} of the residual.`;
    box.append(small(token(quote(position.text), "quoted"), sentence));
  }
  return box;
}

/** The part of the inspector for all positions of a pass. */
export function positions(pass) {
  const targetKind = pass.kind === "plain" ? "plain" : "own";
  const boxes = pass.positions.map(position => positionBox(position, targetKind));
  return boxes.length ? [heading("The target’s probabilities"), make("div.la-i-places", ...boxes)] : [];
}
