/* skeleton.js: the empty parts of the timeline: controls, legends, boxes. `skeleton(root)` fills the component's
   element and returns its parts by name. */

import {HIDDEN, make, svg} from "../page/dom.js";
import {CLASSES} from "./heat.js";

export const icon = path => svg("svg", {viewBox: "0 0 16 16", ...HIDDEN}, svg("path", {d: path}));
export const PLAY = "M4 2.5v11l9.5-5.5z";
export const PAUSE = "M3.5 2.5h3v11h-3zM9.5 2.5h3v11h-3z";
const BACK = "M3 3h1.6v10H3zM13 3v10L5.6 8z";
const NEXT = "M11.4 3H13v10h-1.6zM3 3v10l7.4-5z";

const plainButton = (label, attributes) => make("button.la-button", {type: "button", ...attributes}, label);
/** A button with a sign and an accessible label. */
const button = (className, label, sign) =>
  make(`button.la-button.${className}`, {type: "button", "aria-label": label, title: label}, sign);
/** A toggle button. */
const toggle = (label, pressed, attributes) => plainButton(label, {"aria-pressed": String(pressed), ...attributes});

const EXPORTS = [
  ["card", "share card", "A picture of this race, 1200 by 630 pixels"],
  ["clip", "clip", "A film of the race, as WebM"],
  ["json", "recording", "The whole race as JSON: open it here again, or read it with a program"],
  ["csv", "table", "One line per pass, as CSV"],
  ["replay", "replay.html", "One file that plays this race anywhere, without a server"],
  ["link", "copy link", "An address with this prompt, these lanes and these settings"],
  ["open", "open a recording", "Show a recording that was saved here or elsewhere"],
];
const KEYS = [
  ["Space", "play or pause"],
  ["← →", "previous pass, next pass of the selected lane; with Shift, of any lane"],
  ["Home, End", "the beginning, the end"],
  ["[ ]", "slower, faster"],
  ["Enter", "in a lane: inspect its tokens; ← → move between tokens, Enter opens the pass, Escape leaves"],
  ["0 to 9", "at the pace “one pass”: the number of accepted tokens that you predict; Escape skips the question"],
  ["P", "large type for a projector, with the teacher’s plan"],
  ["R, N", "in the plan: R reveals or hides results, N next pass with a draft; ← → frames, Escape leaves"],
  ["?", "this list"],
];

const POINTING =
  "Point at a token, or tap it, to see its drafter and the target’s probabilities. " +
  "Each clock counts only its lane’s own work; playback is slowed to reading speed.";
const SAMPLES = [
  ["ghost", "drafted"],
  ["accepted", "accepted"],
  ["accepted.la-forced", "forced by the schema"],
  ["rejected", "rejected"],
  ["unvisited", "not tested"],
  ["own", "target’s own"],
  ["plain", "no draft"],
];

function help() {
  const rows = KEYS.map(([key, action]) =>
    make("tr", make("th", {scope: "row"}, make("kbd", key)), make("td", action)),
  );
  const close = plainButton("close", {autofocus: ""});
  const table = make("table", make("tbody", ...rows));
  const box = make("dialog.la-help", {"aria-label": "Keys"}, make("h3", "Keys"), table, make("p", POINTING), close);
  close.addEventListener("click", () => box.close());
  box.addEventListener("click", event => {
    if (event.target === box) box.close();
  });
  return box;
}

function legend() {
  const samples = SAMPLES.map(([kind, label]) => make("li", make(`span.la-tok.la-${kind}`, label)));
  return make("ul.la-legend", {"aria-label": "Legend"}, ...samples);
}

/** The legends of the two heat views; the style sheet shows the active one. */
function heatLegends() {
  const sample = (data, label) => make("li", make("span.la-tok.la-sample", data, "abc"), " ", label);
  const failures = [
    sample({"data-fails": "true"}, "a draft was rejected here"),
    sample({"data-fails": "false"}, "a draft was accepted"),
    sample({}, "no draft"),
  ];
  const entropy = CLASSES.map((label, level) => sample({"data-bits": level}, label));
  return make(
    "div.la-classes",
    make("ul.la-legend.la-of-failures", {"aria-label": "Legend: failures"}, ...failures),
    make("ul.la-legend.la-of-entropy", {"aria-label": "Legend: entropy of the target"}, ...entropy),
  );
}

const group = (className, label, ...children) =>
  make(`div.${className}`, {role: "group", "aria-label": label}, ...children);

