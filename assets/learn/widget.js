/* widget.js: small elements shared by a lesson's widgets. */

import {button as createButton, make} from "../page/dom.js";

/** A unique id. */
export const newId = () => `la-g-${Math.random().toString(36).slice(2)}`;

export const text = (className, ...children) => make(`p.${className}`, ...children);
export const part = (className, ...children) => make(`div.${className}`, ...children);
/** An element whose changes are announced by a screen reader. */
export const live = className => make(`div.${className}`, {"aria-live": "polite"});

export const button = (label, action, attributes) => createButton("la-g-button", label, action, attributes);

/** A button that opens a vote of the class on the question with the id `idOf()`, and the vote's place. Without a
    question, and without the page's `ask(id, place)`, there is none. */
export function classVote({vote}, {ask}, idOf = () => vote) {
  if (!vote || !ask) return [];
  const place = part("la-g-vote");
  return [
    part(
      "la-g-class",
      button("Ask the class", () => ask(idOf(), place)),
    ),
    place,
  ];
}
