/* window.js: Jacobi iteration pass by pass: guesses at all positions, the final positions, and the pool of pairs. The
   model is a table of next words, so the reader can check each prediction. */

import {make, setText} from "../../page/dom.js";
import {range} from "./handles.js";

const AFTER = {the: "cat", cat: "sat", sat: "on", on: "a", a: "mat", mat: "."};
const FIRST = ["on", "cat", "mat", "sat"];
const PASSES = 4;

/** The passes: [{guesses, predictions, final}]; `final` is the number of positions that no longer change. */
export function passes() {
  const all = [];
  for (let guesses = FIRST; all.length < PASSES; guesses = all.at(-1).predictions) {
    const predictions = ["the", ...guesses.slice(0, -1)].map(word => AFTER[word] || ".");
    all.push({guesses, predictions, final: all.length + 1});
  }
  return all;
}

/** The pairs found by the first `count` passes: a guess and the prediction after it. */
export function poolOf(count) {
  const pairs = passes()
    .slice(0, count)
    .flatMap(({guesses, predictions}) => guesses.slice(0, -1).map((word, i) => `${word} ${predictions[i + 1]}`));
  return [...new Set(pairs)];
}

export function figure() {
  const all = passes();
  const rows = make("tbody");
  const heads = ["pass", "position 1", "position 2", "position 3", "position 4"].map(word =>
    make("th", {scope: "col"}, word),
  );
  const table = make("table.la-f-table", make("thead", make("tr", ...heads)), rows);
  const pool = make("p.la-f-text");
  const sentence = make("p.la-f-advice", {"aria-live": "polite"});

  function draw(count) {
    const lines = all.slice(0, count).map(({predictions, final}, n) => {
      const cells = predictions.map((word, i) =>
        make(`td${i < final ? ".la-f-solid" : ""}`, i < final ? `✓ ${word}` : word),
      );
      return make("tr", make("th", {scope: "row"}, String(n + 1)), ...cells);
    });
    rows.replaceChildren(
      make("tr", make("th", {scope: "row"}, "guesses"), ...FIRST.map(word => make("td", word))),
      ...lines,
    );
    pool.replaceChildren(make("b", "pool: "), ...poolOf(count).map(pair => make("span.la-f-kept", pair)));
    const pairs = poolOf(count).length;
    setText(sentence, `Final positions: ${count}. Pairs in the pool to draft from: ${pairs}.`);
  }

  const limits = {min: 0, max: PASSES, step: 1, value: 1, describe: n => `${n} of ${PASSES}`};
  draw(1);
  return [range("passes", limits, draw), table, pool, sentence];
}
