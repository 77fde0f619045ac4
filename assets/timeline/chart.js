/* chart.js: tokens over time on a canvas, one line per lane. Lines are staircases because tokens are committed at the
   end of a pass. The playhead's slider covers the time axis (controls.css repeats the margins). */

import {make} from "../page/dom.js";
import {countUpTo, duration, isDone, tokensOf} from "./log.js";
import {mostTokens} from "./player.js";

const MARGIN = {left: 52, right: 72, top: 8, bottom: 32}; // pixels, as all lengths here
const LINE = 14; // height of a label
const COLORS = ["paper", "ink", "ink-2", "rule", "accent", "draft", "own", "heat"];
// Colors and dashes of the lanes before the last.
const OTHER_LANES = [
  ["own", [7, 3]],
  ["heat", [2, 3]],
  ["ink", [9, 3, 2, 3]],
];
const LABEL = "Tokens over time, one line per lane; the figures are next to the text";
const MIN_TOKENS = 8; // tokens of a lane before its total time is estimated

/** The extent of the axes: {seconds, tokens}. While a race runs, it is estimated from the tokens so far. */
function extent(log) {
  const longest = Math.max(1, ...log.lanes.map(tokensOf));
  if (isDone(log)) return {seconds: duration(log), tokens: longest};
  const tokens = Math.max(longest, log.header.settings?.max_new_tokens || 0);
  const running = log.lanes.filter(lane => tokensOf(lane) >= MIN_TOKENS && !lane.finish);
  const estimates = running.map(lane => (lane.clock * tokens) / tokensOf(lane));
  return {seconds: Math.max(duration(log), ...estimates), tokens};
}

/** The smallest 1, 2 or 5 times a power of ten that divides `span` into at most `intervals`. */
function niceStep(span, intervals) {
  const raw = span / intervals;
  const power = 10 ** Math.floor(Math.log10(raw));
  return [1, 2, 5, 10].map(m => m * power).find(step => step >= raw * 0.999);
}

/** A label of an axis whose ticks are `step` apart. */
const onAxis = (x, step) => x.toFixed(Math.max(0, -Math.floor(Math.log10(step) + 1e-9)));

/** The color's name and the dashes of a lane. */
function styleOf({lanes}, i) {
  if (lanes[i].naive) return ["draft", []];
  return i === lanes.length - 1 ? ["accent", []] : OTHER_LANES.at((i - 1) % OTHER_LANES.length);
}

/** Draw the first `count` passes of a lane as a staircase, because tokens are committed at the end of a pass. */
function drawStaircase(paint, lane, count, scale) {
  let y = scale.y(0);
  paint.beginPath();
  paint.moveTo(scale.x(0), y);
  for (let i = 0; i < count; i++) {
    paint.lineTo(scale.x(lane.ends[i]), y);
    y = scale.y(lane.tokens[i]);
    paint.lineTo(scale.x(lane.ends[i]), y);
  }
  paint.lineTo(scale.x(lane.clock), y);
  paint.stroke();
}

export class Chart {
  canvas = make("canvas.la-canvas", {role: "img", "aria-label": LABEL});
  #root;
  #paint = this.canvas.getContext("2d");
  #size = {width: 0, height: 0};
  #ink = {};
  #horizon = {run: null, seconds: 0}; // end of the time axis of a running race; it never shrinks
  #last = null; // the last drawn {log, frame}
  #layers = {key: "", pictures: []};
  #sizes = new ResizeObserver(() => this.#resize());
  #themes = new MutationObserver(() => this.#readColors());
  #readColors = () => {
    const style = getComputedStyle(this.#root);
    for (const name of COLORS) this.#ink[name] = style.getPropertyValue(`--la-${name}`).trim() || "#777";
    this.#ink.font = `12px ${style.fontFamily}`;
    this.#redraw();
  };

