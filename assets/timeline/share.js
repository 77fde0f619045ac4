/* share.js: a race as a picture (1200 x 630 pixels) and as a short film of its first drafting passes, both drawn in
   the browser with the page's light colors. */

import {ending, make, signs} from "../page/dom.js";
import {duration, isDone} from "./log.js";
import {frameAt} from "./player.js";
import {headline, outcome, promptOf} from "./sentences.js";
import {caption, isPartlyAccepted, partsOf} from "./strip.js";

const [WIDTH, HEIGHT, EDGE] = [1200, 630, 64];
const FONT = "system-ui, sans-serif";
const PASSES = 4;
const PASS_MS = 2000;
const PHASES = [
  ["draft", 0.25],
  ["verify", 0.55],
  ["accept", 1],
]; // each with the share of a pass at which it ends
const TINTS = {accepted: "accepted", rejected: "rejected", unvisited: "draft", ghost: "draft"};
const MARKS = {accepted: "✓", rejected: "✕", unvisited: "·"};

const color = name => getComputedStyle(document.documentElement).getPropertyValue(`--la-${name}`);

/** Write a text at (x, y), cut to `maxWidth` pixels. Returns the x coordinate of its end. */
function write(pen, string, x, y, {size = 26, weight = 400, fill = "ink", maxWidth = WIDTH - EDGE - x} = {}) {
  pen.font = `${weight} ${size}px ${FONT}`;
  pen.fillStyle = color(fill);
  let text = string;
  const letters = [...string];
  while (letters.pop() && pen.measureText(text).width > maxWidth) text = `${letters.join("").trimEnd()}…`;
  pen.fillText(text, x, y);
  return x + pen.measureText(text).width;
}

function box(pen, text, x, y, {tint, isDashed = false, isStruck = false}) {
  pen.font = `400 30px ${FONT}`;
  const width = pen.measureText(text).width + 20;
  pen.fillStyle = color(`${tint}-tint`);
  pen.fillRect(x, y, width, 44);
  pen.strokeStyle = color(tint);
  pen.lineWidth = isDashed ? 1.5 : 2.5;
  pen.setLineDash(isDashed ? [5, 4] : []);
  pen.strokeRect(x, y, width, 44);
  pen.setLineDash([]);
  write(pen, text, x + 10, y + 32, {size: 30, fill: tint === "accepted" ? "ink" : tint, maxWidth: width});
  if (isStruck) pen.fillRect(x + 8, y + 22, width - 16, 2);
  return width;
}

/** Draw one pass in one of its phases; `share` is the completed part of the phase. */
function scene(pen, step, context, phase, share, y) {
  const parts = partsOf(step);
  const {drafted, added} = parts;
  const [title, description] = caption(parts, phase);
  write(pen, title, EDGE, y, {weight: 700});
  write(pen, description, EDGE + 120, y, {fill: "ink-2"});
  let x = write(pen, context, EDGE, y + 66, {size: 30, fill: "ink-2", maxWidth: 380}) + 14;
  const left = x;
  const rejectedAt = drafted.findIndex(({kind}) => kind !== "accepted");
  drafted.forEach(({text, kind}, i) => {
    if (phase === "draft" && i >= share * drafted.length) return;
    const shown = phase === "accept" ? kind : "ghost";
    const isStruck = shown === "rejected" || shown === "unvisited";
    const width = box(pen, signs(text), x, y + 34, {tint: TINTS[shown], isDashed: shown === "ghost", isStruck});
    if (phase === "accept") {
      write(pen, MARKS[kind], x + width / 2 - 9, y + 112, {weight: 700, fill: TINTS[kind]});
      if (i === rejectedAt) box(pen, signs(added.join("")), x, y + 126, {tint: "own"});
    }
    x += width + 8;
  });
  if (phase === "accept" && rejectedAt < 0 && added.length) box(pen, signs(added.join("")), x, y + 34, {tint: "own"});
  if (phase !== "verify") return;
  pen.fillStyle = color("accent");
  pen.fillRect(left - 6, y + 32 + share * 48, x - left + 4, 4);
}

