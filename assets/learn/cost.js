/* cost.js: the measured cost of a pass by its rows, after the reader's guess, and the speedup that theory computes
   from it. */

import {drawn} from "../inspector/parts.js";
import {make, setText} from "../page/dom.js";
import {count, digits, duration, exact, percent, tenths} from "../page/numbers.js";
import {button, classVote, newId, part, text} from "./widget.js";

const MAX_TERMS = 5; // of a sum, written out

/** The end of the axis in passes, well past the measured bars. Longer bars are cut. */
function axisOf(rows, predict) {
  const longest = Math.max(...rows.map(row => row.passes));
  const end = Math.max(2.5 * longest, predict);
  const counts = rows.map(row => row.rows).sort((a, b) => a - b);
  return Math.max(longest, counts.find(rows => rows >= end) || counts.at(-1));
}

/** The measured cost of a row count, and the cost of one-row passes; `guess` is null without a guess. */
function line({rows, passes, ms}, axis, guess) {
  const position = x => percent(Math.min(1, x / axis));
  const isCut = rows > axis;
  const fullCost = drawn(`la-g-whole.${isCut ? "la-g-out" : ""}`, {width: position(rows)});
  const track = drawn("la-g-track", {}, fullCost, drawn("la-g-fill.la-g-p", {width: position(passes)}));
  if (isCut) track.append(drawn("la-g-far", {}, `${rows} passes →`));
  if (guess !== null) track.append(drawn("la-g-mine", {left: position(guess)}));
  const cost = passes === 1 ? "1 pass" : `${digits(passes)} passes`;
  const value = make("span.la-g-value", `${cost}, ${duration(ms / 1000)}`);
  return make("li.la-g-row", make("span.la-g-label", count(rows, "row")), track, value);
}

function figure({rows, predict}, guess) {
  const axis = axisOf(rows, guess === null ? 0 : predict);
  const lines = rows.map(row => line(row, axis, row.rows === predict ? guess : null));
  const sample = (className, label) => make("span", drawn(`la-g-swatch.${className}`, {}), label);
  const key = [sample("la-g-fill.la-g-p", "measured"), sample("la-g-whole", "as many passes of one row")];
  if (guess !== null) key.push(sample("la-g-mine", "your guess"));
  const list = make("ul.la-g-rows", {role: "list", "aria-label": "Cost of a pass by its rows"}, ...lines);
  return part("la-g-figure", list, part("la-g-key", ...key));
}

const power = n => (n < 2 ? "" : String(n).replace(/\d/g, digit => "⁰¹²³⁴⁵⁶⁷⁸⁹"[digit]));
/** 1 + α + α² + ... up to the kth power. */
function terms(alpha, k) {
  const all = Array.from({length: k + 1}, (_, i) => (i ? exact(alpha) + power(i) : "1"));
  return (k > MAX_TERMS ? [...all.slice(0, 3), "...", all[k]] : all).join(" + ");
}

/** The speedup that theory expects: the formulas, line by line, with their numbers. */
function arithmetic({alpha, k, c, v, tokens, cost, speedup, plain}) {
  const draft = `${k} × ${exact(c, 3)}`;
  const [t, total, result, bound] = [tokens, cost, speedup, plain].map(digits);
  const lines = [
    ["tokens per pass", `1 + α + ... = ${terms(alpha, k)} = `, t, ""],
    ["cost of a pass", `v + k × c = ${digits(v)} + ${draft} = `, total, ""],
    ["speedup", `${t} / ${total} = `, result, speedup < 1 ? ", slower than naive decoding: do not draft" : ""],
    ["at most", `${t} / (1 + ${draft}) = `, bound, ", Leviathan’s formula: v = 1, as if rows were free"],
  ];
  const measured = `v, a pass of ${k + 1} rows, and c, a drafted token, both in one-row passes`;
  const assumptions = text("la-g-small", `α = ${exact(alpha)} and k = ${k} are given. Measured here: ${measured}.`);
  const entries = lines.flatMap(([name, sum, value, note]) => [
    make("dt", name),
    make("dd", sum, make("b", value), note),
  ]);
  return part("la-g-arithmetic", assumptions, make("dl", ...entries));
}

export function cost(data, hooks) {
  const {rows, predict, sum} = data;
  if (!rows.length) return [make("p", "Nothing has been measured on this machine yet.")];
  const shown = guess => [figure(data, guess), ...(sum ? [arithmetic(sum)] : [])];
  const predicted = rows.find(row => row.rows === predict && predict > 1);
  return predicted ? [question(predicted, shown), ...classVote(data, hooks)] : shown(null);
}

/** The question before the figure; `shown(guess)` replaces it. */
function question({rows, passes}, shown) {
  const id = newId();
  const middle = tenths((1 + rows) / 2);
  const value = make("output.la-g-output", {for: id});
  const range = make("input.la-g-range", {id, type: "range", min: 1, max: rows, step: 0.1, value: middle});
  const label = `How many one-row passes does a pass of ${rows} rows cost on this machine?`;
  const update = () => {
    setText(value, `${tenths(Number(range.value))} passes`);
    range.setAttribute("aria-valuetext", value.textContent);
  };
  const show = button("show", () => {
    const guess = Number(range.value);
    const result = make("b", `it is ${digits(passes)}.`);
    const outcome = make("p.la-g-outcome", {tabindex: "-1"}, `You guessed ${tenths(guess)}; `, result);
    box.replaceChildren(outcome, ...shown(guess));
    outcome.focus();
  });
  range.addEventListener("input", update);
  update();
  const ends = ["1: as cheap as one row", `${rows}: every row at full cost`].map(end => make("span", end));
  const question = make("label.la-g-question", {for: id}, label);
  const box = part("la-g-stack", question, part("la-g-predict", range, value, show), part("la-g-ends", ...ends));
  return box;
}