const scoreParts = () => ({
  announcer: make("div.la-unseen", {"aria-live": "polite", role: "status"}),
  statusText: make("span.la-statustext"),
  bar: make("span.la-bar", make("span")),
  number: make("span.la-number"),
  comparison: make("span.la-words"),
  match: make("p.la-match"),
  ratio: make("p.la-ratio"),
  note: make("p.la-sub"),
  scores: make("div.la-scores", {role: "table", "aria-label": "Lanes at the playhead"}),
  error: make("div.la-error", {hidden: ""}),
  strip: make("div.la-strip", HIDDEN),
  stripbox: make("div.la-stripbox"),
  lanes: make("div.la-lanes"),
});

const TIME = {type: "range", min: "0", max: "1", step: "any", value: "0", "aria-label": "Time on the lanes' clock"};
const transportParts = () => ({
  play: button("la-play", "Play", icon(PLAY)),
  back: button("", "Previous pass", icon(BACK)),
  next: button("", "Next pass", icon(NEXT)),
  scrub: make("input.la-scrub", TIME),
  time: make("span.la-time"),
  slower: button("", "Slower playback", "−"),
  faster: button("", "Faster playback", "+"),
  rate: make("span.la-rate"),
  teach: make("button.la-button.la-teach", {type: "button", "aria-pressed": "true"}, "teaching pace"),
  onePass: toggle("one pass", false, {title: "Every pass takes two seconds. You predict its outcome first."}),
  pace: make("span.la-pace"),
  ask: button("la-ask", "Keys and help", "?"),
  help: help(),
});

const viewParts = () => ({
  chartbox: make("div.la-chart"),
  sideBySide: toggle("side by side", false, {title: "Show each lane’s text"}),
  heat: ["drafts", "failures", "entropy"].map((view, i) => toggle(view, i === 0, {"data-view": view})),
  fade: toggle("fade", true),
  keep: toggle("keep", false),
  pass: make("p.la-passline"),
  open: make("button.la-button.la-open", {type: "button"}, "open the pass"),
  panel: make("div.la-panel"),
  cardbox: make("div.la-cardbox", {hidden: "", role: "status"}),
  verdict: make("summary"),
  sums: make("div.la-sums"),
  offer: make("p.la-next-races", {hidden: ""}),
});

function homeParts() {
  const accept = ".json,.jsonl,application/json";
  return {
    exports: Object.fromEntries(EXPORTS.map(([name, label, title]) => [name, plainButton(label, {title})])),
    file: make("input", {type: "file", accept, hidden: "", "aria-label": "A recording to open"}),
    exportStatus: make("span.la-export-status", {role: "status"}),
  };
}

const headBox = ui =>
  make(
    "div.la-head",
    make("p.la-big", ui.number, " ", ui.comparison),
    ...[ui.match, ui.ratio, make("div.la-status", ui.statusText, ui.bar), ui.note],
  );

function transportBox(ui) {
  const steps = make("div.la-buttons", ui.play, ui.back, make("span.la-word", HIDDEN, "pass"), ui.next);
  const speed = make("div.la-speed", ui.slower, ui.rate, ui.faster, ui.teach, ui.onePass, ui.pace, ui.ask);
  const hint = make("span.la-hint", "Click any word to see its pass.");
  ui.chartbox.append(ui.scrub);
  return group("la-transport", "Playback", make("div.la-controls", steps, ui.time, hint, speed), ui.chartbox);
}

const keyBox = ui =>
  make(
    "div.la-key",
    legend(),
    heatLegends(),
    group("la-choice", "View of the text", "show:", ...ui.heat, ui.sideBySide),
    group("la-choice.la-rejects", "Rejected tokens", "rejected:", ui.fade, ui.keep),
  );

export function skeleton(root) {
  const ui = {root, ...scoreParts(), ...transportParts(), ...viewParts(), ...homeParts()};
  const exportParts = [make("span.la-homeword", "export:"), ...Object.values(ui.exports), ui.file, ui.exportStatus];
  ui.home = group("la-home", "Export", ...exportParts);
  ui.details = make("details.la-verdict", {hidden: ""}, ui.verdict, ui.sums);
  ui.stripbox.append(ui.strip);
  root.replaceChildren(
    ...[ui.announcer, headBox(ui), ui.error, ui.stripbox, make("div.la-stage", ui.lanes, ui.scores)],
    ...[transportBox(ui), keyBox(ui)],
    make("div.la-foot", ui.pass, ui.open),
    ...[ui.panel, ui.details, ui.offer, ui.home, ui.cardbox, ui.help],
  );
  return ui;
}
