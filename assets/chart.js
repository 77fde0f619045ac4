/* chart.js: tokens over time, one line a lane, drawn on a canvas.

   What it is.  `create(root)` makes the canvas; `draw(log, frame)` paints one frame: what has been written up to the
   playhead in full ink, what has arrived but is not yet shown in a faint line, the playhead, and under the axis one
   tick for every pass of the last lane, as tall as the tokens it emitted.

   Why it is so.  A canvas redrawn whole costs a fraction of a millisecond a frame and has no state to get wrong; the
   lines are steps because tokens are committed at the end of a pass, not between. Lines are labelled where they end,
   so no second legend is needed.

   What it does not know.  Playback, events, Gradio. Its colours are the page's own custom properties, read again when
   a class on the body changes (that is how the host switches to dark). */

const lookaheadChart = (() => {
  "use strict";

  const MARGIN = {left: 52, right: 72, top: 10, bottom: 42};
  const RUG = 16;                                   // height of the band of pass ticks, under the axis

  /** The largest of 1, 2, 5 times a power of ten that gives at most `count` intervals over `span`. */
  function niceStep(span, count) {
    const raw = span / count, power = Math.pow(10, Math.floor(Math.log10(raw)));
    return [1, 2, 5, 10].map(m => m * power).find(step => step >= raw * 0.999);
  }

  const label = (x, step) => x.toFixed(Math.max(0, -Math.floor(Math.log10(step) + 1e-9)));

  function create(root) {
    const canvas = document.createElement("canvas");
    canvas.className = "la-canvas";
    canvas.setAttribute("role", "img");
    canvas.setAttribute("aria-label", "Tokens over time, a line a lane; the figures in words stand above the lanes");
    const paint = canvas.getContext("2d");
    let size = {width: 0, height: 0}, ink = {}, horizon = {run: null, x: 0}, last = null;

    function readColours() {
      const style = getComputedStyle(root);
      for (const name of ["paper", "ink", "ink-2", "rule", "accent", "draft"]) {
        ink[name] = style.getPropertyValue(`--la-${name}`).trim() || "#777";
      }
      ink.font = `12px ${style.fontFamily}`;
    }

    function resize() {
      const box = canvas.getBoundingClientRect(), scale = window.devicePixelRatio || 1;
      if (!box.width || !box.height) return;
      size = {width: box.width, height: box.height};
      canvas.width = Math.round(box.width * scale);
      canvas.height = Math.round(box.height * scale);
      paint.setTransform(scale, 0, 0, scale, 0, 0);
      redraw();
    }

    function redraw() { if (last) draw(last.log, last.frame); }

    /** The axes' ends. While a race runs they come from an estimate of its length, rounded up and never shrinking. */
    function scales(log) {
      const most = Math.max(1, ...log.lanes.map(lane => lane.tokens[lane.tokens.length - 1] || 0));
      const longest = lookaheadPlayer.duration(log);
      let xMax = longest, yMax = most;
      if (!lookaheadPlayer.isDone(log)) {
        yMax = Math.max(most, (log.header.settings || {}).max_new_tokens || 0);
        for (const lane of log.lanes) {
          const tokens = lane.tokens[lane.tokens.length - 1] || 0;
          if (tokens >= 8 && !lane.finish) xMax = Math.max(xMax, lane.clock * yMax / tokens);
        }
        if (horizon.run !== log.run) horizon = {run: log.run, x: 0};
        if (xMax > horizon.x) horizon.x = Math.ceil(xMax / niceStep(xMax, 5)) * niceStep(xMax, 5);
        xMax = horizon.x;
      }
      xMax = xMax || 1;
      const width = size.width - MARGIN.left - MARGIN.right, height = size.height - MARGIN.top - MARGIN.bottom;
      return {xMax, yMax, left: MARGIN.left, width, base: MARGIN.top + height,
              x: t => MARGIN.left + width * t / xMax, y: n => MARGIN.top + height * (1 - n / yMax)};
    }

    /** The staircase of one lane up to its first `count` steps, carried on level to the instant `until`. */
    function staircase(lane, count, until, scale) {
      let y = scale.y(0);
      paint.beginPath();
      paint.moveTo(scale.x(0), y);
      for (let i = 0; i < count; i++) {
        const x = scale.x(lane.ends[i]);
        paint.lineTo(x, y);
        y = scale.y(lane.tokens[i]);
        paint.lineTo(x, y);
      }
      if (until > lane.clock) until = lane.clock;
      paint.lineTo(scale.x(until), y);
      paint.stroke();
      return {x: scale.x(until), y};
    }

    function text(string, x, y, align, colour) {
      paint.fillStyle = colour;
      paint.textAlign = align;
      paint.fillText(string, x, y);
    }

    function axes(scale) {
      paint.font = ink.font;
      paint.textBaseline = "middle";
      paint.lineWidth = 1;
      paint.strokeStyle = ink.rule;
      for (const n of [0, Math.round(scale.yMax / 2), scale.yMax]) {
        const y = Math.round(scale.y(n)) + 0.5;
        paint.beginPath();
        paint.moveTo(scale.left, y);
        paint.lineTo(scale.left + scale.width, y);
        paint.stroke();
        text(String(n), scale.left - 8, y, "right", ink["ink-2"]);
      }
      const step = niceStep(scale.xMax, Math.max(2, Math.min(6, scale.width / 90)));
      const y = scale.base + RUG + 14;
      for (let t = 0; t <= scale.xMax * 1.0001; t += step) {
        text(t ? label(t, step) : "0 s", scale.x(t), y, "center", ink["ink-2"]);
      }
      text("tokens", scale.left + 8, MARGIN.top + 10, "left", ink["ink-2"]);
    }

    /** One tick a pass under the axis, as tall as what it emitted; those ahead of the playhead are faint. */
    function rug(lane, settled, scale) {
      text("passes", scale.left - 8, scale.base + RUG - 3, "right", ink["ink-2"]);
      const tallest = Math.max(4, ...lane.steps.map(step => step.emitted.length));
      let lastX = -9;
      paint.strokeStyle = ink.accent;
      paint.lineWidth = 1;
      for (let i = 0; i < lane.steps.length; i++) {
        const n = lane.steps[i].emitted.length, x = Math.round(scale.x(lane.ends[i])) + 0.5;
        if (!n || x - lastX < 2) continue;
        lastX = x;
        paint.globalAlpha = i < settled ? 1 : 0.3;
        paint.beginPath();
        paint.moveTo(x, scale.base + 4);
        paint.lineTo(x, scale.base + 4 + Math.max(2, (RUG - 4) * n / tallest));
        paint.stroke();
      }
      paint.globalAlpha = 1;
    }

    function draw(log, frame) {
      last = {log, frame};
      if (!size.width) return;
      paint.clearRect(0, 0, size.width, size.height);
      if (!log.lanes.length) return;
      const scale = scales(log), names = [];
      axes(scale);
      const lastLane = log.lanes.length - 1;
      if (!log.lanes[lastLane].naive) rug(log.lanes[lastLane], frame.lanes[lastLane].settled, scale);
      log.lanes.forEach((lane, i) => {
        const view = frame.lanes[i];
        paint.strokeStyle = lane.naive ? ink.draft : ink.accent;
        paint.setLineDash(lane.naive || i === lastLane ? [] : [4, 3]);
        paint.lineWidth = 1;
        paint.globalAlpha = 0.35;
        const end = staircase(lane, lane.steps.length, lane.clock, scale);
        paint.globalAlpha = 1;
        paint.lineWidth = 2;
        const head = staircase(lane, view.settled, frame.t, scale);
        paint.setLineDash([]);
        paint.fillStyle = paint.strokeStyle;
        paint.beginPath();
        paint.arc(head.x, head.y, 3.5, 0, 7);
        paint.fill();
        names.push({...end, name: lane.name, colour: lane.naive ? ink["ink-2"] : ink.accent});
      });
      playhead(scale.x(Math.min(frame.t, scale.xMax)), scale);
      names.sort((a, b) => a.y - b.y || a.x - b.x).forEach((item, i) => {
        const above = names[i - 1];
        if (above && item.y - above.y < 14 && Math.abs(item.x - above.x) < 64) item.y = above.y + 14;
        paint.strokeStyle = ink.paper;                    // a halo, so that no line runs through a name
        paint.lineWidth = 5;
        paint.textAlign = "left";
        paint.strokeText(item.name, item.x + 9, item.y);
        text(item.name, item.x + 9, item.y, "left", item.colour);
      });
    }

    function playhead(x, scale) {
      paint.strokeStyle = ink["ink-2"];
      paint.lineWidth = 1;
      paint.beginPath();
      paint.moveTo(Math.round(x) + 0.5, 4);
      paint.lineTo(Math.round(x) + 0.5, scale.base + RUG + 4);
      paint.stroke();
    }

    /** The instant under a pointer at `clientX`, for scrubbing on the chart itself. */
    function timeAt(clientX) {
      if (!last || !last.log.lanes.length || !size.width) return 0;
      const scale = scales(last.log), box = canvas.getBoundingClientRect();
      return Math.max(0, Math.min(scale.xMax, (clientX - box.left - scale.left) / scale.width * scale.xMax));
    }

    const sizes = new ResizeObserver(resize);
    sizes.observe(canvas);
    const recolour = () => { readColours(); redraw(); };
    const classes = new MutationObserver(recolour);
    for (const node of [document.body, document.documentElement]) classes.observe(node, {attributes: true, attributeFilter: ["class"]});
    // The stylesheet may arrive after the script: read the colours again once everything has loaded.
    window.addEventListener("load", recolour);
    readColours();

    function destroy() {
      sizes.disconnect();
      classes.disconnect();
      window.removeEventListener("load", recolour);
    }
    return {canvas, draw, timeAt, recolour, destroy};
  }

  return {create, niceStep};
})();
