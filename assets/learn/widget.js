/* widget.js: the small parts that a lesson's guess, quiz, costs and listing share.

   What it does not know.  Lessons. Their texts are untrusted: they enter through text nodes. */

import {make} from "../page/dom.js";

/** An id, where one node describes another: this script may run once for each widget of a page. */
export const newId = () => `la-g-${Math.random().toString(36).slice(2)}`;

export const text = (className, ...words) => make(`p.${className}`, ...words);
export const part = (className, ...children) => make(`div.${className}`, ...children);
/** A place where words appear that a screen reader should say. */
export const live = className => make(`div.${className}`, {"aria-live": "polite"});

export function button(label, act, attributes) {
  const node = make("button.la-g-button", {type: "button", ...attributes}, label);
  node.addEventListener("click", act);
  return node;
}
