/* card.js: the small card of one token, shown next to the pointer. */

import {make} from "../page/dom.js";
import {probability} from "../page/numbers.js";
import {isSampled} from "../timeline/log.js";
import {STATUSES} from "./draft.js";
import {bar, quoted, sign, small, table, token, unseen} from "./parts.js";
import {tokenOf} from "./pass.js";
import {shown} from "./text.js";

const SIGNS = {correction: "→", bonus: "+", ghost: "…"}; // of outcomes that no drafted row has

/** The style of a token in the text. */
function kindOf(status, isNaive) {
  if (status !== "correction" && status !== "bonus") return status;
  return isNaive ? "plain" : "own";
}

/** The known numbers of a token: [[name, text]]. */
function factsOf({source, confidence, isResidual, rule, p, q, threshold, limit, draw, change}) {
  const facts = [
    ["drafted by", source],
    ["its confidence", confidence],
    ["naive writes", change && `${shown(change.piece)}, p ${probability(change.p)}`],
    [isResidual && isSampled(rule) ? "p in the residual" : "target’s p", p],
    ["drafter’s q", q],
    [limit === null ? "p/q" : "limit", q === null ? null : threshold],
    ["draw", draw],
  ];
  const known = facts.filter(([, value]) => value !== null);
  return known.map(([name, value]) => [name, typeof value === "number" ? probability(value) : value]);
}

function candidates(tokens) {
  const lines = tokens.map(({text, p, emitted}) =>
    make(
      `tr.${emitted ? "la-i-chosen" : ""}`,
      make("th", {scope: "row"}, token(text), ...(emitted ? [unseen(" (emitted)")] : [])),
      make("td", bar(p, "p"), probability(p)),
    ),
  );
  return table("la-i-candidates", "The target’s likeliest tokens here", ["likeliest tokens", "p"], lines);
}

/** Return the card of a part of the text, as an element that is not on the page yet. */
export function card(log, laneIndex, stepIndex, part) {
  const node = make("div.la-card.la-i");
  const details = tokenOf(log, laneIndex, stepIndex, part);
  if (!details) return node;
  const kind = kindOf(details.status, log.lanes[laneIndex].naive);
  const text = details.text === null ? [] : [token(details.text, kind)];
  const mark = STATUSES[details.status]?.sign || SIGNS[details.status];
  const title = make("span.la-i-small", `${details.title}, `, make("bdi", details.method));
  node.append(
    make("p.la-i-cardhead", ...text, title),
    make("p.la-i-outcome", ...(mark ? [sign(mark)] : []), ...quoted(details.outcome)),
  );
  const facts = factsOf(details).map(([name, value]) => make("div", make("dt", name), make("dd", make("bdi", value))));
  if (facts.length) node.append(make("dl.la-i-facts", ...facts));
  const tokens = details.tokens.filter(entry => entry.candidate);
  if (tokens.length) node.append(candidates(tokens));
  if (details.entropy) node.append(small(`entropy ${details.entropy}`));
  return node;
}
