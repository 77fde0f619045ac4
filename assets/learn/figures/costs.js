/* costs.js: acceptance, draft length, draft cost and row cost as numbers to scrub in a sentence, over one live
   curve.

    Why it is so.  The formulas are the lesson's own: 1 + α + ... + α^k tokens per pass, v + k c passes, with v = 1 +
   k row.

    What it does not know.  This machine: its costs are in the figure above it. */

import {make, setText, svg} from "../../page/dom.js";
import {digits, hundredths} from "../../page/numbers.js";
import {scrub} from "./handles.js";

const [WIDTH, HEIGHT, LEFT, BOTTOM] = [560, 220, 36, 28];
const MOST = 16;

/** Tokens and cost of a pass that drafts k tokens. */
export function passOf({alpha, c, row}, k) {
  const tokens = Array.from({length: k + 1}, (_, i) => alpha ** i).reduce((sum, x) => sum + x, 0);
  const cost = 1 + k * (row + c);
  return {tokens, cost, speedup: tokens / cost};
}

/** The curve over all draft lengths, its dot and its ring; `draw(at)` brings it to those costs. */
function chart() {
  const curve = svg("polyline", {class: "la-f-curve"});
  const one = svg("line", {class: "la-f-one", x1: LEFT, x2: WIDTH});
  const chosen = svg("circle", {class: "la-f-dot", r: 6});
  const best = svg("circle", {class: "la-f-best", r: 9});
  const ticks = svg("g", {});
  const words = {role: "img", viewBox: `0 0 ${WIDTH} ${HEIGHT}`, "aria-label": "Speedup by draft length"};
  const node = svg("svg", words, ticks, one, curve, best, chosen);

  function draw(at, all, most) {
    const top = Math.max(1.5, Math.ceil(2 * all[most]) / 2);
    const x = k => LEFT + ((WIDTH - LEFT - 12) * k) / MOST;
    const y = s => HEIGHT - BOTTOM - ((HEIGHT - BOTTOM - 12) * s) / top;
    const put = (part, attributes) => {
      for (const [name, value] of Object.entries(attributes)) part.setAttribute(name, value);
    };
    put(curve, {points: all.map((speedup, k) => `${x(k)},${y(speedup)}`).join(" ")});
    put(one, {y1: y(1), y2: y(1)});
    put(chosen, {cx: x(at.k), cy: y(all[at.k])});
    put(best, {cx: x(most), cy: y(all[most])});
    const label = (text, place) => svg("text", place, text);
    const lengths = [0, 4, 8, 12, 16].map(k =>
      label(`k = ${k}`, {x: x(k), y: HEIGHT - 8, "text-anchor": k ? (k < MOST ? "middle" : "end") : "start"}),
    );
    const speeds = [1, top].map(s => label(`${s}x`, {x: LEFT - 6, y: y(s) + 5, "text-anchor": "end"}));
    ticks.replaceChildren(...lengths, ...speeds);
  }

  return {node, draw};
}

/** The sentence with its numbers; `set(name)` gives what a scrubbed one calls. Returns {node, show}. */
function sentence(at, set) {
  const [tokens, cost, speedup] = ["b", "b", "b"].map(tag => make(tag));
  const share = {min: 0, max: 1, step: 0.01};
  const number = (label, name, limits, words) => scrub(label, {...limits, value: at[name]}, words, set(name));
  const node = make(
    "p.la-f-sentence",
    ...["With acceptance α = ", number("acceptance α", "alpha", {...share, max: 0.99}, hundredths)],
    ...[", a drafted token that costs c = ", number("draft cost c", "c", share, hundredths)],
    ...[" of a pass, and a further row ", number("row cost", "row", share, hundredths)],
    ...[" of one, k = ", number("draft length k", "k", {min: 0, max: MOST, step: 1}, String)],
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
  const at = {alpha: 0.8, c: 0.1, row: 0.03, k: 4};
  const advice = make("p.la-f-advice");
  const curve = chart();
  const set = name => value => {
    at[name] = value;
    draw();
  };
  const said = sentence(at, set);

  function draw() {
    const all = Array.from({length: MOST + 1}, (_, k) => passOf(at, k).speedup);
    const most = all.indexOf(Math.max(...all));
    curve.draw(at, all, most);
    said.show(passOf(at, at.k));
    setText(advice, most ? `Best: k = ${most}, ${digits(all[most])}x.` : "No length pays here: do not draft.");
  }

  draw();
  return [said.node, curve.node, advice];
}
