/* present.js: the page for a projector: two lanes in large type, the strip and the number; and the teacher's plan.

    What it is.  P, or an address with `?present`, turns it on and off. Right and left walk the plan, which `follow`
   is given as [{minute, title, recording, lesson}]; N goes to the next drafting pass. A clock counts from the first
   moment on.

    Why it is so.  A class reads from eight metres away: whatever is not text, guess or number is gone until the
   pointer moves.

    What it does not know.  Gradio; what a lesson says. */

import {make, setText} from "./dom.js";

const QUIET_MS = 3000; // without a moving pointer the controls fade
const NARROW = "input, textarea, select";
let plan = [];
let stage = null;
let bar = null;
let at = 0;
let begun = 0;
let quiet = null;

const isOn = () => stage.root.classList.contains("la-projected");

function clock() {
  if (!isOn()) return;
  const seconds = Math.floor((performance.now() - begun) / 1000);
  const [minutes, rest] = [Math.floor(seconds / 60), String(seconds % 60).padStart(2, "0")];
  setText(bar.time, `${minutes}:${rest}`);
  bar.time.classList.toggle("la-late", plan[at + 1] !== undefined && minutes >= plan[at + 1].minute);
  setTimeout(clock, 1000);
}

function stir() {
  const {classList} = stage.root;
  classList.remove("la-still");
  clearTimeout(quiet);
  quiet = setTimeout(() => classList.toggle("la-still", isOn()), QUIET_MS);
}

function frame(entry, i) {
  const node = make("button.la-p-frame", {type: "button"}, make("span", String(entry.minute)), ` ${entry.title}`);
  node.addEventListener("click", () => go(i));
  return node;
}

function build() {
  const time = make("span.la-p-time", {"aria-label": "minutes since the beginning"});
  const title = make("p.la-p-title", {"aria-live": "polite"});
  const frames = plan.map(frame);
  const leave = make("button.la-p-frame", {type: "button"}, "leave (P)");
  leave.addEventListener("click", toggle);
  const node = make("nav.la-p-bar", {"aria-label": "The plan"}, time, ...frames, leave);
  return {node, time, title, frames};
}

async function go(number) {
  at = Math.max(0, Math.min(plan.length - 1, number));
  const entry = plan[at];
  if (!entry) return;
  const more = entry.lesson
    ? make("a", {href: `?lesson=${entry.lesson}`, target: "_blank", rel: "noopener"}, "open the lesson")
    : "";
  bar.title.replaceChildren(entry.title, " ", more);
  for (const [i, node] of bar.frames.entries()) node.setAttribute("aria-current", i === at ? "step" : "false");
  bar.frames[at].scrollIntoView({block: "nearest", inline: "center"});
  if (entry.recording) await stage.record(entry.recording);
}

export function toggle() {
  const {classList} = stage.root;
  const on = classList.toggle("la-projected");
  document.body.classList.toggle("la-alone", on || classList.contains("la-embedded")); // hide everything around it
  if (!on) {
    bar?.node.remove();
    bar?.title.remove();
    return;
  }
  begun = performance.now();
  bar = build();
  stage.root.prepend(bar.title);
  stage.root.append(bar.node);
  stir();
  clock();
  go(0);
}

const ACTS = {
  ArrowRight: () => go(at + 1),
  ArrowLeft: () => go(at - 1),
  n: () => stage.nextDraft(),
  N: () => stage.nextDraft(),
};

function pressed(event) {
  if (
    event.ctrlKey ||
    event.metaKey ||
    event.altKey ||
    event.target.matches?.(NARROW) ||
    event.target.isContentEditable
  )
    return;
  if (!stage?.root.getClientRects().length) return;
  const act = event.key === "p" || event.key === "P" ? toggle : isOn() && ACTS[event.key];
  if (!act) return;
  event.preventDefault();
  event.stopImmediatePropagation();
  act();
}

/** Called when the main timeline is ready; `?present` turns the mode on. */
export function connect(mounted) {
  const isFirst = stage === null;
  stage = mounted;
  if (!isFirst) return;
  addEventListener("keydown", pressed, {capture: true});
  addEventListener("pointermove", () => isOn() && stir(), {passive: true});
  if (new URLSearchParams(location.search).has("present")) toggle();
}

export const follow = entries => {
  plan = entries;
};