  constructor(root) {
    this.#root = root;
    this.#sizes.observe(this.canvas);
    const classes = {attributes: true, attributeFilter: ["class"]};
    for (const node of [document.body, document.documentElement]) this.#themes.observe(node, classes);
    // The style sheet may arrive after the script: read the colors again once everything has loaded.
    window.addEventListener("load", this.#readColors);
    this.#readColors();
  }

  destroy() {
    this.#sizes.disconnect();
    this.#themes.disconnect();
    window.removeEventListener("load", this.#readColors);
  }

  #resize() {
    const {width, height} = this.canvas.getBoundingClientRect();
    const scale = window.devicePixelRatio || 1;
    if (!width || !height) return;
    this.#size = {width, height};
    this.canvas.width = Math.round(width * scale);
    this.canvas.height = Math.round(height * scale);
    this.#paint.setTransform(scale, 0, 0, scale, 0, 0);
    this.#redraw();
  }

  #redraw() {
    if (this.#last) this.draw(this.#last.log, this.#last.frame);
  }

  /** Functions from seconds and tokens to pixels, and the plot's box. */
  #scale(log) {
    const xMax = this.axis(log);
    const {tokens} = extent(log);
    const width = this.#size.width - MARGIN.left - MARGIN.right;
    const height = this.#size.height - MARGIN.top - MARGIN.bottom;
    const x = t => MARGIN.left + (width * t) / xMax;
    const y = n => MARGIN.top + height * (1 - n / tokens);
    return {xMax, yMax: tokens, left: MARGIN.left, width, base: MARGIN.top + height, x, y};
  }

