/* widget.js: small elements shared by a lesson's widgets. */

import {button as createButton, make} from "../page/dom.js";

/** A unique id. */
export const newId = () => `la-g-${Math.random().toString(36).slice(2)}`;

export const text = (className, ...children) => make(`p.${className}`, ...children);
export const part = (className, ...children) => make(`div.${className}`, ...children);
/** An element whose changes are announced by a screen reader. */
export const live = className => make(`div.${className}`, {"aria-live": "polite"});

export const button = (label, action, attributes) => createButton("la-g-button", label, action, attributes);
