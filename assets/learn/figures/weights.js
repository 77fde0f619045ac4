/* weights.js: the time of a pass: reading the weights from memory and computing the rows overlap, so the longer one
   determines it. The numbers are those of the lesson (16 ms to read all weights, 0.08 ms per row). */

import {make, setText, svg} from "../../page/dom.js";
import {count, digits, percent} from "../../page/numbers.js";
import {part} from "../widget.js";
import {range} from "./handles.js";

const [READ_MS, ROW_MS] = [16, 0.08];
const ROWS = [1, 2, 5, 10, 20, 50, 100, 150, 200, 250, 300, 400];
const LONGEST_MS = ROWS.at(-1) * ROW_MS;

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

function bar(label) {
  const fill = make("span.la-f-time");
  const value = make("span.la-f-said");
  const node = part("la-f-timeline", make("span.la-f-label", label), part("la-f-rail", fill), value);
  return {
    node,
    show(ms, longest) {
      fill.style.width = percent(ms / LONGEST_MS);
      fill.classList.toggle("la-f-longer", longest);
      setText(value, `${digits(ms)} ms`);
    },
  };
}

export function figure() {
  const [reading, computing] = ["reading the weights", "computing the rows"].map(bar);
  const sentence = make("p.la-f-advice", {"aria-live": "polite"});

  function draw(rows) {
    const ms = rows * ROW_MS;
    reading.show(READ_MS, ms <= READ_MS);
    computing.show(ms, ms > READ_MS);
    const bound =
      ms > READ_MS ? "compute-bound: another row has its full cost" : "memory-bound: further rows are nearly free";
    const [passTime, rowTime] = [passMs(rows), passMs(rows) / rows].map(digits);
    setText(sentence, `${count(rows, "row")}: a pass of ${passTime} ms, ${rowTime} ms per row. It is ${bound}.`);
  }

  const limits = {min: 0, max: ROWS.length - 1, step: 1, value: 0, describe: i => count(ROWS[i], "row")};
  const slider = range("rows per pass", limits, i => draw(ROWS[i]));
  draw(ROWS[0]);
  return [pipe(), slider, reading.node, computing.node, sentence];
}
