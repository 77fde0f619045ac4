/* present.js: the page for a projector, turned on with P or `?present`: one frame of the teacher's plan at a time, in
   large type. The server returns a session of the plan as {name, title, frames: [{title, start, minutes, notes, hides,
   answer, stage}]}. `?present=2#7` opens frame 7 of session 2. */

import {button, make, setAttr, setText} from "./dom.js";
import {FramePanel, largePx} from "./frames.js";
import {clockText, connectWindows, isLate, Notes} from "./notes.js";

const HIDE_AFTER_MS = 3000; // the controls fade if the pointer does not move
const FIELDS = "input, textarea, select, [role='slider']";
const PRESSED_BY_SPACE = "button, summary, a";
const FIRST = "1";
let stage = null;
let session = null;
let bar = null;
let send = null; // to the window with the notes
let index = 0;
let isHidden = false; // results and the answer
let started = 0; // milliseconds
let hideTimer = null;
let leftAddress = ""; // the address before the mode

const isOn = () => stage?.root.classList.contains("la-projected");
const frameNow = () => session.frames[index];
const frameOfAddress = () => Number(location.hash.slice(1)) - 1 || 0;

/** Whether the frame has results or an answer to hide. */
const canHide = () => frameNow().stage.kind === "recording" || Boolean(frameNow().answer);

/** The state of the mode that both windows show: the frame, its time and its notes. */
const summary = () => ({
  canHide: canHide(),
  ...{title: frameNow().title, notes: frameNow().notes, answer: frameNow().answer, hidden: isHidden, started},
  ...{start: frameNow().start, minutes: frameNow().minutes, next: session.frames[index + 1]?.title ?? ""},
  place: `${index + 1} of ${session.frames.length}, ${session.title}`,
});

const sendFrame = () => send({frame: isOn() && session ? summary() : null});

function tick() {
  if (!isOn() || !session) return;
  setText(bar.time, clockText((Date.now() - started) / 1000));
  const late = isLate(summary());
  bar.time.classList.toggle("la-late", late);
  setAttr(bar.time, "title", `${late ? "Late. " : ""}Press to start the clock at this frame.`);
  setTimeout(tick, 1000);
}

/** Start the clock at the planned start of this frame. */
function startClock() {
  started = Date.now() - 60_000 * frameNow().start;
  setText(bar.time, clockText(60 * frameNow().start));
  bar.time.classList.remove("la-late");
  sendFrame();
}

function showControls() {
  const {classList} = stage.root;
  classList.remove("la-still");
  clearTimeout(hideTimer);
  hideTimer = setTimeout(() => classList.toggle("la-still", isOn()), HIDE_AFTER_MS);
}

function build() {
  const small = (label, name, action) => button("la-p-button", label, action, {"aria-label": name, title: name});
  const time = button("la-p-button.la-p-time", "0:00", startClock);
  const title = make("h2.la-p-title", {"aria-live": "polite"});
  const options = session.frames.map(({title: name, start}, i) =>
    make("option", {value: i}, `${clockText(60 * start)} ${i + 1}. ${name}`),
  );
  const frames = make("select.la-p-frames", {"aria-label": "Frame"}, ...options);
  frames.addEventListener("change", () => {
    frames.blur(); // the arrow keys belong to the plan again
    go(Number(frames.value));
  });
  const [previous, next] = [
    small("‹", "Previous frame", () => go(index - 1)),
    small("›", "Next frame", () => go(index + 1)),
  ];
  const reveal = button("la-p-button", "", toggleHidden);
  const notes = make("a.la-p-button", {href: "?present=notes", target: "lookahead-notes"}, "notes");
  const leave = button("la-p-button", "leave", turnOff, {title: "Escape"});
  const node = make("nav.la-p-bar", {"aria-label": "The plan"}, time, previous, frames, next, reveal, notes, leave);
  return {node, time, title, frames, reveal, panel: new FramePanel()};
}

/** Hide or show the results of a recording, or the answer of a question. */
function setHidden(hidden) {
  isHidden = hidden;
  const {answer} = frameNow();
  stage.root.classList.toggle("la-p-hidden", hidden);
  bar.panel.setAnswer(hidden ? "" : answer);
  setText(bar.reveal, hidden ? "reveal (R)" : "hide (R)");
}

function toggleHidden() {
  if (!canHide()) return;
  setHidden(!isHidden);
  const {kind, pass} = frameNow().stage;
  if (kind === "recording" && pass && frameNow().hides) stage.seekPass(pass, isHidden ? "verify" : "accept");
  sendFrame();
}

