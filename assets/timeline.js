/* timeline.js: the token timeline. One renderer, its controls, and the entry point `mount`.

   What it is.  `mount({element, read, watch, resend, make, open})` builds the whole component once inside
   `element.querySelector('.la-timeline')` and from then on only changes what differs between two frames: `read()`
   gives the first batch, `watch(fn)` calls when there is another, `resend(run, received)` asks for what was lost;
   `make` and `open` are for home.js. All but `read` and `watch` may be absent. One that is not the page's main timeline
   (`main: false`) hears keys only when it has the focus, plays by itself only what is live, takes nothing home, and
   is not brought back by a reload.

   Why it is so.  Frames come from lookaheadPlayer.frameAt, which is pure; this file keeps no truth of its own beyond
   which run, which instant, and what the reader chose. The lanes' text is lane.js's business, the canvas chart.js's, a
   single pass or token inspector.js's.

   What it does not know.  Gradio (the host passes three functions), how drafts are made or judged, any number it
   was not sent or could not divide itself. */

const lookaheadTimeline = (() => {
  "use strict";
  const P = lookaheadPlayer, {make, setText, setFlag, setAttr, signs} = lookaheadLane, {skeleton, icon, PLAY, PAUSE} = lookaheadSkeleton;
  const LIVE_FRAME_MS = 100;
  const STORE = "lookahead-timeline", STORE_LIMIT = 3e6;

  // ---------------------------------------------------------------- mount

  function mount(host) {
    const {element, read, watch, resend, main = true} = host;
    const root = element.querySelector(".la-timeline");
    const before = element.laTimeline;                     // mounted again on the same element: take over its log
    if (before) before.destroy();
    const log = before ? before.log : P.createLog();
    const ui = skeleton(root), chart = lookaheadChart.create(root);
    const ends = new AbortController(), {signal} = ends;
    const inspector = lookaheadInspector.create({close: () => inspect(null), go: (lane, step) => inspect({lane, step})});
    ui.chartbox.append(chart.canvas);
    ui.home.hidden = !main;
    ui.panel.append(inspector.node);
    // An ancestor that hides overflow would hold the phone's sticky transport captive; clipping looks the same and does not.
    for (let node = element; node && node !== document.body; node = node.parentElement) {
      if (getComputedStyle(node).overflow === "hidden") node.style.overflow = "clip";
    }
    let t = before ? before.view().t : 0, playing = before ? before.view().playing : false;
    let rate = 1 / 8, teaching = true, paced = false, restored = false, paused = false, closed = false;
    let lanes = [], scores = [], spoken = "", hovered = null, picked = null, first = null, drawnAt = null, drawnWhen = 0, arrived = 0, problem = "";

    const clock = P.createClock(elapsed => {
      const edge = P.liveEdge(log);
      t = Math.min(t + elapsed * rate, edge);
      if (P.isDone(log) && t >= edge) setPlaying(false);
      // While the race is being run the server may share this machine's cores: draw little but news, so that it is measured better.
      const now = performance.now();
      if (log.live && !P.isDone(log) && now - drawnWhen < LIVE_FRAME_MS) return;
      drawnWhen = now;
      render();
    });
    const repair = P.createRepair({log, receive: text => receive(text, true), changed: () => render(true),
                                   resend: (run, from) => resend ? resend(run, from) : null});

    const home = lookaheadHome.create({log, ui, host, receive: text => receive(text), passNow: () => passNow()});

    // ---- messages in

    function parse(text) { try { return text ? JSON.parse(text) : null; } catch (_) { return null; } }

    function receive(text, reply) {
      const batch = typeof text === "string" ? parse(text) : text;
      const late = log.live && log.header && !P.isDone(log) && batch && String(batch.run).startsWith("recording-");   // a chip's, after Race
      if (!batch || late || (reply && batch.run !== log.run)) return {fresh: false, applied: 0, gap: log.seen > log.received};
      if (batch.error != null) {                                   // refused: what is shown stays as it is
        problem = String(batch.error);
        setText(ui.say, problem);
        render(true);
        return {fresh: false, applied: 0, gap: false};
      }
      const had = log.header, outcome = P.applyBatch(log, batch);
      if (outcome.fresh) { restored = false; problem = ""; }
      if (outcome.fresh || log.header !== had) newRun();
      if (!reply) repair.heard(performance.now(), outcome);
      arrived += 1;
      drawnWhen = 0;                                               // news is drawn with the next frame
      if (teaching && !paced) { const pace = P.teachingRate(log); rate = pace.rate; paced = pace.settled; }
      if (log.stopped && !paused) { paused = true; setPlaying(false); }
      announce();
      if (!playing) render(true);
      return outcome;
    }

    function heard() {
      if (closed) return;
      const share = Number((window.lookahead || {}).drop) || 0;    // tests lose updates on purpose
      if (share > 0 && Math.random() < share) return;
      const text = read();
      if (restored && text === first) return;                      // the bundled recording, shown again by the host
      receive(text);
    }

    function newRun() {
      t = 0; hovered = picked = null; paused = false;
      if (teaching) paced = false;
      spoken = "";
      inspector.hide();
      lanes = log.lanes.map((lane, i) => lookaheadLane.create(lane, log, {
        hover: step => hover(i, step), pick: step => pick(i, step), point: (step, part, node) => point(i, step, part, node)}));
      scores = log.lanes.map(() => ["rowheader", "cell", "cell", "cell", "cell"].map(role => make("span", "la-cell", {role})));
      ui.scores.replaceChildren(...log.lanes.map((lane, i) => {
        setText(scores[i][0], lane.name);
        return make("div", `la-score${lane.naive ? " la-naive" : ""}`, {role: "row"}, ...scores[i]);
      }));
      ui.lanes.replaceChildren(...(lanes.length ? lanes.map(lane => lane.node) : [make("p", "la-empty")]));
      ui.lanes.style.setProperty("--la-columns", String([1, 1, 2, 3][lanes.length] || 2));
      setFlag(root, "la-many", lanes.length > 3);
      ui.details.hidden = true;
      ui.details.open = false;
      if (log.pass) seek(lastLane().ends[lastLane().passes.indexOf(log.pass)] || 0);
      else setPlaying(lanes.length > 0 && (main || log.live));
    }
    const lastLane = () => log.lanes[log.lanes.length - 1];
    const passNow = () => { const lane = lastLane(), view = lane && P.frameAt(log, t).lanes[log.lanes.length - 1]; return view ? view.passes : 0; };

    // ---- playback

    function setPlaying(on) {
      if (on === playing) return;
      playing = on;
      if (on) clock.start(); else clock.stop();
      render(true);
    }
    function seek(to, keepPlaying) {
      t = Math.max(0, Math.min(P.liveEdge(log), to));
      if (!keepPlaying) setPlaying(false);
      render(true);
    }
    function toggle() {
      if (!playing && P.isDone(log) && t >= P.liveEdge(log) - 1e-9) t = 0;
      setPlaying(!playing && lanes.length > 0);
    }
    function shift(direction) {
      const i = P.RATES.indexOf(rate) + direction;
      if (i < 0 || i >= P.RATES.length) return;
      rate = P.RATES[i];
      teaching = false;
      render(true);
    }
    function teach() { teaching = true; const pace = P.teachingRate(log); rate = pace.rate; paced = pace.settled; render(true); }
    function keep(on) {
      setFlag(root, "la-keep", on);
      setAttr(ui.keep, "aria-pressed", String(on));
      setAttr(ui.fade, "aria-pressed", String(!on));
      for (const lane of lanes) lane.toEnd();
    }

    // ---- a pass under the pointer, or chosen

    function hover(lane, step) { hovered = step < 0 ? null : {lane, step}; render(true); }
    function pick(lane, step) {
      if (step < 0) return;
      inspect(picked && picked.lane === lane && picked.step === step ? null : {lane, step});
    }
    /** Opens a pass in the inspector; null closes it. */
    function inspect(choice) {
      picked = choice;
      if (choice) inspector.show(log, choice.lane, choice.step); else inspector.hide();
      render(true);
    }
    /** The card of the token under the pointer, beside it and inside the figure. */
    function point(lane, step, part, node) {
      ui.cardbox.hidden = !node;
      if (!node) return;
      ui.cardbox.replaceChildren(lookaheadInspector.card(log, lane, step, part));
      const all = root.getBoundingClientRect(), at = node.getClientRects()[0] || node.getBoundingClientRect(), size = ui.cardbox.getBoundingClientRect();
      const below = at.bottom + 8, fits = below + size.height < innerHeight || at.top - size.height < 8;
      ui.cardbox.style.left = `${Math.max(0, Math.min(all.width - size.width, at.left - all.left))}px`;
      ui.cardbox.style.top = `${(fits ? below : at.top - size.height - 8) - all.top}px`;
    }
    function view(name) {
      root.dataset.view = name;
      for (const button of ui.heat) setAttr(button, "aria-pressed", String(button.dataset.view === name));
    }
    function chosen(frame) {
      const lane = frame.lanes.length - 1;
      return hovered || picked || (lane < 0 ? null : {lane, step: frame.lanes[lane].settled - 1});
    }

    // ---- what is said in words

    function state() {
      if (!log.run) return "empty";
      if (log.end && log.end.reason === "error") return "error";
      if (log.stopped) return "stopped";
      if (log.end) return log.caption && !log.live ? "recording" : "finished";
      if (repair.lost) return "lost";
      return log.header && !log.status ? "running" : "waiting";
    }

    function statusLine(kind) {
      const count = Math.max(0, ...log.lanes.map(lane => lane.tokens[lane.tokens.length - 1] || 0));
      const again = restored ? "Restored after a reload. " : "";
      if (kind === "empty") return "Nothing to show yet. Press Race to run the prompt.";
      if (kind === "lost") return "Connection lost: showing what arrived. Still trying.";
      if (kind === "error") return `${again}The run ended early. What arrived is below.`;
      if (kind === "stopped") return `${again}Stopped by you after ${count} tokens.`;
      if (kind === "recording") return again + log.caption;
      if (kind === "finished") return `${again}Finished.${unhelpful() ? " No drafted token was accepted." : ""}`;
      if (kind === "waiting") return log.status ? log.status.text : "Waiting for the first words.";
      return `${again}Running: ${count} of at most ${log.header.settings.max_new_tokens} tokens.`;
    }
    const unhelpful = () => log.lanes.length > 1 && log.lanes.every(lane => lane.steps.every(step => !step.origins.includes("accepted")));

    /** For screen readers: the start and the outcome of a run, nothing in between. */
    function announce() {
      const kind = state(), names = log.lanes.map(lane => lane.name).join(" and ");
      const end = P.frameAt(log, P.duration(log)), {number, words} = P.headline(end.speedup);
      const text = kind === "running" ? `Race started: ${names}.` : kind === "empty" || kind === "waiting" ? ""
        : kind === "error" ? `${statusLine(kind)} ${log.end.message || ""}`
        : `${statusLine(kind)} ${end.speedup == null ? "" : `${number} ${words}.`}`;
      if (text && text !== spoken) { spoken = text; setText(ui.say, text); }
    }

    // ---- the frame on the page

    function render(changed) {
      if (closed || (!changed && drawnAt && drawnAt.t === t && drawnAt.arrived === arrived)) return;
      drawnAt = {t, arrived};
      const frame = P.frameAt(log, t), edge = P.liveEdge(log), kind = state();
      setAttr(root, "data-state", kind);
      lanes.forEach((lane, i) => lane.update(frame.lanes[i], playing));
      renderHead(frame, kind);
      renderTransport(edge);
      renderFoot(frame);
      chart.draw(log, frame);
    }

    function renderHead(frame, kind) {
      const {number, words} = P.headline(frame.speedup), agreement = log.end && log.end.agreement || [];
      setText(ui.statusText, statusLine(kind));
      const fraction = log.status && log.status.fraction;
      setFlag(ui.bar, "la-on", fraction != null);
      if (fraction != null) ui.bar.firstChild.style.width = `${Math.round(fraction * 100)}%`;
      setText(ui.number, number);
      setFlag(ui.number, "la-none", number === "—");
      setText(ui.words, words);
      const rejection = log.header && log.header.settings.rule === "rejection";
      const whose = frame.lanes.length > 2 && words ? `${lastLane().name} against naive` : "";
      setText(ui.note, [whose, rejection ? "rejection sampling: same distribution, different text" : ""].filter(Boolean).join("; "));
      frame.lanes.forEach((lane, i) => {
        const badge = lane.finished || frame.atEnd ? agreement[i] : null;
        const cells = [P.seconds(lane.clock), P.perSecond(lane.rate), `${P.perPass(lane.perPass)} tokens a pass`, badge ? badge.badge : ""];
        cells.forEach((text, c) => setText(scores[i][c + 1], text));
        if (badge) { setAttr(scores[i][4], "title", badge.detail || badge.badge); setFlag(scores[i][4], "la-differs", badge.identical === false); }
        setFlag(scores[i][4], "la-same", Boolean(badge && badge.identical));
      });
      const failed = log.end && log.end.reason === "error" ? log.end.message || "The run failed; the server gave no reason. Press Race to try again." : "";
      const message = problem || failed;
      ui.error.hidden = !message;
      setText(ui.error, message);
    }

    function renderTransport(edge) {
      const total = P.duration(log);
      setAttr(ui.play, "aria-label", playing ? "Pause" : "Play");
      if (ui.play.laPlaying !== playing) { ui.play.laPlaying = playing; ui.play.title = playing ? "Pause" : "Play"; ui.play.replaceChildren(icon(playing ? PAUSE : PLAY)); }
      setAttr(ui.scrub, "max", String(total || 1));
      ui.scrub.value = String(t);
      ui.scrub.style.setProperty("--la-done", `${total ? t / total * 100 : 0}%`);
      setAttr(ui.scrub, "aria-valuetext", `${t.toFixed(2)} s of ${total.toFixed(2)} s`);
      renderMarks(total);
      setText(ui.time, `${t.toFixed(2)} of ${total.toFixed(2)} s`);
      setText(ui.rate, P.rateLabel(rate));
      setAttr(ui.teach, "aria-pressed", String(teaching));
      setText(ui.pace, P.rateWords(rate));
      ui.slower.disabled = rate === P.RATES[0];
      ui.faster.disabled = rate === P.RATES[P.RATES.length - 1];
      for (const control of [ui.play, ui.back, ui.next, ui.scrub]) control.disabled = !lanes.length;
      ui.back.disabled = ui.back.disabled || t <= 0;
      ui.next.disabled = ui.next.disabled || t >= edge;
    }

    /** Where each lane finished, on the rail. */
    function renderMarks(total) {
      const done = log.lanes.filter(lane => lane.finish), key = `${log.run}/${total}/${done.length}`;
      if (ui.marks.laKey === key) return;
      ui.marks.laKey = key;
      ui.marks.replaceChildren(...done.map(lane => {
        const mark = make("span", `la-mark${lane.naive ? " la-naive" : ""}`, {title: `${lane.name} finished at ${P.seconds(lane.clock)}`});
        mark.style.left = `${lane.clock / (total || 1) * 100}%`;
        return mark;
      }));
    }

    function renderFoot(frame) {
      const choice = chosen(frame), {lead, said, tail} = choice ? P.describePass(log, choice.lane, choice.step) : {lead: "", said: null, tail: ""};
      const key = choice ? [log.run, choice.lane, choice.step, P.isDone(log), choice === hovered || choice === picked].join("/") : "";
      if (ui.pass.laKey !== key) {
        ui.pass.laKey = key;
        const quote = said === null ? [] : ["“", make("bdi", "la-said", {}, signs(said.trim() || said)), "”"];
        ui.pass.replaceChildren(lead, ...quote, tail);
        lanes.forEach((lane, i) => lane.mark((hovered || picked) && choice.lane === i ? choice.step : -1));
      }
      ui.open.hidden = !choice || choice.step < 0;
      home.update();
      const verdict = log.end && log.end.verdict;
      if (verdict && (frame.atEnd || log.stopped) && ui.details.hidden) {   // once the playhead has seen the end it stays
        setText(ui.verdict, verdict.sentence || "");
        ui.sums.replaceChildren(...(verdict.arithmetic || []).map(line => make("p", "", {}, line)));
        ui.details.hidden = false;
      }
    }

    // ---- hands on the controls

    const on = (node, type, handler, options) => node.addEventListener(type, handler, {signal, ...options});
    on(ui.play, "click", toggle);
    on(ui.back, "click", () => seek(P.neighbour(log, t, -1)));
    on(ui.next, "click", () => seek(P.neighbour(log, t, 1)));
    on(ui.scrub, "input", () => seek(Number(ui.scrub.value), true));
    on(ui.slower, "click", () => shift(-1));
    on(ui.faster, "click", () => shift(1));
    on(ui.teach, "click", teach);
    on(ui.fade, "click", () => keep(false));
    on(ui.keep, "click", () => keep(true));
    on(ui.open, "click", () => inspect(chosen(P.frameAt(log, t))));
    for (const button of ui.heat) on(button, "click", () => view(button.dataset.view));
    on(ui.ask, "click", () => ui.help.showModal());
    const drag = event => { if (event.buttons & 1) seek(chart.timeAt(event.clientX), true); };
    on(chart.canvas, "pointerdown", drag);
    on(chart.canvas, "pointermove", drag);
    on(document, "keydown", event => {
      const target = event.target, own = root.contains(target);
      if (event.defaultPrevented || event.ctrlKey || event.metaKey || event.altKey || !root.getClientRects().length) return;
      if (!own && (!main || target !== document.body)) return;
      if (target.isContentEditable || (/^(INPUT|TEXTAREA|SELECT)$/.test(target.tagName) && target !== ui.scrub)) return;
      const pressed = /^(BUTTON|SUMMARY|A)$/.test(target.tagName) && event.key === " ";   // Space presses those itself
      const act = {" ": pressed ? null : toggle, ArrowLeft: () => seek(P.neighbour(log, t, -1)), ArrowRight: () => seek(P.neighbour(log, t, 1)),
                   "[": () => shift(-1), "]": () => shift(1), "?": () => ui.help.showModal(), Home: () => seek(0), End: () => seek(Infinity)}[event.key];
      if (act) { event.preventDefault(); act(); }
    });

    // ---- across a reload, and the end of life

    on(window, "pagehide", () => {
      if (!main || !log.live || !log.header) return;
      try {
        const text = JSON.stringify({path: location.pathname, t, playing, stopped: log.stopped, batch: {run: log.run, i0: 0, ev: log.events}});
        if (text.length < STORE_LIMIT) sessionStorage.setItem(STORE, text); else sessionStorage.removeItem(STORE);
      } catch (_) { /* storage is full or forbidden: a reload then starts afresh */ }
    });
    function restore() {
      let saved = null;
      try { saved = parse(sessionStorage.getItem(STORE)); } catch (_) { /* forbidden: nothing to restore */ }
      if (!saved || !saved.batch || saved.path !== location.pathname) return;
      receive(saved.batch);
      if (saved.stopped) receive({stop: 1, run: saved.batch.run});
      restored = true;
      setPlaying(Boolean(saved.playing));
      t = saved.t || 0;
      render(true);
    }

    const widths = new ResizeObserver(([entry]) => {
      setFlag(root, "la-medium", entry.contentRect.width < 1100);
      setFlag(root, "la-phone", entry.contentRect.width <= 640);
      setFlag(root, "la-small", entry.contentRect.width < 352);
    });
    widths.observe(root);
    const watchdog = setInterval(() => {
      if (!root.isConnected) destroy(); else repair.poke(performance.now());
    }, 100);
    function destroy() { closed = true; clock.stop(); clearInterval(watchdog); widths.disconnect(); ends.abort(); chart.destroy(); }
    element.laTimeline = {log, destroy, view: () => ({t, playing})};

    if (main) window.lookahead = Object.assign(window.lookahead || {}, {trace: () => log.header ? JSON.stringify(lookaheadHome.traceOf(log)) : null, state: () => ({
      run: log.run, done: P.isDone(log), received: log.received, expected: log.expected,
      speedup: P.frameAt(log, P.duration(log)).speedup,
      lanes: log.lanes.map(lane => ({method: lane.method, text: P.laneText(lane), tokens: lane.tokens[lane.tokens.length - 1] || 0,
                                     clock_s: lane.clock, finished: Boolean(lane.finish)})),
      t, playing, status: state(), rate, restored, link: log.link, error: ui.error.hidden ? null : ui.error.textContent})});

    const keptT = t, keptPlaying = playing;
    playing = false;
    newRun();
    if (before && log.run) { t = keptT; setPlaying(keptPlaying); }
    first = read();
    const opening = parse(first);
    receive(first);
    if (main && !before && (!opening || !log.live)) restore();
    watch(heard);
    render(true);
    return {destroy};
  }

  return {mount};
})();
