/* dom.js: making and changing nodes of the page.

   What it is.  `make(selector, attributes, ...children)` and `svg(tag, attributes, ...children)` build a node;
   `setText` and `setAttr` change one only where it differs, so that a frame touches little.

   Why it is so.  Text from prompts, models and recordings is untrusted: it becomes text nodes here and never markup.

   What it does not know.  What the page shows. */

const SVG = "http://www.w3.org/2000/svg";
export const HIDDEN = {"aria-hidden": "true"}; // from screen readers: the words next to it have the same meaning

function fill(node, attributes, children) {
  for (const [name, value] of Object.entries(attributes)) node.setAttribute(name, value);
  node.append(...children);
  return node;
}

/** An element: `make("p.la-note.la-wide", {lang: "en"}, "text", node)`. The attributes may be left out. */
export function make(selector, ...rest) {
  const [tag, ...classes] = selector.split(".");
  const node = document.createElement(tag);
  node.className = classes.filter(Boolean).join(" ");
  const hasAttributes = typeof rest[0] === "object" && !(rest[0] instanceof Node);
  return fill(node, hasAttributes ? rest[0] : {}, hasAttributes ? rest.slice(1) : rest);
}

export const svg = (tag, attributes, ...children) => fill(document.createElementNS(SVG, tag), attributes, children);

export function setText(node, text) {
  if (node.textContent !== text) node.textContent = text;
}
export function setAttr(node, name, value) {
  if (node.getAttribute(name) !== value) node.setAttribute(name, value);
}

/** Line breaks and tabs of a draft are shown as signs: only emitted text may break lines. */
export const signs = text => text.replace(/\r?\n/g, "↵").replace(/\t/g, "→") || "·";

/** The last letters of a text, about so many, none cut in half (an emoji is two characters). */
export const ending = (text, most) => text.slice(-most).replace(/^[\uDC00-\uDFFF]/, "");