async function go(number) {
  if (!session) return;
  index = Math.max(0, Math.min(session.frames.length - 1, number));
  const {title, hides, stage: shown} = frameNow();
  history.replaceState(null, "", `?present=${session.name}#${index + 1}`);
  bar.reveal.hidden = !canHide();
  setHidden(hides);
  setText(bar.title, title);
  bar.frames.value = String(index);
  const isRecording = shown.kind === "recording";
  stage.root.classList.toggle("la-p-paneled", !isRecording);
  bar.panel.show(shown);
  sendFrame();
  if (isRecording) await stage.record(shown.recording, shown.pass, hides ? "verify" : "accept");
  else stage.clear();
}

/** Turn the mode on with a session of the plan. */
async function turnOn(name) {
  leftAddress = location.href;
  const first = frameOfAddress();
  stage.root.classList.add("la-projected");
  document.body.classList.add("la-alone"); // hide everything around it
  const text = await stage.session(name);
  if (!isOn()) return;
  if (!text) {
    turnOff();
    return;
  }
  session = JSON.parse(text);
  bar = build();
  resize();
  stage.root.prepend(bar.title, bar.panel.node);
  stage.root.append(bar.node);
  showControls();
  go(first);
  startClock();
  tick();
}

function turnOff() {
  const {root} = stage;
  root.classList.remove("la-projected", "la-p-paneled", "la-p-hidden");
  document.body.classList.toggle("la-alone", root.classList.contains("la-embedded"));
  for (const node of bar ? [bar.node, bar.title, bar.panel.node] : []) node.remove();
  session = bar = null;
  const address = new URL(leftAddress);
  address.searchParams.delete("present");
  address.hash = "";
  history.replaceState(null, "", address.href);
  sendFrame();
}

function resize() {
  if (!isOn()) return;
  stage.root.style.setProperty("--la-p", `${largePx()}px`);
  bar?.panel.resize();
}

const nextDraft = () => frameNow().stage.kind === "recording" && stage.nextDraft();
const ACTIONS = {
  ...{ArrowRight: () => go(index + 1), PageDown: () => go(index + 1)}, // a remote control sends Page Down
  ...{ArrowLeft: () => go(index - 1), PageUp: () => go(index - 1)},
  ...{Home: () => go(0), End: () => go(session.frames.length - 1)},
  ...{r: toggleHidden, n: nextDraft, Escape: turnOff},
  " ": () => frameNow().stage.kind === "recording" && stage.togglePlaying(),
};
const actionOf = key => (session ? ACTIONS[key.length === 1 ? key.toLowerCase() : key] : null);

function pressed(event) {
  const {key, target} = event;
  if (event.ctrlKey || event.metaKey || event.altKey || document.querySelector("dialog[open]")) return;
  const isMoving = key.startsWith("Page") || key === "Escape"; // keys without a meaning in most controls
  if (target.isContentEditable || (target.matches?.(FIELDS) && !(isOn() && isMoving))) return;
  if (key === " " && target.matches?.(PRESSED_BY_SPACE)) return;
  if (key === "Escape" && target.closest?.(".la-inspector")) return; // Escape closes the inspector
  if (!stage?.root.getClientRects().length) return;
  const switchMode = () => (isOn() ? turnOff() : turnOn(FIRST));
  const action = key === "p" || key === "P" ? switchMode : isOn() && actionOf(key);
  if (!action) return;
  event.preventDefault();
  event.stopImmediatePropagation();
  action();
}

/** Show the window with the notes. It shows no race, and its keys control the projector. */
function showNotes() {
  const press = key => send({key});
  const notes = new Notes(press);
  send = connectWindows(({frame}) => frame !== undefined && notes.show(frame));
  stage.clear();
  stage.root.classList.add("la-noted");
  stage.root.append(notes.node);
  document.body.classList.add("la-alone");
  const forward = event => {
    const key = event.key.length === 1 ? event.key.toLowerCase() : event.key;
    if (!ACTIONS[key] || key === "Escape" || event.ctrlKey || event.metaKey || event.altKey) return;
    if (key === " " && event.target.matches(PRESSED_BY_SPACE)) return;
    event.preventDefault();
    event.stopImmediatePropagation();
    press(key);
  };
  addEventListener("keydown", forward, {capture: true});
  send({isNew: true});
}

/** Called when the main timeline is ready. `?present` in the address turns the mode on, and P, which `isPressed` says
    has been pressed before. */
export function connect(mounted, isPressed) {
  const isFirst = stage === null;
  stage = mounted;
  if (!isFirst) return;
  const query = new URLSearchParams(location.search);
  const name = query.get("present") || FIRST;
  if (name === "notes") {
    showNotes();
    return;
  }
  send = connectWindows(({key, isNew}) => {
    if (isOn() && isNew) sendFrame();
    else if (isOn() && key) actionOf(key)?.();
  });
  addEventListener("keydown", pressed, {capture: true});
  addEventListener("pointermove", () => isOn() && showControls(), {passive: true});
  addEventListener("resize", resize);
  addEventListener("hashchange", () => isOn() && go(frameOfAddress()));
  if (isPressed || query.has("present")) turnOn(name);
}
