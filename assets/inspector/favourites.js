/* favourites.js: what the target thought at each place of a pass: its most likely tokens, and what was left of them.

   What it does not know.  How a place came to be what it is: that is places.js's business. */

import {make} from "../page/dom.js";
import {probability} from "../page/numbers.js";
import {bar, heading, small, table, token, unseen} from "./parts.js";
import {quote} from "./text.js";

/** How an entry looks, and the word for it: [kind, word]. */
function fateOf(entry, origin, ownKind) {
  if (entry.emitted) return [origin === "accepted" ? "accepted" : ownKind, "emitted"];
  if (entry.rejected) return ["rejected", "rejected"];
  return entry.drafted ? ["ghost", "drafted"] : ["", ""];
}

function residualCell(left) {
  const {low, high} = left || {low: 0, high: 0};
  const words = low === high ? probability(left ? low : null) : `${probability(low)} to ${probability(high)}`;
  return make("td", bar(low, "left", high), words);
}

function line(entry, [kind, word], residual, i) {
  return make(
    `tr.${entry.emitted ? "la-i-chosen" : ""}`,
    make("th", {scope: "row"}, token(entry.text, kind)),
    make("td", bar(entry.p || 0, "p"), probability(entry.p)),
    ...(residual ? [residualCell(residual.rows[i])] : []),
    make("td.la-i-word", word),
  );
}

/** The places of a list by chance; of equally likely entries the emitted one comes first. */
const likeliestFirst = list =>
  [...list.keys()].sort(
    (a, b) => (list[b].p || 0) - (list[a].p || 0) || Number(list[b].emitted) - Number(list[a].emitted),
  );

function place(spot, ownKind) {
  const {residual, list} = spot;
  const number = spot.at + 1;
  const head = make("p.la-i-after", make("span.la-i-small", `${number}. after `), token(spot.after));
  const box = make(`div.la-i-place.${residual ? "la-i-wide" : ""}`, {"data-row": spot.node + 1}, head);
  const lines = likeliestFirst(list).map(i => line(list[i], fateOf(list[i], spot.origin, ownKind), residual, i));
  const heads = ["token", "p", ...(residual ? ["residual: max(0, p − q)"] : []), unseen("outcome")];
  if (lines.length)
    box.append(table("la-i-favourites", `The target’s likeliest tokens at position ${number}`, heads, lines));
  if (!list.some(entry => entry.favourite)) box.append(small("The likeliest tokens were not recorded."));
  if (spot.entropy) box.append(small(`entropy ${spot.entropy}`));
  if (residual) box.append(small(residual.known));
  if (residual?.share != null) {
    const words = ` was drawn with ${probability(residual.share)} of the residual.`;
    box.append(small(token(quote(spot.text), "said"), words));
  }
  return box;
}

/** The part of the inspector about all places of a pass. */
export function places(pass) {
  const ownKind = pass.kind === "plain" ? "plain" : "own";
  const boxes = pass.places.map(spot => place(spot, ownKind));
  return boxes.length ? [heading("The target’s probabilities"), make("div.la-i-places", ...boxes)] : [];
}
