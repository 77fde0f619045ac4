/* share.js: a race as a picture and as a short film, drawn in the browser.

    What it is.  `card(log)` is a canvas of 1200 x 630 pixels: what came out, and one pass as an example. `clip(log)`
   is a WebM of the first drafting passes, two seconds each, as the strip shows them.

    Why it is so.  Nothing is sent anywhere: both are files of the reader's. The picture says what the page says, in
   the same words, and on which machine it was.

    What it does not know.  Playback. It draws in the light colours, whatever the page has. */

import {ending, make, signs} from "../page/dom.js";
import {duration, isDone} from "./log.js";
import {frameAt} from "./player.js";
import {caption, fitsPartly, partsOf} from "./strip.js";
import {headline, outcome, promptOf} from "./words.js";

const [WIDTH, HEIGHT, EDGE] = [1200, 630, 64];
const FONT = "system-ui, sans-serif";
const PASSES = 4;
const PASS_MS = 2000;
const PHASES = [
  ["draft", 0.25],
  ["check", 0.55],
  ["kept", 1],
]; // and the share of a pass at which each ends
const TINTS = {accepted: "accepted", rejected: "rejected", unvisited: "draft", ghost: "draft"};
const MARKS = {accepted: "✓", rejected: "✕", unvisited: "·"};

const colour = name => getComputedStyle(document.documentElement).getPropertyValue(`--la-${name}`);

/** Text at a place, cut to `most` pixels; where it ends. */
function write(pen, words, x, y, {size = 26, weight = 400, fill = "ink", most = WIDTH - EDGE - x} = {}) {
  pen.font = `${weight} ${size}px ${FONT}`;
  pen.fillStyle = colour(fill);
  let text = words;
  const letters = [...words];
  while (letters.pop() && pen.measureText(text).width > most) text = `${letters.join("").trimEnd()}…`;
  pen.fillText(text, x, y);
  return x + pen.measureText(text).width;
}

function box(pen, words, x, y, {tint, isDashed = false, isStruck = false}) {
  pen.font = `400 30px ${FONT}`;
  const width = pen.measureText(words).width + 20;
  pen.fillStyle = colour(`${tint}-tint`);
  pen.fillRect(x, y, width, 44);
  pen.strokeStyle = colour(tint);
  pen.lineWidth = isDashed ? 1.5 : 2.5;
  pen.setLineDash(isDashed ? [5, 4] : []);
  pen.strokeRect(x, y, width, 44);
  pen.setLineDash([]);
  write(pen, words, x + 10, y + 32, {size: 30, fill: tint === "accepted" ? "ink" : tint, most: width});
  if (isStruck) pen.fillRect(x + 8, y + 22, width - 16, 2);
  return width;
}

/** One pass in one of its phases; `share` of that phase is over. */
function scene(pen, step, past, phase, share, y) {
  const parts = partsOf(step);
  const {guesses, own} = parts;
  const [title, words] = caption(parts, phase);
  write(pen, title, EDGE, y, {weight: 700});
  write(pen, words, EDGE + 120, y, {fill: "ink-2"});
  let x = write(pen, past, EDGE, y + 66, {size: 30, fill: "ink-2", most: 380}) + 14;
  const left = x;
  const fit = guesses.findIndex(({kind}) => kind !== "accepted");
  guesses.forEach(({text, kind}, i) => {
    if (phase === "draft" && i >= share * guesses.length) return;
    const shown = phase === "kept" ? kind : "ghost";
    const isStruck = shown === "rejected" || shown === "unvisited";
    const width = box(pen, signs(text), x, y + 34, {tint: TINTS[shown], isDashed: shown === "ghost", isStruck});
    if (phase === "kept") {
      write(pen, MARKS[kind], x + width / 2 - 9, y + 112, {weight: 700, fill: TINTS[kind]});
      if (i === fit) box(pen, signs(own.join("")), x, y + 126, {tint: "own"});
    }
    x += width + 8;
  });
  if (phase === "kept" && fit < 0 && own.length) box(pen, signs(own.join("")), x, y + 34, {tint: "own"});
  if (phase !== "check") return;
  pen.fillStyle = colour("accent");
  pen.fillRect(left - 6, y + 32 + share * 48, x - left + 4, 4);
}

