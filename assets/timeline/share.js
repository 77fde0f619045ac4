/* share.js: a race as a picture (1200 x 630 pixels) and as a film of eight seconds, both drawn in the browser with the
   page's light colors: the text with both rulers, the passes, and the address of the page. */

import {make} from "../page/dom.js";
import {duration, isDone, isOneText} from "./log.js";
import {frameAt, passParts} from "./player.js";
import {headlineAt, matchOf, passCount, promptOf} from "./sentences.js";

const [WIDTH, HEIGHT, EDGE] = [1200, 630, 64]; // pixels, as all lengths here
const FONT = "system-ui, sans-serif";
const TEXT = {size: 26, top: 300, line: 62, lines: 4};
const FILM_MS = 8000;
const RESULT_MS = 2000; // the result is shown at the end

const color = name => getComputedStyle(document.documentElement).getPropertyValue(`--la-${name}`);
const font = (size, weight = 400) => `${weight} ${size}px ${FONT}`;

/** Write a text at (x, y), cut to `maxWidth` pixels. Returns the x coordinate of its end. */
function write(pen, string, x, y, {size = 26, weight = 400, fill = "ink", maxWidth = WIDTH - EDGE - x} = {}) {
  pen.font = font(size, weight);
  pen.fillStyle = color(fill);
  let text = string;
  const letters = [...string];
  while (letters.pop() && pen.measureText(text).width > maxWidth) text = `${letters.join("").trimEnd()}…`;
  pen.fillText(text, x, y);
  return x + pen.measureText(text).width;
}

function rectangle(pen, fill, x, y, width, height) {
  pen.fillStyle = color(fill);
  pen.fillRect(x, y, width, height);
}

/** The tokens of the last lane with their places: [{text, kind, pass, x, line, width}]. */
function layOut(pen, log) {
  const lane = log.lanes.at(-1);
  let [x, line] = [EDGE, 0];
  const feed = () => {
    [x, line] = [EDGE, line + 1];
  };
  return lane.steps.flatMap((step, pass) =>
    passParts(step, false)
      .filter(({emitted}) => emitted >= 0)
      .map(({text, kind}) => {
        if (text.includes("\n")) feed();
        pen.font = font(TEXT.size, kind === "own" ? 600 : 400);
        let shown = text.replace(/\s+/g, " ");
        if (x + pen.measureText(shown).width > WIDTH - EDGE) feed();
        if (x === EDGE) shown = shown.trimStart();
        const token = {text: shown, kind, pass, x, line, width: pen.measureText(shown).width};
        x += token.width;
        return token;
      }),
  );
}

/** Draw the text of a frame with both rulers; if it is long, its last lines. */
function drawText(pen, log, frame, tokens) {
  const lane = frame.lanes.at(-1);
  const naive = isOneText(log) ? frame.lanes[0].tokens : 0;
  const shown = tokens.filter(({pass}, i) => pass < lane.settled || i < naive);
  const first = Math.max(0, (shown.at(-1)?.line ?? 0) + 1 - TEXT.lines);
  shown.forEach(({text, kind, pass, x, line, width}, i) => {
    const y = TEXT.top + (line - first) * TEXT.line;
    if (line < first) return;
    const isSettled = pass < lane.settled;
    const isOwn = isSettled && kind !== "accepted";
    if (isSettled) rectangle(pen, isOwn ? "own-tint" : "accepted-tint", x, y - 24, width, 32);
    write(pen, text, x, y, {
      size: TEXT.size,
      weight: kind === "own" ? 600 : 400,
      fill: isOwn ? "own" : "ink",
      maxWidth: WIDTH,
    });
    if (i < naive) {
      rectangle(pen, "draft", x, y - 34, width, 1);
      rectangle(pen, "draft", x, y - 34, 1, 8);
    }
    if (!isSettled) return;
    rectangle(pen, "accent", x, y + 14, width, 2);
    if (shown[i - 1]?.pass !== pass) rectangle(pen, "accent", x + 1, y + 8, 2, 8);
    if (shown[i + 1]?.pass !== pass) rectangle(pen, "accent", x + width - 3, y + 8, 2, 8);
  });
}

/** Draw the race at a time; the speedup only at the end. */
function draw(pen, log, t, tokens) {
  const frame = frameAt(log, t);
  const [passes, {number, label}] = [passCount(log, frame), headlineAt(log, frame)];
  rectangle(pen, "paper", 0, 0, WIDTH, HEIGHT);
  rectangle(pen, "accent", 0, 0, WIDTH, 8);
  const title = write(pen, "Lookahead", EDGE, 70, {size: 34, weight: 700});
  write(pen, "speculative decoding, seen and measured", title + 20, 70, {fill: "ink-2"});
  const end = write(pen, passes.number, EDGE, 178, {size: 96, weight: 700});
  write(pen, passes.words, end + 20, 178, {size: 48});
  const speedup = number ? `${number} ${label}, measured once. ` : `${label}. `;
  const result = frame.atEnd && label ? speedup : "";
  write(pen, result + matchOf(log, frame).text, EDGE, 226, {size: 28, fill: "ink-2"});
  const isShort = tokens.at(-1)?.line < TEXT.lines;
  if (isShort) write(pen, promptOf(log).replace(/\s+/g, " "), EDGE, TEXT.top - 44, {size: 20, fill: "ink-2"});
  drawText(pen, log, frame, tokens);
  const {machine, models} = log.header;
  const lanes = log.lanes.map(lane => lane.name).join(" and ");
  write(pen, `${lanes}, ${models.target}, ${machine.dtype}, ${machine.cpu}`, EDGE, 596, {
    size: 20,
    fill: "ink-2",
    maxWidth: 660,
  });
  if (location.host) write(pen, location.host + location.pathname, 760, 596, {size: 20}); // not a path of this machine
}

function createCanvas(log) {
  const canvas = make("canvas", {width: WIDTH, height: HEIGHT});
  const pen = canvas.getContext("2d");
  return [canvas, pen, layOut(pen, log)];
}

/** Return the picture as a canvas: the finished race. */
export function card(log) {
  const [canvas, pen, tokens] = createCanvas(log);
  draw(pen, log, duration(log), tokens);
  return canvas;
}

/** Record the film of the whole race, in real time. Returns a promise of a WebM blob. */
export function clip(log) {
  const [canvas, pen, tokens] = createCanvas(log);
  const recorder = new MediaRecorder(canvas.captureStream(30), {mimeType: "video/webm"});
  const parts = [];
  recorder.addEventListener("dataavailable", event => parts.push(event.data));
  const done = new Promise(resolve => recorder.addEventListener("stop", resolve, {once: true}));
  const startTime = performance.now();
  const timeAt = ms => duration(log) * Math.min(1, ms / (FILM_MS - RESULT_MS));
  const timer = setInterval(() => {
    const ms = performance.now() - startTime;
    if (ms < FILM_MS) draw(pen, log, timeAt(ms), tokens);
    else {
      clearInterval(timer);
      recorder.stop();
    }
  }, 33);
  draw(pen, log, 0, tokens);
  recorder.start();
  return done.then(() => new Blob(parts, {type: "video/webm"}));
}

/** Whether a race can be shared: it is over and has drafts. */
export const canShare = log => {
  const lane = log.lanes.at(-1);
  return isDone(log) && log.lanes.length > 1 && lane.steps.some(step => step.origins.includes("accepted"));
};
