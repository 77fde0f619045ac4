/* cost.js: what a pass costs on this machine by its rows, and the speedup that theory makes of it.

   Why it is so.  The figure asks for a guess first. What was computed comes with the data; here it is only put into
   words, so that a sentence and its figure cannot disagree.

   What it does not know.  How costs are measured or a speedup is computed. */

import {drawn} from "../inspector/parts.js";
import {make, setText} from "../page/dom.js";
import {count, digits, duration, exact, percent, tenths} from "../page/numbers.js";
import {button, newId, part, text} from "./widget.js";

const SHORTEST = 5; // terms of a sum that are written out

/** Where the figure ends, in passes: well past the measured bars; what is dearer runs out of the figure. */
function axisOf(rows, predict) {
  const most = Math.max(...rows.map(row => row.passes));
  const wanted = Math.max(2.5 * most, predict);
  const counts = rows.map(row => row.rows).sort((a, b) => a - b);
  return Math.max(most, counts.find(rows => rows >= wanted) || counts.at(-1));
}

/** A row count's measured cost, and that of as many passes of one row; `guess` is null if none was made. */
function line({rows, passes, ms}, axis, guess) {
  const place = x => percent(Math.min(1, x / axis));
  const isOut = rows > axis;
  const whole = drawn(`la-g-whole.${isOut ? "la-g-out" : ""}`, {width: place(rows)});
  const track = drawn("la-g-track", {}, whole, drawn("la-g-fill.la-g-p", {width: place(passes)}));
  if (isOut) track.append(drawn("la-g-far", {}, `${rows} passes →`));
  if (guess !== null) track.append(drawn("la-g-mine", {left: place(guess)}));
  const cost = passes === 1 ? "1 pass" : `${digits(passes)} passes`;
  const value = make("span.la-g-value", `${cost}, ${duration(ms / 1000)}`);
  return make("li.la-g-row", make("span.la-g-label", count(rows, "row")), track, value);
}

function figure({rows, predict}, guess) {
  const axis = axisOf(rows, guess === null ? 0 : predict);
  const lines = rows.map(row => line(row, axis, row.rows === predict ? guess : null));
  const sample = (className, word) => make("span", drawn(`la-g-swatch.${className}`, {}), word);
  const key = [sample("la-g-fill.la-g-p", "measured"), sample("la-g-whole", "as many passes of one row")];
  if (guess !== null) key.push(sample("la-g-mine", "your guess"));
  const list = make("ul.la-g-rows", {role: "list", "aria-label": "What a pass costs, by its rows"}, ...lines);
  return part("la-g-figure", list, part("la-g-key", ...key));
}

const power = n => (n < 2 ? "" : String(n).replace(/\d/g, digit => "⁰¹²³⁴⁵⁶⁷⁸⁹"[digit]));
/** 1 + α + α² + ... up to the kth power. */
function terms(alpha, k) {
  const all = Array.from({length: k + 1}, (_, i) => (i ? exact(alpha) + power(i) : "1"));
  return (k > SHORTEST ? [...all.slice(0, 3), "...", all[k]] : all).join(" + ");
}

/** The speedup that theory expects, line by line, with the numbers in it. */
function arithmetic({alpha, k, c, v, tokens, cost, speedup, plain}) {
  const draft = `${k} × ${exact(c, 3)}`;
  const [t, whole, result, bound] = [tokens, cost, speedup, plain].map(digits);
  const lines = [
    ["tokens per pass", `1 + α + ... = ${terms(alpha, k)} = `, t, ""],
    ["cost of a pass", `v + k × c = ${digits(v)} + ${draft} = `, whole, ""],
    ["speedup", `${t} / ${whole} = `, result, speedup < 1 ? ", slower than naive decoding: do not draft" : ""],
    ["at most", `${t} / (1 + ${draft}) = `, bound, ", Leviathan’s formula: v = 1, as if rows were free"],
  ];
  const measured = `v, a pass of ${k + 1} rows, and c, a drafted token, both in one-row passes`;
  const given = text("la-g-small", `α = ${exact(alpha)} and k = ${k} are given. Measured here: ${measured}.`);
  const entries = lines.flatMap(([name, sum, value, more]) => [
    make("dt", name),
    make("dd", sum, make("b", value), more),
  ]);
  return part("la-g-arithmetic", given, make("dl", ...entries));
}

export function cost(data) {
  const {rows, predict, sum} = data;
  if (!rows.length) return [make("p", "Nothing has been measured on this machine yet.")];
  const shown = guess => [figure(data, guess), ...(sum ? [arithmetic(sum)] : [])];
  const predicted = rows.find(row => row.rows === predict && predict > 1);
  return predicted ? [question(predicted, shown)] : shown(null);
}

/** Asks for a guess; `shown(guess)` takes its place. */
function question({rows: most, passes}, shown) {
  const id = newId();
  const middle = tenths((1 + most) / 2);
  const value = make("output.la-g-output", {for: id});
  const range = make("input.la-g-range", {id, type: "range", min: 1, max: most, step: 0.1, value: middle});
  const ask = `How many one-row passes does a pass of ${most} rows cost on this machine?`;
  const tell = () => {
    setText(value, `${tenths(Number(range.value))} passes`);
    range.setAttribute("aria-valuetext", value.textContent);
    range.style.setProperty("--la-g-done", percent((range.value - 1) / (most - 1)));
  };
  const show = button("show", () => {
    const guess = Number(range.value);
    const result = make("b", `it is ${digits(passes)}.`);
    const answer = make("p.la-g-said", {tabindex: "-1"}, `You guessed ${tenths(guess)}; `, result);
    box.replaceChildren(answer, ...shown(guess));
    answer.focus();
  });
  range.addEventListener("input", tell);
  tell();
  const ends = ["1: as cheap as one row", `${most}: every row at full cost`].map(words => make("span", words));
  const label = make("label.la-g-question", {for: id}, ask);
  const box = part("la-g-stack", label, part("la-g-predict", range, value, show), part("la-g-ends", ...ends));
  return box;
}