function blank() {
  const canvas = make("canvas", {width: WIDTH, height: HEIGHT});
  return [canvas, canvas.getContext("2d")];
}

function paper(pen) {
  pen.fillStyle = colour("paper");
  pen.fillRect(0, 0, WIDTH, HEIGHT);
  pen.fillStyle = colour("accent");
  pen.fillRect(0, 0, WIDTH, 8);
  const end = write(pen, "Lookahead", EDGE, 70, {size: 34, weight: 700});
  write(pen, "speculative decoding, seen and measured", end + 20, 70, {fill: "ink-2"});
}

/** Drafting passes of the last lane that there is room for, by their places. */
function examples(log) {
  const {steps} = log.lanes.at(-1);
  return [...steps.keys()].filter(i => steps[i].draft.tokens.length && partsOf(steps[i]).guesses.length < 7);
}

const pastOf = (log, index) => {
  const before = log.lanes
    .at(-1)
    .steps.slice(0, index)
    .flatMap(step => step.pieces);
  return `…${ending((promptOf(log) + before.join("")).replace(/\s+/g, " "), 24)}`;
};

function footer(pen, log) {
  const {machine, models} = log.header;
  const lanes = log.lanes.map(lane => lane.name).join(" beside ");
  write(pen, `${lanes}, ${models.target}, ${machine.dtype}, ${machine.cpu}`, EDGE, 596, {size: 20, fill: "ink-2"});
}

export function card(log) {
  const [canvas, pen] = blank();
  const frame = frameAt(log, duration(log));
  const {number, words} = headline(frame.speedup);
  paper(pen);
  write(pen, `“${promptOf(log).replace(/\s+/g, " ")}”`, EDGE, 128, {fill: "ink-2"});
  const end = write(pen, number, EDGE, 258, {size: 128, weight: 700});
  write(pen, words, end + 24, 258, {size: 72});
  write(pen, outcome(log, frame), EDGE, 316, {size: 36, weight: 600});
  const all = examples(log);
  const index = all.find(i => fitsPartly(log.lanes.at(-1).steps[i])) ?? all[0];
  if (index !== undefined) scene(pen, log.lanes.at(-1).steps[index], pastOf(log, index), "kept", 1, 384);
  footer(pen, log);
  return canvas;
}

/** The picture `ms` milliseconds after the film's beginning. */
function picture(pen, log, chosen, ms) {
  const index = chosen[Math.min(chosen.length - 1, Math.floor(ms / PASS_MS))];
  const share = (ms % PASS_MS) / PASS_MS;
  const at = PHASES.findIndex(([, end]) => share < end);
  const begin = at ? PHASES[at - 1][1] : 0;
  paper(pen);
  scene(
    pen,
    log.lanes.at(-1).steps[index],
    pastOf(log, index),
    PHASES[at][0],
    (share - begin) / (PHASES[at][1] - begin),
    250,
  );
  footer(pen, log);
}

/** The film; it takes as long to make as it lasts. */
export function clip(log) {
  const chosen = examples(log).slice(0, PASSES);
  const [canvas, pen] = blank();
  const recorder = new MediaRecorder(canvas.captureStream(30), {mimeType: "video/webm"});
  const parts = [];
  recorder.addEventListener("dataavailable", event => parts.push(event.data));
  const done = new Promise(resolve => recorder.addEventListener("stop", resolve, {once: true}));
  const begun = performance.now();
  const timer = setInterval(() => {
    const ms = performance.now() - begun;
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

/** Whether there is something to show: a race that is over, with drafts that can be seen. */
export const canShare = log => isDone(log) && log.lanes.length > 1 && examples(log).length > 0;
