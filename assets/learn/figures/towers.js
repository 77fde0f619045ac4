/* towers.js: four drafters next to the target's twelve layers: the states that each reads, and whether it reads its
   drafted tokens. Layers are those of the bundled models. */

import {make, setText, svg} from "../../page/dom.js";
import {count} from "../../page/numbers.js";
import {part} from "../widget.js";
import {choice, range} from "./handles.js";

const [LAYERS, WIDTH, HEIGHT] = [12, 150, 252];
const [TOP, STEP, THICK] = [14, 14.5, 12]; // y of layer 12, distance and height of layers
const WORDS = ["who", "lived", "in", "a"]; // drafted after "a small frog"

/** `taps` are the target's layers that the drafter reads; `own` is the number of its layers, `heads` of its heads. */
export const DRAFTERS = [
  {
    ...{name: "draft model", subject: "A draft model", taps: [], layers: 2, isChain: true, method: "draft"},
    reads: "the text only, as tokens. It reads no hidden state of the target.",
    chain: "Yes. Each drafted token is its next input.",
  },
  {
    ...{name: "Medusa", subject: "Medusa", taps: [12], heads: 4, isChain: false, method: "medusa"},
    reads: "the target’s last hidden state of the newest token.",
    chain: "No. Four heads predict four positions at once, and no head reads another’s token.",
  },
  {
    ...{name: "EAGLE-3", subject: "EAGLE-3", taps: [2, 6, 9], layers: 1, isChain: true, method: "eagle"},
    reads: "hidden states of every token after layers 2, 6 and 9, and the embedding of the next token.",
    chain: "Yes. For a drafted token it reads its own feature, because the target has no state for it yet.",
  },
  {
    ...{
      name: "block head",
      subject: "A block head",
      taps: [2, 5, 7, 10],
      layers: 2,
      isChain: false,
      isCorrected: true,
      method: "block",
    },
    reads: "hidden states of the whole text after layers 2, 5, 7 and 10, the last token and blanks.",
    chain: "Partly. One pass fills all blanks. Then a small table corrects each blank by the token before it.",
  },
];

/** The drafter's passes for `k` tokens. */
export const passesFor = ({isChain}, k) => (isChain ? k : 1);

/** The inputs of drafted token `k` (from 1): the states or the text, and the drafted tokens before it. */
export function inputsOf(drafter, k) {
  const before = WORDS.slice(0, k - 1);
  if (drafter.isChain) return before;
  return drafter.isCorrected ? before.slice(-1) : [];
}

const layerY = layer => TOP + (LAYERS - layer) * STEP;
const box = (className, x, y, width, height) => svg("rect", {class: className, x, y, width, height, rx: 2});
const word = (text, x, y) => svg("text", {x, y, "text-anchor": "middle"}, text);

/** The drafter's own boxes, from y on. */
function ownBoxes({layers, heads}) {
  const [x, y] = [96, layerY(7)];
  if (heads) return Array.from({length: heads}, (_, i) => box("la-f-drafter", x + i * 12, layerY(12), 9, 22));
  return Array.from({length: layers}, (_, i) => box("la-f-drafter", x, y - i * STEP, 46, THICK));
}

/** The paths from the layers or from the text to the drafter. */
function readPaths({taps, heads, layers}) {
  const end = heads ? TOP + 12 : layerY(7) + THICK / 2;
  const lines = taps.map(layer => `M54 ${layerY(layer) + THICK / 2}H72V${end}H${heads ? 94 : 92}`);
  if (layers) lines.push(`M32 ${layerY(0) + 4}V${layerY(0) + 12}H118V${layerY(6) - 1}`);
  return svg("path", {class: "la-f-reads", d: lines.join("")});
}

/** The arrow from the drafted token back into a drafter that reads its tokens. */
function loop({isChain, isCorrected, layers}) {
  if (!isChain && !isCorrected) return [];
  const y = layerY(7) - (layers - 1) * STEP - 3;
  const d = isChain ? `M119 ${y}V${y - 14}H147V${layerY(7) + 5}H144` : `M102 ${y - 3}q8 -12 16 0m0 0q8 -12 16 0`;
  return [svg("path", {class: `la-f-loop${isCorrected ? " la-f-thin" : ""}`, d})];
}

function tower(drafter) {
  const layers = Array.from({length: LAYERS}, (_, i) => {
    const isRead = drafter.taps.includes(i + 1);
    return box(`la-f-layer${isRead ? " la-f-tapped" : ""}`, 10, layerY(i + 1), 44, THICK);
  });
  const numbers = drafter.taps.map(layer => {
    const place = {class: "la-f-layernumber", x: 32, y: layerY(layer) + 10, "text-anchor": "middle"};
    return svg("text", place, String(layer));
  });
  const texts = [
    word("target", 32, HEIGHT - 30),
    word("a small frog", 42, HEIGHT - 6),
    word("drafter", 118, HEIGHT - 30),
  ];
  const drawing = [...layers, readPaths(drafter), ...ownBoxes(drafter), ...loop(drafter), ...numbers, ...texts];
  const node = svg("svg", {viewBox: `0 0 ${WIDTH} ${HEIGHT}`, "aria-hidden": "true"}, ...drawing);
  return make("figure.la-f-tower", node, make("figcaption", drafter.name));
}

/** The drafted words up to number `k`: those that the drafter reads for it, the others, and the word itself. */
function slots(drafter, k) {
  const inputs = inputsOf(drafter, k);
  const isRead = i => inputs.length > 0 && i < k - 1 && i >= k - 1 - inputs.length;
  const words = WORDS.map((text, i) => {
    const kind = i === k - 1 ? ".la-f-here" : isRead(i) ? ".la-f-attended" : "";
    return make(`span.la-f-slot${kind}`, isRead(i) ? `→ ${text}` : text);
  });
  return [make("span.la-g-small", "drafted: "), ...words];
}

export function figure() {
  const state = {drafter: 2, k: 3};
  const towers = DRAFTERS.map(tower);
  const row = part("la-f-slots");
  const facts = ["reads", "reads its drafted tokens", "passes"].map(name => [make("dt", name), make("dd")]);
  const list = make("dl.la-f-facts", {"aria-live": "polite"}, ...facts.flat());

  function draw(changes) {
    const {drafter: chosen, k} = Object.assign(state, changes);
    const drafter = DRAFTERS[chosen];
    for (const [i, node] of towers.entries()) node.classList.toggle("la-f-chosen", i === chosen);
    row.replaceChildren(...slots(drafter, k));
    const inputs = inputsOf(drafter, k);
    const words = inputs.length ? inputs.map(text => `“${text}”`).join(" ") : "no drafted token";
    const values = [
      `${drafter.subject} reads ${drafter.reads}`,
      `${drafter.chain} For drafted token ${k} it reads ${words}.`,
      `${count(passesFor(drafter, k), "pass")} of the drafter for ${count(k, "token")}. ` +
        `In the Race tab: ${drafter.method}.`,
    ];
    for (const [i, value] of values.entries()) setText(facts[i][1], value);
  }

  const names = DRAFTERS.map(({name}) => name);
  const limits = {min: 1, max: WORDS.length, step: 1, value: state.k, describe: k => `${k} of ${WORDS.length}`};
  const slider = range("drafted token", limits, k => draw({k}));
  draw({});
  const chosen = choice("drafter", names, state.drafter, drafter => draw({drafter}));
  return [chosen, part("la-f-towers", ...towers), slider, row, list];
}
