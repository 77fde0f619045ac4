/* overlap.js: p and q as draggable bars with their overlap, the residual of p, and random throws. A token drafted
   from q is accepted with probability min(1, p/q), else one is drawn from the residual, so the results follow p. */

import {make, setText} from "../../page/dom.js";
import {hundredths, percent} from "../../page/numbers.js";
import {button, part} from "../widget.js";
import {end} from "./handles.js";

const WORDS = ["cat", "dog", "fox"];
const THROWS = 200;

/** Set one share. The others are scaled in proportion, or equal if all of them were 0. */
export function withShare(shares, i, value) {
  const othersSum = shares.reduce((sum, share, j) => (j === i ? sum : sum + share), 0);
  const others = shares.length - 1;
  return shares.map((share, j) =>
    j === i ? value : othersSum ? (share / othersSum) * (1 - value) : (1 - value) / others,
  );
}

export const overlapOf = (p, q) => p.map((share, i) => Math.min(share, q[i]));
const sum = list => list.reduce((a, b) => a + b, 0);

/** The residual distribution, which is drawn from after a rejection; null if p equals q. */
export function residual(p, q) {
  const left = p.map((share, i) => Math.max(0, share - q[i]));
  return sum(left) > 1e-9 ? left.map(share => share / sum(left)) : null;
}

function pick(shares) {
  let left = Math.random();
  for (const [i, share] of shares.entries()) {
    left -= share;
    if (left < 0) return i;
  }
  return shares.indexOf(Math.max(...shares)); // the shares add up to 1, except for rounding
}

/** The token that one throw emits. */
function throwOnce(p, q) {
  const drafted = pick(q);
  return Math.random() * q[drafted] < p[drafted] ? drafted : pick(residual(p, q) || p);
}

/** A token's two bars with draggable ends, and a line at its share of the results. Returns {node, show}. */
function column(word, i, shares, change) {
  const bars = ["p", "q"].map(name => {
    const fill = make(`span.la-f-bar.la-f-${name}`);
    const common = make("span.la-f-common");
    const track = make("div.la-f-track", fill, common);
    const [handle, update] = end(
      `${name} of ${word}`,
      track,
      () => shares[name][i],
      value => change(name, i, value),
    );
    track.append(handle);
    return {name, fill, common, handle, track, update};
  });
  const result = make("span.la-f-came");
  const pair = part("la-f-pair", ...bars.map(bar => bar.track), make("div.la-f-outcome", result));

  function show(common, share) {
    for (const bar of bars) {
      const at = shares[bar.name][i];
      bar.fill.style.height = bar.handle.style.bottom = percent(at);
      bar.common.style.height = percent(common);
      bar.handle.dataset.value = hundredths(at);
      bar.update();
    }
    result.style.height = percent(share);
    result.hidden = !share;
  }

  return {node: part("la-f-column", pair, make("span.la-f-label", word)), show};
}

const listed = shares => WORDS.map((word, i) => `${word} ${hundredths(shares[i])}`).join(", ");

export function figure() {
  const shares = {p: [0.5, 0.3, 0.2], q: [0.2, 0.7, 0.1]};
  let counts = WORDS.map(() => 0);
  const summary = make("p.la-f-advice", {"aria-live": "polite"});
  const columns = WORDS.map((word, i) =>
    column(word, i, shares, (name, at, value) => {
      shares[name] = withShare(shares[name], at, value);
      counts = WORDS.map(() => 0);
      draw();
    }),
  );

  function draw() {
    const common = overlapOf(shares.p, shares.q);
    const total = sum(counts);
    const results = counts.map(n => (total ? n / total : 0));
    for (const [i, {show}] of columns.entries()) show(common[i], results[i]);
    const left = residual(shares.p, shares.q);
    const residualNote = left ? `; otherwise a token is drawn from the residual: ${listed(left)}` : "";
    const throwsNote = total ? ` After ${total} throws: ${listed(results)}.` : "";
    setText(summary, `Accepted with probability ${hundredths(sum(common))}${residualNote}.${throwsNote}`);
  }

  const throwAll = () => {
    for (let i = 0; i < THROWS; i++) counts[throwOnce(shares.p, shares.q)] += 1;
    draw();
  };
  const key = make(
    "p.la-g-small",
    "Left bar: p, the target’s. Right bar, dashed: q, the drafter’s. Drag their ends. ",
    "Filled: the overlap. Black line: the result.",
  );
  draw();
  return [
    part("la-f-columns", ...columns.map(({node}) => node)),
    key,
    button(`throw ${THROWS} dice`, throwAll),
    summary,
  ];
}