  /** The end of the time axis in seconds. */
  axis(log) {
    if (!log.lanes.length) return 1;
    const {seconds} = extent(log);
    return (isDone(log) ? seconds : this.#extend(log.run, seconds)) || 1;
  }

  /** Return an estimate in seconds, rounded up, and never less than a previous one of that run. */
  #extend(run, seconds) {
    if (this.#horizon.run !== run) this.#horizon = {run, seconds: 0};
    const step = niceStep(seconds, 5);
    if (seconds > this.#horizon.seconds) this.#horizon.seconds = Math.ceil(seconds / step) * step;
    return this.#horizon.seconds;
  }

  /** Draw one frame: lines up to the playhead in full color, later passes faint. */
  draw(log, frame) {
    this.#last = {log, frame};
    if (!this.#size.width) return;
    this.#paint.clearRect(0, 0, this.#size.width, this.#size.height);
    if (!log.lanes.length) return;
    const scale = this.#scale(log);
    this.#drawAxes(scale);
    const {width, height} = this.#size;
    const [faint, full] = this.#layersOf(log, scale);
    const head = scale.x(Math.min(frame.t, scale.xMax));
    this.#paint.drawImage(faint, 0, 0, width, height);
    this.#paint.save();
    this.#paint.beginPath();
    this.#paint.rect(0, 0, head, height);
    this.#paint.clip();
    this.#paint.drawImage(full, 0, 0, width, height);
    this.#paint.restore();
    const labels = frame.lanes.map(({settled}, i) => this.#drawHead(log, i, settled, frame.t, scale));
    this.#drawPlayhead(head, scale);
    this.#drawLabels(labels);
  }

  /** Pictures of all lines, faint and in full color. They are drawn again only after new events, or in another size or
      color. */
  #layersOf(log, scale) {
    const {width, height} = this.#size;
    const key = [log.run, log.received, log.stopped, width, height, scale.xMax, scale.yMax, this.#ink.accent].join("/");
    if (key === this.#layers.key) return this.#layers.pictures;
    const pictures = [false, true].map(isFull => {
      const picture = make("canvas", {width: this.canvas.width, height: this.canvas.height});
      const paint = picture.getContext("2d");
      paint.scale(picture.width / width, picture.height / height);
      Object.assign(paint, isFull ? {lineWidth: 2} : {lineWidth: 1, globalAlpha: 0.35});
      for (const [i, lane] of log.lanes.entries()) {
        const [color, dash] = styleOf(log, i);
        paint.strokeStyle = this.#ink[color];
        paint.setLineDash(dash);
        drawStaircase(paint, lane, isFull ? countUpTo(lane.tokens, mostTokens(log)) : lane.steps.length, scale);
      }
      return picture;
    });
    this.#layers = {key, pictures};
    return pictures;
  }

  #line(x1, y1, x2, y2) {
    this.#paint.beginPath();
    this.#paint.moveTo(x1, y1);
    this.#paint.lineTo(x2, y2);
    this.#paint.stroke();
  }

  #text(string, x, y, align, color) {
    this.#paint.fillStyle = color;
    this.#paint.textAlign = align;
    this.#paint.fillText(string, x, y);
  }

  #drawAxes(scale) {
    const {font, rule, "ink-2": gray} = this.#ink;
    Object.assign(this.#paint, {font, textBaseline: "middle", lineWidth: 1, strokeStyle: rule});
    for (const tokens of [0, Math.round(scale.yMax / 2), scale.yMax]) {
      const y = Math.round(scale.y(tokens)) + 0.5;
      this.#line(scale.left, y, scale.left + scale.width, y);
      this.#text(String(tokens), scale.left - 8, y, "right", gray);
    }
    const step = niceStep(scale.xMax, Math.max(2, Math.min(6, scale.width / 90)));
    for (let t = 0; t <= scale.xMax * 1.0001; t += step) {
      this.#text(t ? onAxis(t, step) : "0 s", scale.x(t), scale.base + LINE + 6, "center", gray);
    }
    this.#text("tokens", scale.left + 8, MARGIN.top + 10, "left", gray);
  }

  /** Draw the point that a lane has reached at the time t. Returns its label: {x, y, name, color}. */
  #drawHead(log, index, settled, t, scale) {
    const lane = log.lanes[index];
    this.#paint.fillStyle = this.#ink[styleOf(log, index)[0]];
    this.#paint.beginPath();
    const reached = settled ? lane.tokens[settled - 1] : 0;
    this.#paint.arc(scale.x(Math.min(t, lane.clock)), scale.y(reached), 3.5, 0, 2 * Math.PI);
    this.#paint.fill();
    const color = lane.naive ? this.#ink["ink-2"] : this.#ink.ink;
    return {x: scale.x(lane.clock), y: scale.y(tokensOf(lane)), name: lane.name, color};
  }

  #drawPlayhead(x, scale) {
    Object.assign(this.#paint, {strokeStyle: this.#ink["ink-2"], lineWidth: 1});
    this.#line(Math.round(x) + 0.5, 4, Math.round(x) + 0.5, scale.base);
  }

  /** Draw the lanes' names at the ends of the lines, moved apart if they overlap. */
  #drawLabels(labels) {
    labels.sort((a, b) => a.y - b.y || a.x - b.x);
    labels.forEach((label, i) => {
      const above = labels[i - 1];
      if (above && label.y - above.y < LINE && Math.abs(label.x - above.x) < 64) label.y = above.y + LINE;
      // A halo, so that no line crosses a name.
      Object.assign(this.#paint, {strokeStyle: this.#ink.paper, lineWidth: 5, textAlign: "left"});
      this.#paint.strokeText(label.name, label.x + 9, label.y);
      this.#text(label.name, label.x + 9, label.y, "left", label.color);
    });
  }

  /** The time at a pointer's `clientX`, for scrubbing on the chart. */
  timeAt(clientX) {
    if (!this.#last?.log.lanes.length || !this.#size.width) return 0;
    const {left, width, xMax} = this.#scale(this.#last.log);
    const x = clientX - this.canvas.getBoundingClientRect().left - left;
    return Math.max(0, Math.min(xMax, (x / width) * xMax));
  }
}
