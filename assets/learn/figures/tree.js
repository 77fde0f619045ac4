/* tree.js: a draft tree by hand: its nodes with their probabilities, the walk along the target's predictions, and the
   mask. The reader chooses the number of rows and the target's text. */

import {Mask} from "../../inspector/mask.js";
import {make, setText, svg} from "../../page/dom.js";
import {count, hundredths} from "../../page/numbers.js";
import {part} from "../widget.js";
import {choice, range, stepper} from "./handles.js";

const ROOT = "The";
/** The candidates: word, parent (-1 is the root), and probability after the parent. */
export const NODES = [
  {word: "cat", parent: -1, p: 0.6},
  {word: "sat", parent: 0, p: 0.5},
  {word: "dog", parent: -1, p: 0.3},
  {word: "on", parent: 1, p: 0.7},
  {word: "ran", parent: 0, p: 0.3},
  {word: "ran", parent: 2, p: 0.6},
  {word: "home", parent: 5, p: 0.5},
];
export const TEXTS = ["cat sat on the", "cat ran off", "dog ran home now", "fox hid"];
const [WIDTH, ROW, TOP] = [460, 58, 26]; // of the drawing, in pixels

const pathOf = i => (i < 0 ? [] : [...pathOf(NODES[i].parent), i]);
const round = x => Math.round(1e9 * x) / 1e9;
/** The probability that the text continues along the path to node `i`. */
export const chance = i => round(pathOf(i).reduce((product, node) => product * NODES[node].p, 1));
/** The expected tokens of a pass with the first `n` nodes: 1 and the probability of each node's path. */
export const expected = n => round(NODES.slice(0, n).reduce((sum, _, i) => sum + chance(i), 1));

/** The walk through the first `n` nodes with a target that writes `text`: [{from, word, node}], `node` is -1 for the
    target's token, which no child has. */
export function walk(n, text) {
  const steps = [];
  let from = -1;
  for (const word of text.split(" ")) {
    const node = NODES.slice(0, n).findIndex(entry => entry.parent === from && entry.word === word);
    steps.push({from, word, node});
    if (node < 0) break;
    from = node;
  }
  return steps;
}

const nameOf = i => (i < 0 ? `row 0, “${ROOT}”` : `row ${i + 1}, “${NODES[i].word}”`);

function sentenceOf({from, word, node}) {
  const start = `After ${nameOf(from)}, the target predicts “${word}”. `;
  return start + (node < 0 ? "No child has this token: it is the target’s own." : `Accepted: row ${node + 1}.`);
}

/** The positions of the nodes: x by leaves from left to right, y by depth. */
const PLACES = [
  [150, 1],
  [70, 2],
  [390, 1],
  [70, 3],
  [230, 2],
  [390, 2],
  [390, 3],
];
const place = i => (i < 0 ? {x: 270, y: TOP} : {x: PLACES[i][0], y: TOP + PLACES[i][1] * ROW});

/** The tree; `kinds` are the kinds of the nodes by index: accepted, or none. */
function drawing(n, kinds) {
  const lines = NODES.slice(0, n).map(({parent}, i) => {
    const [a, b] = [place(parent), place(i)];
    const line = {x1: a.x, y1: a.y + 15, x2: b.x, y2: b.y - 15};
    return svg("line", {class: `la-f-edge${kinds[i] ? " la-f-walked" : ""}`, ...line});
  });
  const nodes = [-1, ...NODES.slice(0, n).keys()].map(i => {
    const {x, y} = place(i);
    const isAccepted = i >= 0 && kinds[i];
    const kind = i < 0 ? "la-f-root" : isAccepted ? "la-f-accepted" : "la-f-node";
    const box = svg("rect", {class: kind, x: x - 62, y: y - 15, width: 124, height: 30, rx: 4});
    const name = i < 0 ? `0 ${ROOT}` : `${isAccepted ? "✓ " : ""}${i + 1} ${NODES[i].word} ${hundredths(chance(i))}`;
    return svg("g", {}, box, svg("text", {x, y: y + 5, "text-anchor": "middle"}, name));
  });
  const height = TOP + ROW * 3 + 24;
  const label = `A tree of ${count(n, "drafted row")}`;
  return svg(
    "svg",
    {class: "la-f-tree", role: "img", "aria-label": label, viewBox: `0 0 ${WIDTH} ${height}`},
    ...lines,
    ...nodes,
  );
}

/** The rows of the pass for the mask. */
const maskRows = n =>
  [-1, ...NODES.slice(0, n).keys()].map(i => ({
    name: i < 0 ? "the text’s last word" : "a drafted word",
    text: i < 0 ? ROOT : NODES[i].word,
    group: i < 0 ? "root" : "tried",
    attendsTo: [0, ...pathOf(i).map(node => node + 1)],
  }));

/** The last of the `shown` steps in words; with the result if it ends the walk. */
function sentence(steps, shown) {
  if (!shown) return "Which path is accepted? Guess, then press next.";
  const last = sentenceOf(steps[shown - 1]);
  if (shown < steps.length) return last;
  const emitted = steps.map(({word}) => word);
  return `${last} Written: ${emitted.join(" ")}. ${count(emitted.length, "token")} in one pass.`;
}

export function figure() {
  const state = {rows: 6, text: 2, step: 0};
  const [tree, mask] = [part("la-f-treebox"), part("la-i")];
  const [sum, result] = [make("p.la-f-text"), make("p.la-f-advice.la-f-walk", {"aria-live": "polite"})];

  function draw(changes) {
    const {rows, text, step} = Object.assign(state, changes);
    const steps = walk(rows, TEXTS[text]);
    const shown = steps.slice(0, step);
    const kinds = NODES.map((_, i) => shown.some(({node}) => node === i));
    tree.replaceChildren(drawing(rows, kinds));
    setText(result, sentence(steps, shown.length));
    const chances = NODES.slice(0, rows).map((_, i) => hundredths(chance(i)));
    setText(sum, `Expected tokens per pass: 1 + ${chances.join(" + ")} = ${hundredths(expected(rows))}.`);
    if (changes.step === undefined) mask.replaceChildren(new Mask(maskRows(rows), () => {}).node);
  }

  const ends = {min: 1, max: NODES.length, step: 1, value: state.rows, describe: n => count(n, "row")};
  const size = range("drafted rows", ends, rows => reset({rows}));
  const limits = {min: 0, max: 4, step: 1, value: 0, describe: n => `step ${n}`};
  const steps = stepper("walk", limits, step => draw({step}));
  const reset = changes => {
    draw(changes);
    steps.set(0);
  };
  const texts = choice("the target’s text", TEXTS, state.text, text => reset({text}));
  draw({});
  return [size, sum, make("p.la-f-text", "The target’s text: ", texts), steps.node, tree, result, mask];
}
