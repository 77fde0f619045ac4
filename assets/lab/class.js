/* class.js: a class of texts, played twice on one clock: one token per pass above, with drafts below.

   What it is.  `mount({element, read, watch})` fills an element with small lanes from the document that
   `play` of `measure/batches.py` writes. Of a pass it knows when it ended and what it wrote of every text.

   Why it is so.  Both halves stand still until their first pass has ended, as they did, and the one that is done first
   waits for the other: who looks on sees the difference before reading a number.

   What it does not know.  Models, the main timeline. Texts are untrusted: they enter through text nodes. */

import {make, setText} from "../page/dom.js";
import {count, digits, duration, perSecond} from "../page/numbers.js";

const SHOWN_S = 12; // a class that was written faster than this is played more slowly
const calm = matchMedia("(prefers-reduced-motion: reduce)");

/** One half: its small lanes, and `draw(at)`, which brings them to that second of its clock. */
function half({method, passes, tokens}, texts) {
  const ends = [];
  for (const {seconds} of passes) ends.push((ends.at(-1) || 0) + seconds);
  const total = ends.at(-1) || 0;
  const lanes = texts.map(({id, prompt}) => {
    const words = make("span.la-c-words");
    const cell = make("div.la-c-lane", {tabindex: "0", role: "region", "aria-label": `${id}, ${method}`});
    cell.append(make("span.la-c-prompt", {dir: "auto"}, prompt), words);
    return {cell, words};
  });
  const told = make("span.la-c-told");
  const name = method === "naive" ? "one token per pass" : `with drafts: ${method}`;
  const node = make("section.la-c-half", make("h4", name, told), make("div.la-c-lanes", ...lanes.map(l => l.cell)));
  let shown = 0;

  function add(passed) {
    for (const [number, , accepted, pieces] of passed.texts) {
      const {words} = lanes[number];
      words.append(...pieces.map((piece, i) => make(`span${i < accepted ? ".la-c-accepted" : ""}`, piece)));
    }
  }

  function draw(at) {
    let due = ends.findIndex(end => end > at);
    if (due < 0) due = passes.length;
    if (due < shown) {
      for (const {words} of lanes) words.replaceChildren();
      shown = 0;
    }
    const moved = shown < due;
    while (shown < due) add(passes[shown++]);
    if (moved) for (const {cell} of lanes) cell.scrollTop = cell.scrollHeight;
    const rate = due === passes.length ? `, ${perSecond(tokens / total)} in total` : "";
    setText(told, ` ${count(shown, "pass")}, ${duration(Math.min(at, total))}${rate}`);
  }

  return {node, draw, total};
}

/** What came out, in a sentence or two. */
function verdictOf({arms, identical, speedup}, seconds) {
  const [first, second] = seconds.map(duration);
  const texts = identical ? "The same texts" : "Texts that differ by rounding";
  const drafted = arms[1].passes.some(one => one.texts.some(([, drafts]) => drafts > 0));
  const none = drafted ? "" : " No draft was worth its rows in a pass of eight texts, so nothing was drafted.";
  return `${texts}, done after ${second} instead of ${first}: ${digits(speedup)}x.${none}`;
}

function player(data) {
  const halves = data.arms.map(arm => half(arm, data.texts));
  const most = Math.max(...halves.map(one => one.total));
  const slower = Math.max(1, SHOWN_S / most);
  const pace = slower > 1 ? `played ${slower.toFixed(0)} times slower than it ran` : "as fast as it ran";
  const scrub = make("input", {type: "range", min: 0, max: most, step: most / 500, "aria-label": "time"});
  const button = make("button.la-c-play", {type: "button"});
  const verdict = verdictOf(
    data,
    halves.map(one => one.total),
  );
  const outcome = make("p.la-c-outcome", {"aria-live": "polite"});
  const node = make("div.la-c-class", make("p.la-c-bar", button, scrub, make("span", pace)), outcome);
  node.append(...halves.map(one => one.node));
  let at = calm.matches ? most : 0;
  let last = null;

  function draw() {
    for (const one of halves) one.draw(at);
    scrub.value = at;
    setText(button, last === null ? (at < most ? "Play" : "Again") : "Pause");
    setText(outcome, at < most ? "\u00a0" : verdict);
  }

  function tick(now) {
    if (last === null || !node.isConnected) return;
    if (node.offsetParent) at = Math.min(most, at + Math.max(0, now - last) / 1000 / slower);
    last = at < most ? now : null;
    draw();
    requestAnimationFrame(tick);
  }

  function play(on) {
    if (on && at >= most) at = 0;
    last = on ? performance.now() : null;
    draw();
    if (on) requestAnimationFrame(tick);
  }

  button.addEventListener("click", () => play(last === null));
  scrub.addEventListener("input", () => {
    at = Number(scrub.value);
    play(false);
  });
  return {node, begin: () => play(!calm.matches)};
}

export function mount({element, read, watch}) {
  const place = element.querySelector(".la-class");
  const show = () => {
    const value = read();
    if (!value) return;
    const {node, begin} = player(JSON.parse(value));
    place.replaceChildren(node);
    begin();
  };
  watch(show);
  show();
}
