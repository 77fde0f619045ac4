/* load.js: requests the scripts and styles of teaching.js when they are first needed, because they are as large
   as the scripts of a race. */

import {make} from "./dom.js";

const FIELDS = "input, textarea, select";
let loading = null;
let stage = null; // of the page's main timeline
let parts = null; // the tour and the teacher's plan, when they are connected

const failure = make("p.la-load-failure", {role: "alert"});

const added = (tag, attributes) =>
  new Promise((resolve, reject) => {
    const node = make(tag, attributes);
    node.addEventListener("load", resolve);
    node.addEventListener("error", reject);
    document.head.append(node);
  });

/** Show an error below the header. The promise stays pending; the next call of `teaching` tries again. */
function failed() {
  loading = null;
  failure.textContent = "The server does not answer. Reload the page.";
  document.querySelector(".la-header").after(failure);
  return new Promise(() => {});
}

/** Returns a promise of the modules of teaching.js. Addresses are relative to the page's base, which root.js sets. */
export function teaching() {
  loading ||= Promise.all([
    added("link", {rel: "stylesheet", href: "teaching.css"}),
    added("script", {src: "teaching.js"}),
  ]).then(() => {
    failure.remove();
    return window.lookaheadTeaching;
  }, failed);
  return loading;
}

/** Connect the tour and the plan; `pressed` is the one that the reader has started, if any. */
async function start(pressed) {
  const {tour, present} = await teaching();
  if (parts) return;
  parts = {tour, present};
  for (const [name, part] of Object.entries(parts)) part.connect(stage, name === pressed);
}

const isTyped = ({target, ctrlKey, metaKey, altKey}) =>
  ctrlKey || metaKey || altKey || target.isContentEditable || target.matches?.(FIELDS);

/** Called with the main timeline. The tour starts with its button or `?tour`, the plan with P or `?present`. */
export function connect(mounted) {
  const isFirst = !stage;
  stage = mounted;
  for (const part of Object.values(parts || {})) part.connect(stage, false);
  if (!isFirst) return;
  const query = new URLSearchParams(location.search);
  if (query.has("tour") || query.has("present")) start(null);
  document.addEventListener("click", ({target}) => !parts && target.closest("#la-tour-button") && start("tour"));
  addEventListener("keydown", event => {
    const isPlan = event.key.toLowerCase() === "p" && !isTyped(event);
    if (!parts && isPlan && stage.root.getClientRects().length) start("present");
  });
}
