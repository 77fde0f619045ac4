/* drafting.js: draws how a trained head drafted: the layers and the text that it read, and the drafted tokens in
   order. An arrow is an input from one token to the next. */

import {HIDDEN, make, svg} from "../page/dom.js";
import {count, probability} from "../page/numbers.js";
import {bar, drawn, heading, sign, small, table, token, unseen} from "./parts.js";

const MAX_LAYERS = 96; // layers drawn
const STEP = 12; // pixels from layer to layer
const TALL = 32;
const LOW = 14;

/** The target's layers, first to last, as a row of marks. The layers that the head read are tall, filled and
    numbered. */
function layersPicture({taps, layers}) {
  if (layers > MAX_LAYERS) return [];
  const first = taps.includes(0) ? 0 : 1; // 0 is the embedding
  const width = (layers - first + 1) * STEP + 8; // the last number is wider than its mark
  const shapes = [];
  for (let layer = first; layer <= layers; layer++) {
    const isRead = taps.includes(layer);
    const height = isRead ? TALL : LOW;
    const x = (layer - first) * STEP + 2;
    const kind = isRead ? "la-h-read" : "la-h-passed";
    shapes.push(svg("rect", {class: kind, x, y: (TALL - height) / 2 + 0.5, width: STEP - 4, height: height - 1}));
    if (isRead) shapes.push(svg("text", {class: "la-h-number", x: x + STEP / 2 - 2, y: TALL + 15}, String(layer)));
  }
  const picture = svg("svg", {viewBox: `-4 0 ${width} ${TALL + 18}`, class: "la-h-layers", ...HIDDEN}, ...shapes);
  picture.style.width = `${width}px`;
  return [picture];
}

const INPUT_BY_SHAPE = {
  heads:
    "of one token, the last that the target has read. The target processes the newest token together with the draft.",
  passes: "of every token, each with the embedding of the token that follows it.",
  slots: "of all the text before the anchor, which is the text’s last token.",
};

/** A table of the text's last tokens. It marks the tokens whose states the head read. */
function readTable({read: {pairs, tokens, cut}}) {
  const mark = isRead =>
    make(`td.${isRead ? "la-h-seen" : ""}`, sign(isRead ? "●" : "○"), unseen(isRead ? "read" : "not read"));
  const cells = pairs ? tokens.map(({previous}) => make("td", token(previous))) : tokens.map(({read}) => mark(read));
  const dots = cut ? [make("td", "…")] : [];
  const row = make("tr", make("th", {scope: "row"}, pairs ? "states of" : "its states"), ...dots, ...cells);
  const heads = [pairs ? "embedding of" : "token", ...(cut ? ["…"] : []), ...tokens.map(({text}) => token(text))];
  return table("la-h-text", "The last tokens that the head read", heads, [row]);
}

function readBox(drafting) {
  const scroll = {role: "group", tabindex: "0", "aria-label": "The text that the head read"};
  const layers = make("div.la-h-source", ...layersPicture(drafting));
  return make(
    "div.la-h-part",
    heading("Input of the head"),
    make("p.la-h-words", `In the target: ${drafting.layersLabel}, ${INPUT_BY_SHAPE[drafting.shape]}`),
    make("div.la-h-sources", layers, make("div.la-i-scroll", scroll, readTable(drafting))),
  );
}

/** A drafted token with its outcome and its probability. */
function tokenBox({text, status, sign: mark, label, chance, after}, {tree, confident}) {
  const known = chance === null ? [] : [bar(chance, "p"), unseen(confident ? "confidence " : "probability ")];
  return make(
    "div.la-h-drafted",
    make("span.la-h-token", sign(mark), token(text, status), unseen(`, ${label}`)),
    ...(known.length ? [make("span.la-h-chance", ...known, probability(chance))] : []),
    ...(tree && after !== null ? [make("span.la-i-small.la-h-after", "after ", token(after, "quoted"))] : []),
  );
}

