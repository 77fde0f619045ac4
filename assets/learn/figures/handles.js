/* handles.js: what a reader takes hold of in a lesson's figure: a slider, a number in a sentence, the end of a
   bar.

    What it is.  `range`, `scrub` and `end` make a control; each calls `change(value)` as it is moved, by pointer,
   by touch or by the arrow keys, and has its value in words for who cannot see it.

    What it does not know.  Figures. */

import {make, setAttr} from "../../page/dom.js";

const PIXELS = 240; // of a drag, from one end of a scrubbed number to the other

const clamp = (x, low, high) => Math.min(high, Math.max(low, x));
const onGrid = (x, {min, max, step}) => clamp(min + Math.round((x - min) / step) * step, min, max);

/** A slider under its label. `words(value)` describes its value. */
export function range(label, {min, max, step, value, words}, change) {
  const input = make("input", {type: "range", min, max, step, value});
  const said = make("output.la-f-said", words(value));
  const node = make("label.la-f-range", make("span", label), input, said);
  const show = x => {
    setAttr(input, "aria-valuetext", words(x));
    said.textContent = words(x);
  };
  input.addEventListener("input", () => {
    show(Number(input.value));
    change(Number(input.value));
  });
  show(value);
  return node;
}

/** What arrow keys, Home and End make of a value; null for other keys. */
function moved(key, value, {min, max, step}) {
  const steps = {ArrowRight: 1, ArrowUp: 1, ArrowLeft: -1, ArrowDown: -1, PageUp: 5, PageDown: -5};
  if (key === "Home") return min;
  if (key === "End") return max;
  return steps[key] ? clamp(value + steps[key] * step, min, max) : null;
}

/** Makes `node` a slider: `at()` is its value, `drag(event, from)` what a drag that began at `from` comes to. */
function slide(node, label, limits, {at, words, drag}, change) {
  const attributes = {role: "slider", tabindex: "0", "aria-label": label};
  for (const [name, value] of Object.entries(attributes)) node.setAttribute(name, value);
  const to = value => {
    change(onGrid(value, limits));
    show();
  };
  const show = () => {
    setAttr(node, "aria-valuemin", String(limits.min));
    setAttr(node, "aria-valuemax", String(limits.max));
    setAttr(node, "aria-valuenow", String(at()));
    setAttr(node, "aria-valuetext", words(at()));
  };
  let from = null;
  node.addEventListener("pointerdown", event => {
    from = {x: event.clientX, y: event.clientY, value: at()};
    node.setPointerCapture(event.pointerId);
    event.preventDefault();
    node.focus();
  });
  node.addEventListener("pointermove", event => from && to(drag(event, from)));
  const drop = () => {
    from = null;
  };
  node.addEventListener("pointerup", drop);
  node.addEventListener("pointercancel", drop);
  node.addEventListener("keydown", event => {
    const value = moved(event.key, at(), limits);
    if (value === null) return;
    event.preventDefault();
    to(value);
  });
  show();
  return show;
}

/** A number to scrub inside a sentence: dragged sideways. */
export function scrub(label, limits, words, change) {
  let {value} = limits;
  const node = make("span.la-f-scrub", words(value));
  const drag = (event, from) => from.value + ((event.clientX - from.x) * (limits.max - limits.min)) / PIXELS;
  slide(node, label, limits, {at: () => value, words, drag}, next => {
    value = next;
    node.textContent = words(value);
    change(value);
  });
  return node;
}

/** The upper end of an upright bar in a track: a share from 0 to 1, dragged up and down. Returns [node, show]. */
export function end(label, track, at, change) {
  const node = make("span.la-f-end");
  const limits = {min: 0, max: 1, step: 0.01};
  const drag = event => {
    const box = track.getBoundingClientRect();
    return (box.bottom - event.clientY) / box.height;
  };
  return [node, slide(node, label, limits, {at, words: x => x.toFixed(2), drag}, change)];
}
