/* handles.js: controls of a lesson's figure: a slider, a slider with buttons, a choice, a draggable number, the
   draggable end of a bar. Each calls `change(value)` for pointer, touch and keys, and has an accessible value. */

import {make, setAttr} from "../../page/dom.js";
import {button, part} from "../widget.js";

const PIXELS = 240; // of a drag over a draggable number's full range

const clamp = (x, low, high) => Math.min(high, Math.max(low, x));
const onGrid = (x, {min, max, step}) => clamp(min + Math.round((x - min) / step) * step, min, max);

/** A slider under its label. `describe(value)` returns its value as text. */
export function range(label, {min, max, step, value, describe}, change) {
  const input = make("input", {type: "range", min, max, step, value});
  const output = make("output.la-f-said", describe(value));
  const node = make("label.la-f-range", make("span", label), input, output);
  const show = x => {
    setAttr(input, "aria-valuetext", describe(x));
    output.textContent = describe(x);
  };
  input.addEventListener("input", () => {
    show(Number(input.value));
    change(Number(input.value));
  });
  show(value);
  return node;
}

/** A slider with a button for one step back and one for a step forward. Returns {node, set}. */
export function stepper(label, limits, change) {
  const slider = range(label, limits, change);
  const input = slider.querySelector("input");
  const set = value => {
    input.value = value;
    input.dispatchEvent(new Event("input"));
  };
  const move = by => () => set(Number(input.value) + by);
  const back = button("back", move(-1), {"aria-label": `${label}: back`});
  const next = button("next", move(1), {"aria-label": `${label}: next`});
  return {node: part("la-f-stepper", slider, back, next), set};
}

/** Buttons of which one is pressed; `names` are their texts. `change(i)` is called with the index of the choice. */
export function choice(label, names, value, change) {
  const buttons = names.map((name, i) => button(name, () => press(i), {"aria-pressed": String(i === value)}));
  const press = chosen => {
    for (const [i, node] of buttons.entries()) setAttr(node, "aria-pressed", String(i === chosen));
    change(chosen);
  };
  return make("div.la-f-choice", {role: "group", "aria-label": label}, ...buttons);
}

/** The value after a key press; null for keys that do not move a slider. */
function moved(key, value, {min, max, step}) {
  const steps = {ArrowRight: 1, ArrowUp: 1, ArrowLeft: -1, ArrowDown: -1, PageUp: 5, PageDown: -5};
  if (key === "Home") return min;
  if (key === "End") return max;
  return steps[key] ? clamp(value + steps[key] * step, min, max) : null;
}

/** Make `node` a slider: `at()` returns its value, `drag(event, from)` the value of a drag that began at `from`. */
function slide(node, label, limits, {at, describe, drag}, change) {
  const attributes = {role: "slider", tabindex: "0", "aria-label": label};
  for (const [name, value] of Object.entries(attributes)) node.setAttribute(name, value);
  const set = value => {
    change(onGrid(value, limits));
    show();
  };
  const show = () => {
    setAttr(node, "aria-valuemin", String(limits.min));
    setAttr(node, "aria-valuemax", String(limits.max));
    setAttr(node, "aria-valuenow", String(at()));
    setAttr(node, "aria-valuetext", describe(at()));
  };
  let from = null;
  node.addEventListener("pointerdown", event => {
    from = {x: event.clientX, y: event.clientY, value: at()};
    node.setPointerCapture(event.pointerId);
    event.preventDefault();
    node.focus();
  });
  node.addEventListener("pointermove", event => from && set(drag(event, from)));
  const drop = () => {
    from = null;
  };
  node.addEventListener("pointerup", drop);
  node.addEventListener("pointercancel", drop);
  node.addEventListener("keydown", event => {
    const value = moved(event.key, at(), limits);
    if (value === null) return;
    event.preventDefault();
    set(value);
  });
  show();
  return show;
}

/** A number in a sentence that is dragged horizontally, or along the `axis` y. `pixels` are those of the full range. */
export function scrub(label, limits, describe, change, {axis = "x", pixels = PIXELS} = {}) {
  let {value} = limits;
  const node = make(`span.la-f-scrub.la-f-along-${axis}`, describe(value));
  const moved = axis === "x" ? (event, from) => event.clientX - from.x : (event, from) => event.clientY - from.y;
  const drag = (event, from) => from.value + (moved(event, from) * (limits.max - limits.min)) / pixels;
  slide(node, label, limits, {at: () => value, describe, drag}, next => {
    value = next;
    node.textContent = describe(value);
    change(value);
  });
  return node;
}

/** The upper end of a vertical bar in a track, a share from 0 to 1, dragged vertically. Returns [node, show]. */
export function end(label, track, at, change) {
  const node = make("span.la-f-end");
  const limits = {min: 0, max: 1, step: 0.01};
  const drag = event => {
    const box = track.getBoundingClientRect();
    return (box.bottom - event.clientY) / box.height;
  };
  return [node, slide(node, label, limits, {at, describe: x => x.toFixed(2), drag}, change)];
}
