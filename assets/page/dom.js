/* dom.js: functions that build and change nodes of the page. Text from prompts, models and recordings is untrusted:
   it becomes text nodes and never markup. */

const SVG = "http://www.w3.org/2000/svg";
export const HIDDEN = {"aria-hidden": "true"}; // from screen readers: the words next to it have the same meaning

function fill(node, attributes, children) {
  for (const [name, value] of Object.entries(attributes)) node.setAttribute(name, value);
  node.append(...children);
  return node;
}

/** Return an element: `make("p.la-note.la-wide", {lang: "en"}, "text", node)`. The attributes are optional. */
export function make(selector, ...parts) {
  const [tag, ...classes] = selector.split(".");
  const node = document.createElement(tag);
  node.className = classes.filter(Boolean).join(" ");
  const hasAttributes = typeof parts[0] === "object" && !(parts[0] instanceof Node);
  return fill(node, hasAttributes ? parts[0] : {}, hasAttributes ? parts.slice(1) : parts);
}

/** Return a button that calls `action`; `selector` and `attributes` as in `make`. */
export function button(selector, content, action, attributes = {}) {
  const node = make(`button.${selector}`, {type: "button", ...attributes}, ...[content].flat());
  node.addEventListener("click", action);
  return node;
}

export const svg = (tag, attributes, ...children) => fill(document.createElementNS(SVG, tag), attributes, children);

/** Set a text or an attribute only if it differs, so that a frame changes few nodes. */
export function setText(node, text) {
  if (node.textContent !== text) node.textContent = text;
}
export function setAttr(node, name, value) {
  if (node.getAttribute(name) !== value) node.setAttribute(name, value);
}

/** Return a text with signs for line breaks and tabs, because only emitted text may break lines. */
export const signs = text => text.replace(/\r?\n/g, "↵").replace(/\t/g, "→") || "·";

/** Return about `length` last characters of a text, without half an emoji (an emoji is two characters). */
export const ending = (text, length) => text.slice(-length).replace(/^[\uDC00-\uDFFF]/, "");
