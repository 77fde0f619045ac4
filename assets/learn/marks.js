/* marks.js: a listing whose wrong lines the reader selects before the marks are shown. */

import {make, setAttr, setText} from "../page/dom.js";
import {button, live, part} from "./widget.js";

/** Sentences on the selected lines: how many of the marked ones are among them, and which are not marked. */
function verdictOf(selected, marked) {
  const [right, wrong] = [true, false].map(isMarked => selected.filter(line => marked.includes(line) === isMarked));
  const others = wrong.length ? ` Not marked, but selected: ${wrong.join(", ")}.` : "";
  const key = selected.length ? " A dashed outline shows your selection." : "";
  return `You selected ${right.length} of the ${marked.length} marked lines.${others}${key}`;
}

/** The lines as toggle buttons, with one tab stop: the arrow keys move between them. */
function lineButtons(lines, first) {
  const nodes = lines.map((line, i) => {
    const name = line.trim() ? {} : {"aria-label": "an empty line"};
    const state = {type: "button", "aria-pressed": "false", tabindex: i ? "-1" : "0"};
    return make("button.la-g-codeline", {...state, ...name, "data-line": first + i}, line);
  });
  const toggle = node => setAttr(node, "aria-pressed", String(node.getAttribute("aria-pressed") !== "true"));
  for (const [i, node] of nodes.entries()) {
    node.addEventListener("click", () => toggle(node));
    node.addEventListener("keydown", event => {
      const to = nodes[i + {ArrowDown: 1, ArrowUp: -1}[event.key]];
      if (!to) return;
      event.preventDefault();
      node.tabIndex = -1;
      to.tabIndex = 0;
      to.focus();
    });
  }
  return nodes;
}

/** The question, the lines and a button that shows the marks: `reveal(selected)` returns the nodes of the listing. */
export function question({marked, first, text: source}, reveal) {
  const nodes = lineButtons(source.split("\n"), first);
  const outcome = live("la-g-outcome");
  const box = part("la-g-stack");
  const show = button("show the marks", () => {
    const isSelected = node => node.getAttribute("aria-pressed") === "true";
    const selected = nodes.filter(isSelected).map(node => Number(node.dataset.line));
    setText(outcome, verdictOf(selected, marked));
    box.replaceChildren(...reveal(selected), outcome);
    outcome.tabIndex = -1;
    outcome.focus();
  });
  const label = "Select the lines that you think are wrong.";
  const listing = make("div.la-g-listing", {role: "group", "aria-label": label}, part("la-g-lines", ...nodes));
  box.append(make("p", make("b", label)), listing, part("la-g-buttons", show));
  return box;
}
