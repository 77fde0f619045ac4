/* costs.js: acceptance, draft length, draft cost and row cost as draggable numbers in a sentence, above a live
   speedup curve. The formulas are the lesson's: 1 + α + ... + α^k tokens per pass, and v + k * c passes with
   v = 1 + k * row. The displayed race of the Race tab is a square. */

import {make, setText, svg} from "../../page/dom.js";
import {digits, hundredths, percent} from "../../page/numbers.js";
import {button, part} from "../widget.js";
import {scrub} from "./handles.js";

const [WIDTH, HEIGHT, LEFT, RIGHT, TOP, BOTTOM] = [560, 292, 68, 16, 12, 60]; // of the chart and its margins
const MAX_K = 16;

/** Tokens and cost of a pass that drafts k tokens. */
export function passOf({alpha, c, row}, k) {
  const tokens = Array.from({length: k + 1}, (_, i) => alpha ** i).reduce((sum, x) => sum + x, 0);
  const cost = 1 + k * (row + c);
  return {tokens, cost, speedup: tokens / cost};
}

/** The values for the curve that are nearest to those of a measured race. */
export function valuesOf({alpha, k, c, cost}) {
  const share = x => Math.min(1, Math.max(0, Math.round(100 * x) / 100));
  const whole = Math.min(MAX_K, Math.max(1, Math.round(k)));
  return {alpha: Math.min(0.99, share(alpha)), c: share(c), row: share((cost - 1) / k - c), k: whole};
}

const put = (node, changes) => {
  for (const [name, value] of Object.entries(changes)) node.setAttribute(name, value);
};
const label = (text, position) => svg("text", position, text);

/** The axes with their ticks and titles; `x` and `y` convert a draft length and a speedup to pixels. */
function axes(x, y, top) {
  const lengths = [0, 4, 8, 12, 16].map(k => label(String(k), {x: x(k), y: y(0) + 24, "text-anchor": "middle"}));
  const speeds = Array.from({length: Math.floor(top) + 1}, (_, s) => s);
  const levels = speeds.map(s =>
    svg("line", {class: s === 1 ? "la-f-one" : "la-f-level", x1: x(0), x2: x(MAX_K), y1: y(s), y2: y(s)}),
  );
  const marks = speeds.map(s => label(`${s}x`, {x: LEFT - 8, y: y(s) + 5, "text-anchor": "end"}));
  const across = label("draft length k, in tokens per pass", {
    x: (LEFT + WIDTH) / 2,
    y: HEIGHT - 8,
    "text-anchor": "middle",
  });
  const middle = (y(0) + TOP) / 2;
  const up = label("speedup over naive", {
    x: 18,
    y: middle,
    transform: `rotate(-90 18 ${middle})`,
    "text-anchor": "middle",
  });
  const lines = svg("path", {class: "la-f-axis", d: `M${LEFT} ${TOP}V${y(0)}H${WIDTH - RIGHT}`});
  return [...levels, lines, ...lengths, ...marks, across, up];
}

/** The speedup by draft length, with a dot at the chosen length, a ring at the best, and a square at the measured
    race; `draw` updates it. */
function chart(race) {
  const curve = svg("polyline", {class: "la-f-curve"});
  const chosen = svg("circle", {class: "la-f-dot", r: 6});
  const best = svg("circle", {class: "la-f-best", r: 9});
  const own = svg("rect", {class: "la-f-own", width: 12, height: 12});
  const name = label(race?.live ? "your race" : "recording", {class: "la-f-ownname"});
  const ticks = svg("g", {});
  const attributes = {
    class: "la-f-chart",
    role: "img",
    viewBox: `0 0 ${WIDTH} ${HEIGHT}`,
    "aria-label": "Speedup by draft length",
  };
  const node = svg("svg", attributes, ticks, curve, best, chosen, ...(race ? [own, name] : []));

  function draw(values, speedups, bestK) {
    const top = Math.max(1.5, Math.ceil(2 * Math.max(speedups[bestK], race?.speedup || 0)) / 2);
    const x = k => LEFT + ((WIDTH - LEFT - RIGHT) * Math.min(k, MAX_K)) / MAX_K;
    const y = s => HEIGHT - BOTTOM - ((HEIGHT - BOTTOM - TOP) * s) / top;
    put(curve, {points: speedups.map((speedup, k) => `${x(k)},${y(speedup)}`).join(" ")});
    put(chosen, {cx: x(values.k), cy: y(speedups[values.k])});
    put(best, {cx: x(bestK), cy: y(speedups[bestK])});
    ticks.replaceChildren(...axes(x, y, top));
    if (!race) return;
    put(own, {x: x(race.k) - 6, y: y(race.speedup) - 6});
    const isRight = race.k > MAX_K / 2;
    const below = y(race.speedup) + 26;
    put(name, {x: x(race.k), y: below, "text-anchor": isRight ? "end" : "start"});
  }

  return {node, draw};
}

