/* parts.js: elements shared by the inspector, the card and the microscope: tokens, signs, bars, tables. Model text is
   untrusted: it becomes a text node in a `bdi`, which isolates its direction. */

import {HIDDEN, make} from "../page/dom.js";
import {percent} from "../page/numbers.js";

/** A token as text, with its spaces; `kind` is its outcome. */
export const token = (text, kind) => make(`bdi.la-i-token.${kind ? `la-i-${kind}` : ""}`, text);
export const sign = character => make("span.la-i-sign", HIDDEN, character);
export const unseen = text => make("span.la-unseen", text);
export const heading = text => make("h3.la-i-heading", text);
export const small = (...children) => make("p.la-i-small", ...children);
/** A sentence around a quotation of model text. */
export const quoted = ({lead, quotation, tail}) =>
  quotation === null ? [lead + tail] : [lead, "“", token(quotation, "quoted"), "”", tail];

export const clampShare = share => Math.max(0, Math.min(1, share));

/** A graphic, hidden from screen readers because the text next to it has its meaning; `style` may set its width or
    position. */
export function drawn(className, style, ...children) {
  const node = make(`span.${className}`, HIDDEN, ...children);
  Object.assign(node.style, style);
  return node;
}

/** A bar from 0 to 1; `dashed` extends it to an upper bound. */
export function bar(share, kind, dashed = 0) {
  const box = drawn("la-i-bar", {}, drawn(`la-i-fill.la-i-${kind}`, {width: percent(clampShare(share))}));
  if (dashed > share) box.append(drawn("la-i-maybe", {width: percent(clampShare(dashed - share))}));
  return box;
}

/** A bar from 0 to 1 with the draws that accept, up to `threshold`, and the draw as a dot. */
export function draws(threshold, draw) {
  const accepting = drawn("la-draws-accepting", {width: percent(threshold)});
  return drawn("la-draws", {}, accepting, drawn("la-draws-dot", {left: percent(clampShare(draw))}));
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
  // On a phone the style sheet changes the display of tables; explicit roles are not affected.
  for (const [selector, role] of Object.entries(ROLES)) {
    for (const part of node.querySelectorAll(selector)) part.setAttribute("role", role);
  }
  return node;
}
