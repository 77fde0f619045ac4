/* overlap.js: p and q as bars to drag, what they have in common, what is left of p, and dice that fall into both.

    Why it is so.  The rule is the lesson's own: a token drafted from q is accepted with chance min(1, p/q); else
   one is drawn from what is left. However the bars stand, what comes out settles on p.

    What it does not know.  Models. */

import {make, setText} from "../../page/dom.js";
import {hundredths, percent} from "../../page/numbers.js";
import {button, part} from "../widget.js";
import {end} from "./handles.js";

const WORDS = ["cat", "dog", "fox"];
const THROWS = 200;

/** The other shares make room, in proportion; alike where they were nothing. */
export function withShare(shares, i, value) {
  const rest = shares.reduce((sum, share, j) => (j === i ? sum : sum + share), 0);
  const others = shares.length - 1;
  return shares.map((share, j) => (j === i ? value : rest ? (share / rest) * (1 - value) : (1 - value) / others));
}

export const overlapOf = (p, q) => p.map((share, i) => Math.min(share, q[i]));
const sum = list => list.reduce((a, b) => a + b, 0);

/** What is drawn after a rejection; null where nothing is left. */
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
  return shares.indexOf(Math.max(...shares)); // the shares add up to 1 but for rounding
}

/** The token that comes out of one throw. */
function thrown(p, q) {
  const drafted = pick(q);
  return Math.random() * q[drafted] < p[drafted] ? drafted : pick(residual(p, q) || p);
}

/** A token's two bars with their ends to drag, and the line of what came out. Returns {node, show}. */
function column(word, i, shares, change) {
  const bars = ["p", "q"].map(name => {
    const fill = make(`span.la-f-bar.la-f-${name}`);
    const common = make("span.la-f-common");
    const track = make("div.la-f-track", fill, common);
    const [handle, say] = end(
      `${name} of ${word}`,
      track,
      () => shares[name][i],
      value => change(name, i, value),
    );
    track.append(handle);
    return {name, fill, common, handle, track, say};
  });
  const came = make("span.la-f-came");
  const pair = part("la-f-pair", ...bars.map(bar => bar.track), make("div.la-f-outcome", came));

  function show(common, share) {
    for (const bar of bars) {
      const at = shares[bar.name][i];
      bar.fill.style.height = bar.handle.style.bottom = percent(at);
      bar.common.style.height = percent(common);
      bar.handle.dataset.value = hundredths(at);
      bar.say();
    }
    came.style.height = percent(share);
    came.hidden = !share;
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
    const all = sum(counts);
    const fell = counts.map(n => (all ? n / all : 0));
    for (const [i, {show}] of columns.entries()) show(common[i], fell[i]);
    const left = residual(shares.p, shares.q);
    const drawn = left ? `; otherwise a token is drawn from the residual: ${listed(left)}` : "";
    const after = all ? ` After ${all} throws: ${listed(fell)}.` : "";
    setText(summary, `Accepted with probability ${hundredths(sum(common))}${drawn}.${after}`);
  }

  const roll = () => {
    for (let i = 0; i < THROWS; i++) counts[thrown(shares.p, shares.q)] += 1;
    draw();
  };
  const key = make(
    "p.la-g-small",
    "Left bar: p, the target’s. Right bar, dashed: q, the draft’s. Drag their ends. ",
    "Filled: the overlap. Black line: the result.",
  );
  draw();
  return [part("la-f-columns", ...columns.map(one => one.node)), key, button(`throw ${THROWS} dice`, roll), summary];
}