function createCanvas() {
  const canvas = make("canvas", {width: WIDTH, height: HEIGHT});
  return [canvas, canvas.getContext("2d")];
}

function drawBackground(pen) {
  pen.fillStyle = color("paper");
  pen.fillRect(0, 0, WIDTH, HEIGHT);
  pen.fillStyle = color("accent");
  pen.fillRect(0, 0, WIDTH, 8);
  const end = write(pen, "Lookahead", EDGE, 70, {size: 34, weight: 700});
  write(pen, "speculative decoding, seen and measured", end + 20, 70, {fill: "ink-2"});
}

/** The indices of the last lane's drafting passes that fit the picture. */
function examples(log) {
  const {steps} = log.lanes.at(-1);
  return [...steps.keys()].filter(i => steps[i].draft.tokens.length && partsOf(steps[i]).drafted.length < 7);
}

const contextOf = (log, index) => {
  const before = log.lanes
    .at(-1)
    .steps.slice(0, index)
    .flatMap(step => step.pieces);
  return `…${ending((promptOf(log) + before.join("")).replace(/\s+/g, " "), 24)}`;
};

function footer(pen, log) {
  const {machine, models} = log.header;
  const lanes = log.lanes.map(lane => lane.name).join(" and ");
  write(pen, `${lanes}, ${models.target}, ${machine.dtype}, ${machine.cpu}`, EDGE, 596, {size: 20, fill: "ink-2"});
}

/** Return the picture as a canvas: the outcome, and one pass as an example. */
export function card(log) {
  const [canvas, pen] = createCanvas();
  const frame = frameAt(log, duration(log));
  const {number, label} = headline(frame.speedup);
  drawBackground(pen);
  write(pen, `“${promptOf(log).replace(/\s+/g, " ")}”`, EDGE, 128, {fill: "ink-2"});
  const end = write(pen, number, EDGE, 258, {size: 128, weight: 700});
  write(pen, label, end + 24, 258, {size: 72});
  write(pen, outcome(log, frame), EDGE, 316, {size: 36, weight: 600});
  const indices = examples(log);
  const index = indices.find(i => isPartlyAccepted(log.lanes.at(-1).steps[i])) ?? indices[0];
  if (index !== undefined) scene(pen, log.lanes.at(-1).steps[index], contextOf(log, index), "accept", 1, 384);
  footer(pen, log);
  return canvas;
}

/** Draw the film's picture after `ms` milliseconds. */
function picture(pen, log, chosen, ms) {
  const index = chosen[Math.min(chosen.length - 1, Math.floor(ms / PASS_MS))];
  const share = (ms % PASS_MS) / PASS_MS;
  const at = PHASES.findIndex(([, end]) => share < end);
  const begin = at ? PHASES[at - 1][1] : 0;
  drawBackground(pen);
  scene(
    pen,
    log.lanes.at(-1).steps[index],
    contextOf(log, index),
    PHASES[at][0],
    (share - begin) / (PHASES[at][1] - begin),
    250,
  );
  footer(pen, log);
}

/** Record the film, in real time. Returns a promise of a WebM blob. */
export function clip(log) {
  const chosen = examples(log).slice(0, PASSES);
  const [canvas, pen] = createCanvas();
  const recorder = new MediaRecorder(canvas.captureStream(30), {mimeType: "video/webm"});
  const parts = [];
  recorder.addEventListener("dataavailable", event => parts.push(event.data));
  const done = new Promise(resolve => recorder.addEventListener("stop", resolve, {once: true}));
  const startTime = performance.now();
  const timer = setInterval(() => {
    const ms = performance.now() - startTime;
    if (ms < chosen.length * PASS_MS) picture(pen, log, chosen, ms);
    else {
      clearInterval(timer);
      recorder.stop();
    }
  }, 33);
  picture(pen, log, chosen, 0);
  recorder.start();
  return done.then(() => new Blob(parts, {type: "video/webm"}));
}

/** Whether a race can be shared: it is over and has drafts. */
export const canShare = log => isDone(log) && log.lanes.length > 1 && examples(log).length > 0;
