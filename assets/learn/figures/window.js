/* window.js: lookahead decoding pass by pass: the window of W columns and N - 1 levels, the pool, the n-grams that a
   pass verifies, and the mask. The model is a sentence that repeats, so the reader can check each prediction. */

import {Mask} from "../../inspector/mask.js";
import {make, setText} from "../../page/dom.js";
import {count} from "../../page/numbers.js";
import {part} from "../widget.js";
import {scrub, stepper} from "./handles.js";

const SENTENCE = "the cat sat on the mat and the dog sat by the door while".split(" ");
const PROMPT = ["while", "the"];
const GUESSES = ["sat", "dog", "the", "door"]; // of level 1 at the start
const [PASSES, SHOWN_WORDS, CELL] = [16, 9, 48]; // passes of the simulation, words of the text, pixels of a step

/** The word after `pair`: two words of the sentence, or only the last one if the pair does not occur in it. */
export function predict(pair) {
  const at = i => SENTENCE[i % SENTENCE.length];
  const places = SENTENCE.map((_, i) => i);
  const both = places.find(i => at(i) === pair[0] && at(i + 1) === pair[1]);
  return both === undefined ? at(SENTENCE.indexOf(pair[1]) + 1) : at(both + 2);
}

/** The n-grams of the pool that begin with `root`, newest first, with the number of their accepted words. */
function tried(pool, text, guesses) {
  const found = pool.filter(({words}) => words[0] === text.at(-1));
  return found.slice(-guesses || found.length).map(({words, pass, column}) => {
    const all = [text.at(-2), ...words];
    const mismatch = words.slice(1).findIndex((word, i) => word !== predict(all.slice(i, i + 2)));
    return {words, pass, column, accepted: mismatch < 0 ? words.length - 1 : mismatch};
  });
}

/** The predictions after the newest level: a row reads its parent, the row above it, or in level 1 the row before. */
function predictionsOf(levels, root) {
  const above = levels.length > 1 ? levels.at(-2) : [root, ...levels[0]];
  return levels.at(-1).map((word, column) => predict([above[column], word]));
}

/** The first passes with W `columns`, N words per n-gram and at most G `guesses`: lists of the state before a pass
    (text, levels, pool), and of its results (predictions, candidates, emitted, found n-grams, rows). */
export function passesOf({columns, n, guesses}) {
  const all = [];
  let [text, levels, pool] = [PROMPT, [GUESSES.slice(0, columns)], []];
  while (all.length < PASSES) {
    const candidates = guesses ? tried(pool, text, guesses).reverse() : [];
    const best = candidates.reduce((most, other) => (other.accepted > most.accepted ? other : most), {accepted: 0});
    const accepted = best.words?.slice(1, 1 + best.accepted) || [];
    const emitted = [...accepted, predict([...text, ...accepted].slice(-2))];
    const predictions = predictionsOf(levels, text.at(-1));
    const pass = all.length + 1;
    const isFull = levels.length === n - 1;
    const ngram = column => ({words: [...levels.map(level => level[column]), predictions[column]], pass, column});
    const found = isFull ? predictions.map((_, column) => ngram(column)) : [];
    const rows = 1 + columns * levels.length + candidates.length * (n - 1);
    all.push({text, levels, pool, predictions, candidates, emitted, accepted: best.accepted, found, rows, isFull});
    const news = found.map(({words}) => words.join(" "));
    pool = [...pool.filter(({words}) => !news.includes(words.join(" "))), ...distinct(found)];
    text = [...text, ...emitted];
    levels = [...(isFull ? levels.slice(1) : levels), predictions];
  }
  return all;
}

const distinct = ngrams => [...new Map(ngrams.map(ngram => [ngram.words.join(" "), ngram])).values()];

/** The first pass with a full window in which an n-gram is accepted, from 1; 1 if there is none. */
export const firstAccepted = all =>
  1 +
  Math.max(
    0,
    all.findIndex(pass => pass.isFull && pass.accepted),
  );

/** The rows of a pass for the mask, as `maskOf` of the inspector returns them. */
function maskRows({text, levels, candidates}) {
  const rows = [{name: "the text’s last word", text: text.at(-1), group: "root", attendsTo: [0]}];
  const add = (name, word, group, parent) => {
    rows.push({name, text: word, group, attendsTo: [...rows[parent].attendsTo, rows.length]});
  };
  for (const [i, {words}] of candidates.entries()) {
    for (const [j, word] of words.slice(1).entries()) {
      add(`n-gram ${i + 1}, word ${j + 2}`, word, "tried", j ? rows.length - 1 : 0);
    }
  }
  const first = rows.length;
  for (const [l, level] of levels.entries()) {
    for (const [c, word] of level.entries()) {
      const parent = l ? first + (l - 1) * level.length + c : c ? rows.length - 1 : 0;
      add(`window level ${l + 1}, column ${c + 1}`, word, "window", parent);
    }
  }
  return rows;
}

const at = (node, row, column, span = 1) => {
  node.style.gridArea = `${row} / ${column} / auto / span ${span}`;
  return node;
};

/** Draw the window in a grid: a level is a row, shifted by one word, so that an n-gram is a diagonal. The grips stay
    in the document, because a node that moves loses the focus and the pointer. */
