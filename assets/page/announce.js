/* announce.js: announces results in the Lab and in lessons to screen readers. Gradio replaces the nodes of a result,
   and a live region must exist before its text changes. */

import {make, setText} from "./dom.js";

const RESULTS = ".la-answer, .la-worth, .la-finding";
const region = make("div.la-unseen", {role: "status", "aria-live": "polite"});

function announce(records) {
  const changed = records.flatMap(({target, addedNodes}) => [target, ...addedNodes]);
  const nodes = changed.map(node => node.parentElement?.closest(RESULTS) || node).filter(node => node.matches);
  const results = nodes.flatMap(node => (node.matches(RESULTS) ? [node] : [...node.querySelectorAll(RESULTS)]));
  const texts = results.filter(node => node.offsetParent).map(node => node.textContent);
  if (texts.length) setText(region, [...new Set(texts)].join(" "));
}

/** Called when the page is complete. */
export function connect() {
  document.body.append(region);
  new MutationObserver(announce).observe(document.getElementById("la-tabs"), {
    childList: true,
    characterData: true,
    subtree: true,
  });
}
