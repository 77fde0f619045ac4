/* class.js: a class of texts, played twice on one clock: one token per pass above, with drafts below. The data come
   from `measure/batches.py`; texts are untrusted and become text nodes. */

import {button, make, setText} from "../page/dom.js";
import {count, digits, duration, perSecond} from "../page/numbers.js";

const SHOWN_S = 12; // a faster class is played more slowly, so that it takes this long
const calm = matchMedia("(prefers-reduced-motion: reduce)");

/** One half of the class: {node, draw, total}. `draw(at)` shows the small lanes at that second of its clock. */
function half({method, passes, tokens}, texts) {
  const ends = [];
  for (const {seconds} of passes) ends.push((ends.at(-1) || 0) + seconds);
  const total = ends.at(-1) || 0;
  const lanes = texts.map(({id, prompt}) => {
    const text = make("span.la-c-words");
    const cell = make("div.la-c-lane", {tabindex: "0", role: "group", "aria-label": `${id}, ${method}`});
    cell.append(make("span.la-c-prompt", {dir: "auto"}, prompt), text);
    return {cell, text};
  });
  const progress = make("span.la-c-told");
  const name = method === "naive" ? "one token per pass" : `with drafts: ${method}`;
  const node = make("section.la-c-half", make("h2", name, progress), make("div.la-c-lanes", ...lanes.map(l => l.cell)));
  let shown = 0;

  function add(passed) {
    for (const [number, , accepted, pieces] of passed.texts) {
      const {text} = lanes[number];
      text.append(...pieces.map((piece, i) => make(`span${i < accepted ? ".la-c-accepted" : ""}`, piece)));
    }
  }

  function draw(at) {
    let due = ends.findIndex(end => end > at);
    if (due < 0) due = passes.length;
    if (due < shown) {
      for (const {text} of lanes) text.replaceChildren();
      shown = 0;
    }
    const moved = shown < due;
    while (shown < due) add(passes[shown++]);
    if (moved) for (const {cell} of lanes) cell.scrollTop = cell.scrollHeight;
    const rate = due === passes.length ? `, ${perSecond(tokens / total)} in total` : "";
    setText(progress, ` ${count(shown, "pass")}, ${duration(Math.min(at, total))}${rate}`);
  }

  return {node, draw, total};
}

/** The outcome in one or two sentences. */
function verdictOf({arms, identical, speedup}, seconds) {
  const [first, second] = seconds.map(duration);
  const texts = identical ? "The same texts" : "Texts that differ by rounding";
  const drafted = arms[1].passes.some(pass => pass.texts.some(([, drafts]) => drafts > 0));
  const none = drafted ? "" : " No draft was worth its rows in a pass of eight texts, so nothing was drafted.";
  return `${texts}, done after ${second} instead of ${first}: ${digits(speedup)}x.${none}`;
}

function player(data) {
  const halves = data.arms.map(arm => half(arm, data.texts));
  const totals = halves.map(entry => entry.total);
  const longest = Math.max(...totals);
  const slower = Math.max(1, SHOWN_S / longest);
  const pace = slower > 1 ? `played ${slower.toFixed(0)} times slower than it ran` : "as fast as it ran";
  const scrub = make("input", {type: "range", min: 0, max: longest, step: longest / 500, "aria-label": "time"});
  const toggle = button("la-c-play", "", () => play(last === null));
  const verdict = verdictOf(data, totals);
  const outcome = make("p.la-c-outcome", {"aria-live": "polite"});
  const node = make("div.la-c-class", make("p.la-c-bar", toggle, scrub, make("span", pace)), outcome);
  node.append(...halves.map(entry => entry.node));
  let at = calm.matches ? longest : 0;
  let last = null;

  function draw() {
    for (const entry of halves) entry.draw(at);
    scrub.value = at;
    setText(toggle, last === null ? (at < longest ? "Play" : "Again") : "Pause");
    setText(outcome, at < longest ? "\u00a0" : verdict);
  }

  function tick(now) {
    if (last === null || !node.isConnected) return;
    if (node.offsetParent) at = Math.min(longest, at + Math.max(0, now - last) / 1000 / slower);
    last = at < longest ? now : null;
    draw();
    requestAnimationFrame(tick);
  }

  function play(on) {
    if (on && at >= longest) at = 0;
    last = on ? performance.now() : null;
    draw();
    if (on) requestAnimationFrame(tick);
  }

  scrub.addEventListener("input", () => {
    at = Number(scrub.value);
    play(false);
  });
  return {node, begin: () => play(!calm.matches)};
}

/** Press the button that starts the class. It exists soon after its section is first opened. */
export function press(left = 50) {
  const start = document.getElementById("la-class-start");
  if (start) start.click();
  else if (left) setTimeout(press, 100, left - 1);
}

export function mount({element, read, watch}) {
  const container = element.querySelector(".la-class");
  const show = () => {
    const value = read();
    if (!value) return;
    const {node, begin} = player(JSON.parse(value));
    container.replaceChildren(node);
    begin();
  };
  watch(show);
  show();
}