function drawGrid(node, {levels, predictions, candidates}, {columns, n}, grips) {
  const first = 1 + candidates.length * (n - 1); // of the window's rows in the pass
  const width = columns + n - 1;
  const heads = Array.from({length: width}, (_, i) => at(make("span.la-f-head", `+${i + 1}`), 1, i + 2));
  const cells = [...levels, predictions].flatMap((level, l) => {
    const isPrediction = l === levels.length;
    const label = at(make("span.la-f-head.la-f-side", isPrediction ? "predicts" : `level ${l + 1}`), l + 2, 1);
    const kind = isPrediction ? ".la-f-predicted" : "";
    const words = level.map((word, c) => {
      const cell = at(make(`span.la-f-cell${kind}`, word), l + 2, l + c + 2);
      if (!isPrediction) cell.dataset.row = first + l * columns + c;
      return cell;
    });
    return [label, ...words];
  });
  for (const child of node.querySelectorAll(".la-f-head, .la-f-cell")) child.remove();
  node.prepend(...heads, ...cells);
  at(grips.columns, 2, columns + 2, n);
  at(grips.n, levels.length + 3, 2, width);
  node.style.gridTemplateColumns = `auto repeat(${width}, minmax(0, 64px)) minmax(0, auto)`;
  return node;
}

/** A verified n-gram: its words with their outcomes, and its origin. */
function candidate({words, pass, column, accepted}, start) {
  const tokens = words.slice(1).map((word, j) => {
    const outcome = j < accepted ? "accepted" : j === accepted ? "rejected" : "not-tested";
    const sign = {accepted: "✓", rejected: "✕", "not-tested": "·"}[outcome];
    const text = make(`span.la-f-drafted.la-f-${outcome}`, `${sign} ${word}`);
    text.dataset.row = start + j;
    return text;
  });
  return make("li", make("b", words[0]), " ", ...tokens, make("small", `from pass ${pass}, column ${column + 1}`));
}

/** The pool before the pass and the n-grams that it adds. Those that begin with the last word have a bold border. */
function poolNodes({pool, found, text}) {
  const chip = (sign, kind) => ngram => make(`span.la-f-kept${kind(ngram)}`, sign + ngram.words.join(" "));
  const before = pool.map(chip("", ({words}) => (words[0] === text.at(-1) ? ".la-f-fits" : "")));
  const added = distinct(found).map(chip("+ ", () => ".la-f-new"));
  const all = [...before, ...added];
  return [make("b", "Pool: "), ...(all.length ? all : ["empty. Only a full window adds n-grams."])];
}

const wordsOf = ({accepted, emitted, rows}) =>
  `A pass of ${count(rows, "row")}: ${accepted} of the drafted words accepted, ` +
  `${count(emitted.length, "word")} written.`;

/** The draggable numbers W, N and G; `change(name)` returns their callbacks. */
function gripsOf(size, change) {
  const grip = (name, sign, letter, ends, options) => {
    const limits = {...ends, step: 1, value: size[name]};
    const title = {columns: "W, columns", n: "N, words of an n-gram", guesses: "G, n-grams per pass"}[name];
    const pixels = CELL * (ends.max - ends.min);
    return scrub(title, limits, value => `${letter} = ${value} ${sign}`, change(name), {...options, pixels});
  };
  return {
    columns: grip("columns", "↔", "W", {min: 1, max: 4}, {}),
    n: grip("n", "↕", "N", {min: 2, max: 4}, {axis: "y"}),
    guesses: grip("guesses", "↕", "G", {min: 0, max: 4}, {axis: "y"}),
  };
}

/** The end of the text: its last word, then the words of the pass. */
function textNodes({text, emitted, accepted}) {
  const read = text.slice(-SHOWN_WORDS);
  const before = `${read.length < text.length ? "… " : ""}${read.slice(0, -1).join(" ")} `;
  const kind = i => (i < accepted ? ".la-f-accepted" : ".la-f-target");
  const written = emitted.map((word, i) => make(`span.la-f-drafted${kind(i)}`, `${i < accepted ? "✓ " : ""}${word}`));
  return [before, make("span.la-f-last", read.at(-1)), " ", ...written];
}

export function figure() {
  const size = {columns: 3, n: 3, guesses: 2};
  const [text, sentence] = [make("p.la-f-text"), make("p.la-f-advice", {"aria-live": "polite"})];
  const [pool, mask] = [make("p.la-f-pool"), part("la-i")];
  const [list, root] = [make("ul.la-f-tried"), make("span")];
  const grips = gripsOf(size, name => value => {
    size[name] = value;
    all = passesOf(size);
    draw();
  });
  const windowBox = part("la-f-grid", grips.columns, grips.n);
  let all = passesOf(size);
  let shown = firstAccepted(all);

  function draw() {
    const pass = all[shown - 1];
    text.replaceChildren(...textNodes(pass));
    drawGrid(windowBox, pass, size, grips);
    const items = pass.candidates.map((ngram, i) => candidate(ngram, 1 + i * (size.n - 1)));
    list.replaceChildren(...(items.length ? items : [make("li", "none: nothing is drafted")]));
    setText(root, `N-grams that begin with “${pass.text.at(-1)}”: `);
    pool.replaceChildren(...poolNodes(pass));
    const rows = maskRows(pass);
    mask.replaceChildren(new Mask(rows, row => mark(rows[row])).node);
    setText(sentence, wordsOf(pass));
  }

  /** Mark the cells of the row that the mask describes, and of the rows that it attends to. */
  function mark({attendsTo}) {
    for (const cell of [windowBox, list].flatMap(box => [...box.querySelectorAll("[data-row]")])) {
      const row = Number(cell.dataset.row);
      cell.classList.toggle("la-f-attended", attendsTo.includes(row));
    }
  }

  const limits = {min: 1, max: PASSES, step: 1, value: shown, describe: n => `${n} of ${PASSES}`};
  const passes = stepper("pass", limits, value => {
    shown = value;
    draw();
  });
  draw();
  const heading = make("p.la-f-text", root, grips.guesses);
  return [passes.node, text, windowBox, heading, list, sentence, pool, mask];
}
