/* overlap.js: p and q as draggable bars with their overlap, the residual as bars, and random throws. A token drafted
   from q is accepted with probability min(1, p/q), else one is drawn from the residual, so the results follow p. */

import {make, setText} from "../../page/dom.js";
import {hundredths, percent} from "../../page/numbers.js";
import {part} from "../widget.js";
import {end} from "./handles.js";
import {Throws, WORDS} from "./throws.js";

const KEY = [
  "Left bar: p, the target’s. Right bar, dashed: q, the drafter’s. Drag their ends. ",
  "Filled: the overlap. The short line at the side is the result of the throws.",
];

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
const excessOf = (p, q) => p.map((share, i) => Math.max(0, share - q[i]));

/** The residual distribution, which is drawn from after a rejection; null if p equals q. */
export function residual(p, q) {
  const left = excessOf(p, q);
  return sum(left) > 1e-9 ? left.map(share => share / sum(left)) : null;
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

/** Bars without handles, with their numbers: a row of the residual. Returns {node, show(shares)}. */
function bars(title) {
  const columns = WORDS.map(word => {
    const [fill, value] = [make("span.la-f-bar.la-f-p"), make("span.la-f-said")];
    const track = make("span.la-f-track", fill);
    return {node: part("la-f-level", track, make("span.la-f-label", `${word} `, value)), fill, value};
  });
  const show = shares =>
    columns.forEach(({fill, value}, i) => {
      fill.style.height = percent(shares?.[i] ?? 0);
      fill.hidden = !shares?.[i];
      setText(value, shares ? hundredths(shares[i]) : "—");
    });
  const row = part("la-f-levels", ...columns.map(({node}) => node));
  return {node: part("la-f-residual", make("p.la-g-small", title), row), show};
}

const listed = shares => WORDS.map((word, i) => `${word} ${hundredths(shares[i])}`).join(", ");

export function figure() {
  const shares = {p: [0.5, 0.3, 0.2], q: [0.2, 0.7, 0.1]};
  const summary = make("p.la-f-advice", {"aria-live": "polite"});
  const [excess, normalized] = [bars("max(0, p − q)"), bars("residual: divided by its sum")];
  const distributions = () => [shares.p, shares.q, residual(shares.p, shares.q)];
  const throws = new Throws(distributions, () => draw());
  const columns = WORDS.map((word, i) =>
    column(word, i, shares, (name, at, value) => {
      shares[name] = withShare(shares[name], at, value);
      throws.clear();
      draw();
    }),
  );

  function draw() {
    const [p, q, left] = distributions();
    const common = overlapOf(p, q);
    const {results, title} = throws;
    for (const [i, {show}] of columns.entries()) show(common[i], results[i]);
    excess.show(excessOf(p, q));
    normalized.show(left);
    const overlap = hundredths(sum(common));
    const distance = hundredths(Math.max(0, 1 - sum(common)));
    const variation = `Total variation TV = 1 − ${overlap} = ${distance}, the probability of a rejection.`;
    const note = left ? "" : " The residual is empty.";
    const after = title && ` ${title}: ${listed(results)}.`;
    setText(summary, `Overlap ${overlap}, the probability of acceptance. ${variation}${note}${after}`);
  }

  draw();
  const both = part("la-f-both", excess.node, normalized.node);
  return [
    ...[part("la-f-columns", ...columns.map(({node}) => node)), make("p.la-g-small", ...KEY), both],
    ...[throws.buttons, summary, ...throws.nodes],
  ];
}