/** The name of a draft position, and the source of its token: [name, source]. */
function positionLabel({shape, tree}, i) {
  if (shape === "heads") return [`head ${i + 1}`, ""];
  if (shape === "slots") return [`slot ${i + 1}`, ""];
  const feature = tree ? "from its own features" : "from its own feature";
  return [`pass ${i + 1}`, i ? feature : "from the target’s states"];
}

function positionItem(drafting, i, ...content) {
  const [name, source] = positionLabel(drafting, i);
  const {shape, markov} = drafting;
  const hasArrow = shape === "passes" ? i > 0 : shape === "slots" && markov;
  const arrow = hasArrow && content.length ? [drawn("la-h-arrow", {}, "→")] : [];
  const label = make("span.la-i-label", name, ...(source ? [make("span.la-h-from", source)] : []));
  const box = content.length ? content : [make("span.la-h-none", "empty")];
  return make(`li.la-h-place.${content.length ? "" : "la-h-empty"}`, ...arrow, label, ...box);
}

function positions(drafting) {
  const anchor = make(
    "li.la-h-place.la-h-anchor",
    make("span.la-i-label", drafting.shape === "slots" ? "anchor" : "last token"),
    make("span.la-h-token", token(drafting.anchor, "root")),
  );
  const filled = drafting.levels.map((level, i) =>
    positionItem(drafting, i, ...level.map(entry => tokenBox(entry, drafting))),
  );
  const empty = Array.from({length: drafting.empty}, (_, i) => positionItem(drafting, drafting.levels.length + i));
  return make(`ol.la-h-places.la-h-${drafting.shape}`, anchor, ...filled, ...empty);
}

const PROBABILITY_NOTE = "The number is the head’s probability of the token.";

function explanation({shape, tree, markov, confident, slots}) {
  if (shape === "heads") {
    return [
      `${count(slots, "small head")} on this state, all at once. They do not read each other’s tokens.`,
      PROBABILITY_NOTE,
    ];
  }
  if (shape === "passes") {
    const first = tree
      ? "One pass of the head per level, so each depth of the tree"
      : "One pass of the head per token. It";
    return [
      `${first} waits for the one before.`,
      "The target has no states of drafted tokens yet, so from the second token on the head reads its own feature (→).",
      PROBABILITY_NOTE,
    ];
  }
  return [
    "One pass of the head over the anchor and the blanks (masks) after it drafts the whole block, " +
      `${count(slots, "slot")} at once.`,
    markov
      ? "Then a small table, the Markov part (→), corrects each slot by the token before it."
      : "Slots do not read each other’s tokens.",
    confident ? "The number is the head’s confidence: its estimate that the token is accepted." : PROBABILITY_NOTE,
  ];
}

const ENDS = {
  max_tokens: "No more was drafted: the text ends here.",
  auto: "No more was drafted: another token was not worth its row in the target’s pass.",
};

function howBox(drafting) {
  const {end, k, shape, levels, empty} = drafting;
  const noun = shape === "heads" ? "head" : "slot";
  const full = `All ${count(levels.length, noun)} were used.`;
  const last = end === "k" ? `No more was drafted: k is ${k}.` : end === "full" ? full : ENDS[end];
  const emptySlots = empty ? ` ${count(empty, noun)} empty.` : "";
  const passes = shape === "passes" ? count(levels.length, "pass") : "1 pass";
  return make(
    "div.la-h-part",
    heading(`How it drafted: ${passes} of the head`),
    positions(drafting),
    small(explanation(drafting).join(" ")),
    ...(last ? [small(make("b", last), emptySlots)] : []),
  );
}

/** The part of the inspector for a trained head's draft. */
export function view(drafting) {
  const label = {"aria-label": `Draft of a trained head, ${drafting.name}`};
  return make("section.la-drafting", label, readBox(drafting), howBox(drafting));
}