/** The sentence with its numbers; `set(name)` returns the callback of a draggable number. Returns {node, show}. */
function sentence(values, set) {
  const [tokens, cost, speedup] = ["b", "b", "b"].map(tag => make(tag));
  const share = {min: 0, max: 1, step: 0.01};
  const number = (name, limits, title, format) => scrub(title, {...limits, value: values[name]}, format, set(name));
  const node = make(
    "p.la-f-sentence",
    ...["With acceptance α = ", number("alpha", {...share, max: 0.99}, "acceptance α", hundredths)],
    ...[", a drafted token that costs c = ", number("c", share, "draft cost c", hundredths)],
    ...[" of a pass, and a further row ", number("row", share, "row cost", hundredths)],
    ...[" of one, k = ", number("k", {min: 0, max: MAX_K, step: 1}, "draft length k", String)],
    ...[" drafted tokens give ", tokens, " tokens for ", cost, " passes: ", speedup, "."],
  );
  const show = pass => {
    setText(tokens, digits(pass.tokens));
    setText(cost, digits(pass.cost));
    setText(speedup, `${digits(pass.speedup)}x`);
  };
  return {node, show};
}

/** Two bars in one-row passes: the tokens of a pass, each of which costs naive one pass, and the cost of the pass. */
function bars() {
  const rows = ["tokens", "cost"].map(name => {
    const rail = part("la-f-rail.la-f-parts");
    const value = make("span.la-f-said");
    return {node: part("la-f-timeline", make("span.la-f-label", name), rail, value), rail, value};
  });
  const sum = make("p.la-g-small");

  function draw({alpha, c, row, k}, {tokens, cost}) {
    const longest = Math.max(tokens, cost);
    const piece = (share, kind) => {
      const node = make(`span.la-f-part.la-f-${kind}`);
      node.style.width = percent(share / longest);
      return node;
    };
    const powers = Array.from({length: k + 1}, (_, i) => piece(alpha ** i, i ? "accepted" : "target"));
    rows[0].rail.replaceChildren(...powers);
    rows[1].rail.replaceChildren(piece(1, "verify"), piece(k * row, "rows"), piece(k * c, "drafting"));
    setText(rows[0].value, digits(tokens));
    setText(rows[1].value, digits(cost));
    const parts = `1 pass of one row + ${digits(k * row)} for ${k} further rows + ${digits(k * c)} for drafting`;
    setText(sum, `Tokens: the target’s own, then α, α², ... for the drafted ones. Cost: ${parts}.`);
  }

  return {nodes: [...rows.map(({node}) => node), sum], draw};
}

/** The measured race in words; without a race, how to get one. */
function measured(race, use) {
  if (!race)
    return part(
      "la-f-text",
      "Run a race in the Race tab, then open this lesson again: the chart shows it as a square.",
    );
  const {method, k, tokens, cost, speedup, alpha, share, live} = race;
  const name = live ? "Your race" : "The recording in the Race tab";
  const words =
    `${name}, ${method}: ${digits(k)} drafted tokens per pass. Accepted of tested (α): ${hundredths(alpha)}. ` +
    `Accepted of drafted: ${hundredths(share)}. ${digits(tokens)} tokens for ${digits(cost)} passes: ` +
    `${digits(speedup)}x.`;
  return part("la-f-text", make("span.la-f-square"), words, " ", button("use its numbers", use));
}

export function figure() {
  const values = {alpha: 0.8, c: 0.1, row: 0.03, k: 4};
  const race = window.lookahead?.race?.() ?? null;
  const advice = make("p.la-f-advice");
  const [curve, lengths] = [chart(race), bars()];
  const box = part("la-f-sentencebox");
  const set = name => value => {
    values[name] = value;
    draw();
  };
  let text;
  const build = () => {
    text = sentence(values, set);
    box.replaceChildren(text.node);
  };

  function draw() {
    const speedups = Array.from({length: MAX_K + 1}, (_, k) => passOf(values, k).speedup);
    const best = speedups.indexOf(Math.max(...speedups));
    const {tokens} = passOf(values, values.k);
    curve.draw(values, speedups, best);
    lengths.draw(values, passOf(values, values.k));
    text.show(passOf(values, values.k));
    const share = values.k ? `Accepted of drafted: ${hundredths((tokens - 1) / values.k)}. ` : "";
    const pays = best ? `Best: k = ${best}, ${digits(speedups[best])}x.` : "No length pays here: do not draft.";
    setText(advice, share + pays);
  }

  const use = () => {
    Object.assign(values, valuesOf(race));
    build();
    draw();
  };
  build();
  draw();
  return [box, ...lengths.nodes, curve.node, advice, measured(race, use)];
}
