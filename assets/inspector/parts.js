/* parts.js: what the inspector, the card and the microscope are made of: tokens, signs, bars, tables.

   Why it is so.  Every state has a sign and a word in addition to its colour. Model text is untrusted: it is a text
   node, and isolated in a bdi, so that its direction is its own.

   What it does not know.  Passes. */

import {HIDDEN, make} from "../page/dom.js";
import {percent} from "../page/numbers.js";

/** A token as text, its spaces kept; `kind` is its outcome. */
export const token = (text, kind) => make(`bdi.la-i-token.${kind ? `la-i-${kind}` : ""}`, text);
export const sign = character => make("span.la-i-sign", HIDDEN, character);
export const unseen = text => make("span.la-i-unseen", text);
export const heading = text => make("h4.la-i-heading", text);
export const small = (...words) => make("p.la-i-small", ...words);
/** A sentence around a quotation of model text. */
export const quoted = ({words, said, tail}) =>
  said === null ? [words + tail] : [words, "“", token(said, "said"), "”", tail];

export const withinOne = share => Math.max(0, Math.min(1, share));

/** A drawn element whose meaning is in the words next to it; `style` may set its width or position. */
export function drawn(className, style, ...children) {
  const node = make(`span.${className}`, HIDDEN, ...children);
  Object.assign(node.style, style);
  return node;
}

/** A bar from 0 to 1; `dashed` extends it to the value that it might reach. */
export function bar(share, kind, dashed = 0) {
  const box = drawn("la-i-bar", {}, drawn(`la-i-fill.la-i-${kind}`, {width: percent(withinOne(share))}));
  if (dashed > share) box.append(drawn("la-i-maybe", {width: percent(withinOne(dashed - share))}));
  return box;
}

const ROLES = {
  "thead, tbody": "rowgroup",
  tr: "row",
  td: "cell",
  "th[scope=col]": "columnheader",
  "th[scope=row]": "rowheader",
};

/** A table; `heads` are texts or nodes, `rows` are its tr elements. */
export function table(className, label, heads, rows) {
  const head = make("tr", ...heads.map(text => make("th", {scope: "col"}, text)));
  const attributes = {role: "table", "aria-label": label};
  const node = make(`table.${className}`, attributes, make("thead", head), make("tbody", ...rows));
  // The style sheet lays tables out anew on a phone; said outright, their roles survive that.
  for (const [selector, role] of Object.entries(ROLES)) {
    for (const part of node.querySelectorAll(selector)) part.setAttribute("role", role);
  }
  return node;
}
