/* present.js: the page for a projector, turned on with P or `?present`: large type, a clock and the teacher's plan,
   [{minute, title, recording, lesson}]. The arrow keys move in the plan; N goes to the next drafting pass. */

import {button, make, setText} from "./dom.js";

const HIDE_AFTER_MS = 3000; // the controls fade if the pointer does not move
const FIELDS = "input, textarea, select";
let plan = [];
let stage = null;
let bar = null;
let index = 0;
let startTime = 0;
let hideTimer = null;

const isOn = () => stage.root.classList.contains("la-projected");

function clock() {
  if (!isOn()) return;
  const seconds = Math.floor((performance.now() - startTime) / 1000);
  const [minutes, remainder] = [Math.floor(seconds / 60), String(seconds % 60).padStart(2, "0")];
  setText(bar.time, `${minutes}:${remainder}`);
  bar.time.classList.toggle("la-late", plan[index + 1] !== undefined && minutes >= plan[index + 1].minute);
  setTimeout(clock, 1000);
}

function showControls() {
  const {classList} = stage.root;
  classList.remove("la-still");
  clearTimeout(hideTimer);
  hideTimer = setTimeout(() => classList.toggle("la-still", isOn()), HIDE_AFTER_MS);
}

const frame = ({minute, title}, i) => button("la-p-frame", [make("span", String(minute)), ` ${title}`], () => go(i));

function build() {
  const time = make("span.la-p-time", {"aria-label": "minutes since the beginning"});
  const title = make("p.la-p-title", {"aria-live": "polite"});
  const frames = plan.map(frame);
  const leave = button("la-p-frame", "leave (P)", toggle);
  const node = make("nav.la-p-bar", {"aria-label": "The plan"}, time, ...frames, leave);
  return {node, time, title, frames};
}

async function go(number) {
  index = Math.max(0, Math.min(plan.length - 1, number));
  const entry = plan[index];
  if (!entry) return;
  const lessonLink = entry.lesson
    ? make("a", {href: `?lesson=${entry.lesson}`, target: "_blank", rel: "noopener"}, "open the lesson")
    : "";
  bar.title.replaceChildren(entry.title, " ", lessonLink);
  for (const [i, node] of bar.frames.entries()) node.setAttribute("aria-current", i === index ? "step" : "false");
  bar.frames[index].scrollIntoView({block: "nearest", inline: "center"});
  stage.root.classList.toggle("la-p-cleared", !entry.recording);
  if (entry.recording) await stage.record(entry.recording);
}

/** Turn the mode on or off. */
export function toggle() {
  const {classList} = stage.root;
  const on = classList.toggle("la-projected");
  classList.remove("la-p-cleared");
  document.body.classList.toggle("la-alone", on || classList.contains("la-embedded")); // hide everything around it
  if (!on) {
    bar?.node.remove();
    bar?.title.remove();
    return;
  }
  startTime = performance.now();
  bar = build();
  stage.root.prepend(bar.title);
  stage.root.append(bar.node);
  showControls();
  clock();
  go(0);
}

const ACTIONS = {
  ArrowRight: () => go(index + 1),
  ArrowLeft: () => go(index - 1),
  n: () => stage.nextDraft(),
  N: () => stage.nextDraft(),
};

function pressed(event) {
  if (event.ctrlKey || event.metaKey || event.altKey) return;
  if (event.target.matches?.(FIELDS) || event.target.isContentEditable) return;
  if (!stage?.root.getClientRects().length) return;
  const action = event.key === "p" || event.key === "P" ? toggle : isOn() && ACTIONS[event.key];
  if (!action) return;
  event.preventDefault();
  event.stopImmediatePropagation();
  action();
}

/** Called when the main timeline is ready. `?present` in the address turns the mode on. */
export function connect(mounted) {
  const isFirst = stage === null;
  stage = mounted;
  if (!isFirst) return;
  addEventListener("keydown", pressed, {capture: true});
  addEventListener("pointermove", () => isOn() && showControls(), {passive: true});
  if (new URLSearchParams(location.search).has("present")) toggle();
}

/** Set the teacher's plan. */
export const follow = entries => {
  plan = entries;
};
