/* card.js: the small card of one token, next to the pointer.

   What it does not know.  Its position, and the history of a token, which pass.js provides. */

import {make} from "../page/dom.js";
import {probability} from "../page/numbers.js";
import {FATES} from "./draft.js";
import {bar, quoted, sign, small, table, token, unseen} from "./parts.js";
import {tokenOf} from "./pass.js";

const SIGNS = {correction: "→", bonus: "+", ghost: "…"}; // of those that are no fate of a drafted row

/** How a token looks in the text. */
function kindOf(fate, isNaive) {
  if (fate !== "correction" && fate !== "bonus") return fate;
  return isNaive ? "plain" : "own";
}

/** The numbers of a token, those that are known: [[name, text]]. */
function factsOf({source, confidence, later, rule, p, q, until, draw}) {
  const facts = [
    ["drafted by", source],
    ["its confidence", confidence],
    [later && rule === "rejection" ? "p in the residual" : "target’s p", p],
    ["drafter’s q", q],
    ["p/q", q === null ? null : until],
    ["draw", draw],
  ];
  const known = facts.filter(([, value]) => value !== null);
  return known.map(([name, value]) => [name, typeof value === "number" ? probability(value) : value]);
}

function favourites(list) {
  const lines = list.map(({text, p, emitted}) =>
    make(
      `tr.${emitted ? "la-i-chosen" : ""}`,
      make("th", {scope: "row"}, token(text), ...(emitted ? [unseen(" (emitted)")] : [])),
      make("td", bar(p, "p"), probability(p)),
    ),
  );
  return table("la-i-favourites", "The target’s likeliest tokens here", ["likeliest tokens", "p"], lines);
}

/** The card of a part of the text: an element that is nowhere yet. */
export function card(log, laneIndex, stepIndex, part) {
  const node = make("div.la-card.la-i");
  const one = tokenOf(log, laneIndex, stepIndex, part);
  if (!one) return node;
  const kind = kindOf(one.fate, log.lanes[laneIndex].naive);
  const text = one.text === null ? [] : [token(one.text, kind)];
  const mark = FATES[one.fate]?.sign || SIGNS[one.fate];
  const title = make("span.la-i-small", `${one.title}, `, make("bdi", one.method));
  node.append(
    make("p.la-i-cardhead", ...text, title),
    make("p.la-i-outcome", ...(mark ? [sign(mark)] : []), ...quoted(one.outcome)),
  );
  const facts = factsOf(one).map(([name, value]) => make("div", make("dt", name), make("dd", make("bdi", value))));
  if (facts.length) node.append(make("dl.la-i-facts", ...facts));
  const list = one.list.filter(entry => entry.favourite);
  if (list.length) node.append(favourites(list));
  if (one.entropy) node.append(small(`entropy ${one.entropy}`));
  return node;
}
