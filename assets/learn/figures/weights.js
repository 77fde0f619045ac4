/* weights.js: the time of a pass: reading the weights from memory and computing the rows overlap, so the longer one
   determines it. Each row is a block, and the blocks fill the wait for the weights. The numbers are those of the lesson
   (16 ms to read all weights, 0.08 ms per row). */

import {make, setText, svg} from "../../page/dom.js";
import {count, digits, percent} from "../../page/numbers.js";
import {part} from "../widget.js";
import {range} from "./handles.js";

const [READ_MS, ROW_MS] = [16, 0.08];
const ROWS = [1, 2, 5, 10, 20, 50, 100, 150, 200, 250, 300, 400];
const LONGEST_MS = ROWS.at(-1) * ROW_MS;
const STACKED = 5; // blocks per column, so that a block is large enough to be seen
const COLUMNS = ROWS.at(-1) / STACKED;
const BLOCK = 0.8; // of its place in the grid

export const passMs = rows => Math.max(READ_MS, rows * ROW_MS);

function pipe() {
  const flow = svg("line", {class: "la-f-flow", x1: 120, y1: 40, x2: 400, y2: 40});
  const wall = svg("path", {class: "la-f-wall", d: "M120 22h280M120 58h280"});
  const box = (x, label) => [
    svg("rect", {class: "la-f-box", x, y: 10, width: 118, height: 60, rx: 4}),
    svg("text", {x: x + 59, y: 45, "text-anchor": "middle"}, label),
  ];
  const attributes = {
    role: "img",
    viewBox: "0 0 520 80",
    "aria-label": "All weights stream from memory to the processor",
  };
  return svg("svg", attributes, wall, flow, ...box(1, "memory"), ...box(401, "processor"));
}

/** A line of the time axis, from 0 to the longest pass: a label, what `content` draws, and the milliseconds. */
function line(label, content) {
  const value = make("span.la-f-said");
  const node = part("la-f-timeline", make("span.la-f-label", label), part("la-f-rail", ...content), value);
  return {node, show: ms => setText(value, `${digits(ms)} ms`)};
}

/** The blocks of the rows: a path in a grid whose x axis is the time. */
function blocks() {
  const path = svg("path", {class: "la-f-rows"});
  const attributes = {viewBox: `0 0 ${COLUMNS} ${STACKED}`, preserveAspectRatio: "none", "aria-hidden": "true"};
  const at = i => `M${Math.floor(i / STACKED)} ${STACKED - BLOCK - (i % STACKED)}h${BLOCK}v${BLOCK}h-${BLOCK}z`;
  const show = rows => path.setAttribute("d", Array.from({length: rows}, (_, i) => at(i)).join(""));
  return {node: svg("svg", attributes, path), show};
}

export function figure() {
  const [stream, wait] = [make("span.la-f-time"), make("span.la-f-wait")];
  stream.style.width = wait.style.width = percent(READ_MS / LONGEST_MS);
  const rowBlocks = blocks();
  const reading = line("one stream of the weights", [stream]);
  const computing = line("the rows, a block each", [wait, rowBlocks.node]);
  computing.node.classList.add("la-f-computing");
  const sentence = make("p.la-f-advice", {"aria-live": "polite"});

  function draw(rows) {
    const ms = rows * ROW_MS;
    reading.show(READ_MS);
    computing.show(ms);
    rowBlocks.show(rows);
    const bound =
      ms > READ_MS
        ? "It is compute-bound: another row has its full cost."
        : ms < READ_MS
          ? `The processor still waits ${digits(READ_MS - ms)} ms. It is memory-bound: further rows are nearly free.`
          : "The rows fill the wait exactly.";
    const [passTime, rowTime] = [passMs(rows), passMs(rows) / rows].map(digits);
    setText(sentence, `${count(rows, "row")}: a pass of ${passTime} ms, ${rowTime} ms per row. ${bound}`);
  }

  const limits = {min: 0, max: ROWS.length - 1, step: 1, value: 0, describe: i => count(ROWS[i], "row")};
  const slider = range("rows per pass", limits, i => draw(ROWS[i]));
  const key = make("p.la-g-small", "Both lines start together. The dashed box is the wait for the weights.");
  draw(ROWS[0]);
  return [pipe(), slider, reading.node, computing.node, key, sentence];
}
