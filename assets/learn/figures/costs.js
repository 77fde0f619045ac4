/* costs.js: acceptance, draft length, draft cost and row cost as draggable numbers in a sentence, above a live
   speedup curve. The formulas are the lesson's: 1 + α + ... + α^k tokens per pass, and v + k * c passes with
   v = 1 + k * row. */

import {make, setText, svg} from "../../page/dom.js";
import {digits, hundredths} from "../../page/numbers.js";
import {scrub} from "./handles.js";

const [WIDTH, HEIGHT, LEFT, BOTTOM] = [560, 220, 36, 28];
const MAX_K = 16;

/** Tokens and cost of a pass that drafts k tokens. */
export function passOf({alpha, c, row}, k) {
  const tokens = Array.from({length: k + 1}, (_, i) => alpha ** i).reduce((sum, x) => sum + x, 0);
  const cost = 1 + k * (row + c);
  return {tokens, cost, speedup: tokens / cost};
}

/** The speedup by draft length, with a dot at the chosen length and a ring at the best; `draw` updates it. */
function chart() {
  const curve = svg("polyline", {class: "la-f-curve"});
  const level = svg("line", {class: "la-f-one", x1: LEFT, x2: WIDTH});
  const chosen = svg("circle", {class: "la-f-dot", r: 6});
  const best = svg("circle", {class: "la-f-best", r: 9});
  const ticks = svg("g", {});
  const attributes = {role: "img", viewBox: `0 0 ${WIDTH} ${HEIGHT}`, "aria-label": "Speedup by draft length"};
  const node = svg("svg", attributes, ticks, level, curve, best, chosen);

  function draw(values, speedups, bestK) {
    const top = Math.max(1.5, Math.ceil(2 * speedups[bestK]) / 2);
    const x = k => LEFT + ((WIDTH - LEFT - 12) * k) / MAX_K;
    const y = s => HEIGHT - BOTTOM - ((HEIGHT - BOTTOM - 12) * s) / top;
    const put = (node, changes) => {
      for (const [name, value] of Object.entries(changes)) node.setAttribute(name, value);
    };
    put(curve, {points: speedups.map((speedup, k) => `${x(k)},${y(speedup)}`).join(" ")});
    put(level, {y1: y(1), y2: y(1)});
    put(chosen, {cx: x(values.k), cy: y(speedups[values.k])});
    put(best, {cx: x(bestK), cy: y(speedups[bestK])});
    const label = (text, position) => svg("text", position, text);
    const lengths = [0, 4, 8, 12, 16].map(k =>
      label(`k = ${k}`, {x: x(k), y: HEIGHT - 8, "text-anchor": k ? (k < MAX_K ? "middle" : "end") : "start"}),
    );
    const speeds = [1, top].map(s => label(`${s}x`, {x: LEFT - 6, y: y(s) + 5, "text-anchor": "end"}));
    ticks.replaceChildren(...lengths, ...speeds);
  }

  return {node, draw};
}

/** The sentence with its numbers; `set(name)` returns the callback of a draggable number. Returns {node, show}. */
function sentence(values, set) {
  const [tokens, cost, speedup] = ["b", "b", "b"].map(tag => make(tag));
  const share = {min: 0, max: 1, step: 0.01};
  const number = (label, name, limits, format) => scrub(label, {...limits, value: values[name]}, format, set(name));
  const node = make(
    "p.la-f-sentence",
    ...["With acceptance α = ", number("acceptance α", "alpha", {...share, max: 0.99}, hundredths)],
    ...[", a drafted token that costs c = ", number("draft cost c", "c", share, hundredths)],
    ...[" of a pass, and a further row ", number("row cost", "row", share, hundredths)],
    ...[" of one, k = ", number("draft length k", "k", {min: 0, max: MAX_K, step: 1}, String)],
    ...[" drafted tokens give ", tokens, " tokens for ", cost, " passes: ", speedup, "."],
  );
  const show = pass => {
    setText(tokens, digits(pass.tokens));
    setText(cost, digits(pass.cost));
    setText(speedup, `${digits(pass.speedup)}x`);
  };
  return {node, show};
}

export function figure() {
  const values = {alpha: 0.8, c: 0.1, row: 0.03, k: 4};
  const advice = make("p.la-f-advice");
  const curve = chart();
  const set = name => value => {
    values[name] = value;
    draw();
  };
  const text = sentence(values, set);

  function draw() {
    const speedups = Array.from({length: MAX_K + 1}, (_, k) => passOf(values, k).speedup);
    const best = speedups.indexOf(Math.max(...speedups));
    curve.draw(values, speedups, best);
    text.show(passOf(values, values.k));
    setText(advice, best ? `Best: k = ${best}, ${digits(speedups[best])}x.` : "No length pays here: do not draft.");
  }

  draw();
  return [text.node, curve.node, advice];
}
