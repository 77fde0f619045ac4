/* window.js: Jacobi's guesses, pass by pass: all places at once, those that are right for good, and the pool of
   pairs.

    Why it is so.  The model of the lesson looks at the last word alone, by a table, so every answer can be checked
   by hand.

    What it does not know.  The window's levels and columns: the microscope shows those of a real pass. */

import {make, setText} from "../../page/dom.js";
import {range} from "./handles.js";

const AFTER = {the: "cat", cat: "sat", sat: "on", on: "a", a: "mat", mat: "."};
const FIRST = ["on", "cat", "mat", "sat"];
const PASSES = 4;

/** The passes: [{guesses, answers, right}], `right` places being so for good. */
export function passes() {
  const all = [];
  for (let guesses = FIRST; all.length < PASSES; guesses = all.at(-1).answers) {
    const answers = ["the", ...guesses.slice(0, -1)].map(word => AFTER[word] || ".");
    all.push({guesses, answers, right: all.length + 1});
  }
  return all;
}

/** Pairs that the first so many passes have found: what was said behind a guess. */
export function poolOf(count) {
  const pairs = passes()
    .slice(0, count)
    .flatMap(({guesses, answers}) => guesses.slice(0, -1).map((word, i) => `${word} ${answers[i + 1]}`));
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
  const words = make("p.la-f-advice", {"aria-live": "polite"});

  function draw(count) {
    const lines = all.slice(0, count).map(({answers, right}, n) => {
      const cells = answers.map((word, i) =>
        make(`td${i < right ? ".la-f-solid" : ""}`, i < right ? `✓ ${word}` : word),
      );
      return make("tr", make("th", {scope: "row"}, String(n + 1)), ...cells);
    });
    rows.replaceChildren(
      make("tr", make("th", {scope: "row"}, "guesses"), ...FIRST.map(word => make("td", word))),
      ...lines,
    );
    pool.replaceChildren(make("b", "pool: "), ...poolOf(count).map(pair => make("span.la-f-kept", pair)));
    const pairs = poolOf(count).length;
    setText(words, `Final positions: ${count}. Pairs in the pool to draft from: ${pairs}.`);
  }

  const limits = {min: 0, max: PASSES, step: 1, value: 1, words: n => `${n} of ${PASSES}`};
  draw(1);
  return [range("passes", limits, draw), table, pool, words];
}
