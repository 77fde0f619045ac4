/* player.js: the model behind the timeline. Events go in, frames come out.

   What it is.  A race reaches the page as a log of numbered events. `applyBatch` adds a batch of them to a log;
   `frameAt(log, t)` says what the page must show when the lanes' clocks read `t` seconds. Because a frame is a pure
   function of the log and `t`, scrubbing, replaying and stepping are all the same act: choosing another `t`.

   Why it is so.  Batches may be lost, repeated or late, so nothing is applied by arrival: every event has an index,
   what is already here is ignored, and a hole is asked for again (`createRepair`). Time is the lanes' own measured
   clock, never the clock on the wall: the playback rate stretches one into the other.

   What it does not know.  The DOM, colours, Gradio, the network. It never decides what a draft's status is: it
   reads the statuses it was sent. The only browser things it touches are requestAnimationFrame and a timer. */

const lookaheadPlayer = (() => {
  "use strict";

  const RATES = [1 / 16, 1 / 8, 1 / 4, 1 / 2, 1, 2, 4];
  const READING_PACE = 30;       // tokens a second that a reader can still follow
  const EPSILON = 1e-9;          // clocks are sums of floats: closer than this is the same instant

  // ---------------------------------------------------------------- the log

  function createLog() {
    return {retired: [], ...emptyRun(null)};
  }

  function emptyRun(run) {
    return {run, received: 0, seen: 0, expected: null, events: [], header: null, caption: null, live: false, link: null, pass: null,
            status: null, lanes: [], end: null, stopped: false};
  }

  /** Applies one parsed message to `log`, in place.
      Returns {fresh: a new run replaced the old one, applied: how many events were new, gap: some are missing}. */
  function applyBatch(log, batch) {
    const outcome = {fresh: false, applied: 0, gap: false};
    if (!batch || typeof batch !== "object") return outcome;
    if (batch.stop) {
      if (batch.run == null || batch.run === log.run) log.stopped = true;
      return outcome;
    }
    if (batch.run == null || !Array.isArray(batch.ev)) return outcome;
    const first = batch.i0 || 0, last = first + batch.ev.length;
    if (batch.run !== log.run) {
      // A late batch of a run that was replaced must not bring it back; shown again from its start, it may.
      if (log.retired.includes(batch.run) && first > 0) return outcome;
      const retired = [...log.retired, log.run].filter(id => id != null && id !== batch.run).slice(-8);
      Object.assign(log, emptyRun(batch.run), {retired});
      outcome.fresh = true;
    }
    log.seen = Math.max(log.seen, last);
    if (batch.end) log.expected = last;
    if (first <= log.received) {
      for (let i = log.received - first; i < batch.ev.length; i++) {
        log.received += 1;
        log.events.push(batch.ev[i]);
        applyEvent(log, batch.ev[i]);
        outcome.applied += 1;
      }
    }
    outcome.gap = log.seen > log.received;
    return outcome;
  }

  function applyEvent(log, event) {
    if (!event) return;
    if (event.kind === "begin") {
      log.header = event.trace;
      log.caption = event.caption || null;
      log.live = Boolean(event.live);
      log.link = event.link || null;                      // the query that brings this race back
      log.pass = event.pass || null;                      // where a link wants the playhead
      log.status = null;
      log.lanes = event.trace.lanes.map((lane, i, all) => createLane(lane, nameOf(lane, i, all)));
    } else if (event.kind === "status") {
      log.status = {text: event.text || "", fraction: event.fraction == null ? null : event.fraction};
    } else if (event.kind === "step" && log.lanes[event.lane]) {
      log.status = null;
      addStep(log.lanes[event.lane], event.step, event.clock_s);
    } else if (event.kind === "end") {
      log.status = null;
      log.end = event;
      log.expected = log.received;
      if (event.reason === "stopped") log.stopped = true;
    }
  }

  /** What a lane is called: its method, with its options or its number where the method is there more than once. */
  function nameOf(lane, i, all) {
    if (all.filter(other => other.method === lane.method).length < 2) return lane.method;
    const told = Object.entries(lane.options || {}).map(([option, value]) => option === lane.method ? value : `${option} ${value}`).join(", ");
    return `${lane.method} (${told || `lane ${i}`})`;
  }

  function createLane(spec, name) {
    return {name, method: spec.method, options: spec.options || {}, naive: spec.method === "naive", opaque: Boolean(spec.opaque),
            steps: [], starts: [], ends: [], tokens: [], passes: [], commits: [],
            clock: 0, finish: null, prefill_s: null};
  }

  /** Keeps running sums beside the steps, so that a frame costs one binary search a lane. */
  function addStep(lane, step, clock_s) {
    const n = lane.steps.length, before = n ? lane.tokens[n - 1] : 0;
    const end = Math.max(lane.clock, Number(clock_s) || 0);
    const verify = step.kind !== "prefill";
    if (!verify) lane.prefill_s = step.propose_s + step.verify_s + step.other_s;
    lane.steps.push(step);
    lane.starts.push(lane.clock);
    lane.ends.push(end);
    lane.tokens.push(before + step.emitted.length);
    lane.passes.push((n ? lane.passes[n - 1] : 0) + (verify ? 1 : 0));
    lane.commits.push(step.emitted.length || !n ? end : lane.commits[n - 1]);
    lane.clock = end;
    if (step.finish) lane.finish = step.finish;
  }

  // ---------------------------------------------------------------- time

  /** How many entries of the ascending `list` are <= t. */
  function countUpTo(list, t) {
    let low = 0, high = list.length;
    while (low < high) {
      const middle = (low + high) >> 1;
      if (list[middle] <= t + EPSILON) low = middle + 1; else high = middle;
    }
    return low;
  }

  const duration = log => log.lanes.reduce((longest, lane) => Math.max(longest, lane.clock), 0);
  const isDone = log => Boolean(log.end || log.stopped);

  /** The latest instant about which every lane has reported. Past it a lane would seem to stand still. */
  function liveEdge(log) {
    const running = log.lanes.filter(lane => !lane.finish);
    if (isDone(log) || !running.length) return duration(log);
    return Math.min(...running.map(lane => lane.clock));
  }

  /** The nearest end of a pass, among all lanes, after (`direction` 1) or before (-1) the instant t. */
  function neighbour(log, t, direction) {
    let found = direction > 0 ? liveEdge(log) : 0;
    for (const lane of log.lanes) {
      const i = direction > 0 ? countUpTo(lane.ends, t) : countUpTo(lane.ends, t - 2 * EPSILON) - 1;
      const end = lane.ends[i];
      if (end !== undefined) found = direction > 0 ? Math.min(found, end) : Math.max(found, end);
    }
    return found;
  }

  // ---------------------------------------------------------------- frames

  /** What the page shows at lane time `t`. PURE: reads its arguments only, changes nothing. */
  function frameAt(log, t) {
    const lanes = log.lanes.map(lane => laneAt(lane, t));
    const naive = log.lanes.findIndex(lane => lane.naive);
    return {t, lanes, atEnd: t >= duration(log) - EPSILON, speedup: ratio(lanes[naive], lanes[lanes.length - 1])};
  }

  function laneAt(lane, t) {
    const settled = countUpTo(lane.ends, t), last = settled - 1;
    const frame = {settled, tokens: settled ? lane.tokens[last] : 0, passes: settled ? lane.passes[last] : 0,
                   clock: settled ? lane.commits[last] : 0, finished: Boolean(settled && lane.steps[last].finish),
                   flying: -1, ghosts: 0, sweep: null, rate: null, perPass: null};
    if (frame.clock > 0) frame.rate = frame.tokens / frame.clock;
    if (frame.passes) frame.perPass = frame.tokens / frame.passes;
    const step = lane.steps[settled];
    if (!step || lane.naive || t < lane.starts[settled]) return frame;
    // The pass in flight: first its drafts appear one by one, then the target's pass sweeps over them.
    const spent = step.propose_s + step.verify_s + step.other_s || 1;
    const elapsed = (t - lane.starts[settled]) / (lane.ends[settled] - lane.starts[settled] || 1) * spent;
    const rows = ghostChain(step).rows.length;
    frame.flying = settled;
    frame.ghosts = elapsed >= step.propose_s ? rows : Math.ceil(rows * elapsed / step.propose_s);
    if (elapsed >= step.propose_s) frame.sweep = Math.min(1, (elapsed - step.propose_s) / (step.verify_s || 1));
    return frame;
  }

  /** Tokens a second against tokens a second, each lane by its own last commit. Null until both have three. */
  function ratio(naive, lane) {
    if (!naive || !lane || naive === lane || naive.tokens < 3 || lane.tokens < 3) return null;
    return naive.rate && lane.rate ? lane.rate / naive.rate : null;
  }

  // ---------------------------------------------------------------- a pass, laid out as text

  /** Follows first children from `node` down to a leaf. Window rows (lookahead's Jacobi rows) are not text. */
  function descend(step, node) {
    const rows = [];
    const child = of => step.draft.parents.findIndex((parent, i) => parent === of && step.statuses[i] !== "window");
    for (let row = child(node); row !== -1; row = child(row)) rows.push(row);
    return rows;
  }

  const textRows = step => step.statuses.filter(status => status !== "window").length;

  const moreRows = count => `+${count} ${count === 1 ? "row" : "rows"}`;

  /** The first root-to-leaf chain of a draft, and how many other rows travel with it unseen. */
  function ghostChain(step) {
    const rows = descend(step, -1);
    return {rows, more: step.draft.tokens.length - rows.length};
  }

  /** A settled pass as a list of {kind, text, row, emitted}: what was accepted, what died there, then the target's own
      token. `row` is the drafted row and `emitted` the place among the emitted tokens; -1 where there is none. */
  function passParts(step, naive) {
    // Colour means drafting: where nothing was drafted the text stays plain.
    const drafted = step.draft.tokens.length || step.origins.includes("accepted");   // an opaque lane shows no draft
    if (naive || !drafted) return step.pieces.map((text, emitted) => ({kind: "plain", text, row: -1, emitted}));
    const parts = [], own = [];
    step.pieces.forEach((text, emitted) => {
      const taken = step.origins[emitted] === "accepted", row = taken && emitted < step.path.length ? step.path[emitted] : -1;
      (taken ? parts : own).push({kind: taken ? "accepted" : "own", text, row, emitted});
    });
    const taken = new Set(step.path);
    const dead = descend(step, step.path.length ? step.path[step.path.length - 1] : -1).filter(row => !taken.has(row));
    for (const row of dead) {
      parts.push({kind: step.statuses[row] === "rejected" ? "rejected" : "unvisited", text: step.draft.pieces[row], row, emitted: -1});
    }
    const more = textRows(step) - step.path.length - dead.length;
    if (more > 0) parts.push({kind: "note", text: moreRows(more), row: -1, emitted: -1});
    if (dead.length) parts.push({kind: "tick", text: "", row: -1, emitted: -1});
    return parts.concat(own);
  }

  /** One sentence about a pass, in three parts: `said` is model text and must be shown as a quotation. */
  function describePass(log, laneIndex, stepIndex) {
    const lane = log.lanes[laneIndex], step = lane && lane.steps[stepIndex];
    if (!step) return {lead: "", said: null, tail: ""};
    if (step.kind === "prefill") return {lead: `${lane.name}: prompt read in ${milliseconds(lane.prefill_s)}, not on the clock`, said: null, tail: ""};
    const total = isDone(log) ? ` of ${lane.passes[lane.passes.length - 1]}` : "";
    const head = `pass ${lane.passes[stepIndex]}${total}: `;
    const rows = textRows(step), taken = step.origins.filter(origin => origin === "accepted").length;
    const own = step.origins.findIndex(origin => origin !== "accepted");
    const said = own < 0 ? null : step.pieces[own];
    const tail = step.finish ? `; ${FINISH[step.finish] || step.finish}` : "";
    if (lane.opaque) return {lead: `${head}accepted ${taken} (what it drafted it does not tell), then `, said, tail};
    if (lane.naive || !rows) {
      return {lead: head + (lane.naive ? "no draft" : "drafted nothing") + (said === null ? "" : ", the target said "), said, tail};
    }
    const count = taken === 0 ? "none" : taken === rows ? `all ${rows}` : String(taken);
    const link = said === null ? "" : step.origins[own] === "bonus" ? ", and the target added " : ", then the target said ";
    return {lead: `${head}drafted ${rows}, accepted ${count}${link}`, said, tail};
  }

  const FINISH = {length: "length reached", eos: "the model ended the text", stop: "stop string reached", context: "context full"};

  // ---------------------------------------------------------------- pace and numbers in words

  /** The teaching pace: the largest rate, never above real time, at which the fastest lane can still be read. */
  function teachingRate(log) {
    const fastest = log.lanes.reduce((best, lane) => {
      const n = lane.steps.length;
      return n && lane.clock > 0 ? Math.max(best, lane.tokens[n - 1] / lane.clock) : best;
    }, 0);
    if (!fastest) return {rate: 1 / 8, settled: false};
    const fits = RATES.filter(rate => rate <= 1 && rate * fastest <= READING_PACE * 1.1);
    const settled = isDone(log) || log.lanes.some(lane => lane.clock >= 0.15 || lane.tokens[lane.tokens.length - 1] >= 12);
    return {rate: fits.length ? fits[fits.length - 1] : RATES[0], settled};
  }

  const rateLabel = rate => rate < 1 ? `1/${Math.round(1 / rate)}x` : `${rate}x`;
  const rateWords = rate => rate < 1 ? `${Math.round(1 / rate)}x slower than real` : rate > 1 ? `${rate}x faster than real` : "real time";

  /** Three significant digits at most: 0.42, 5.12, 38.4, 412. */
  function digits(x) {
    return x < 9.995 ? x.toFixed(2) : x < 99.95 ? x.toFixed(1) : x.toFixed(0);
  }
  const seconds = s => s == null ? "—" : `${digits(s)} s`;
  const milliseconds = s => s == null ? "—" : s < 0.00995 ? `${(s * 1000).toFixed(1)} ms` : s < 0.9995 ? `${(s * 1000).toFixed(0)} ms` : seconds(s);
  const perSecond = r => r == null ? "—" : `${r < 9.95 ? r.toFixed(1) : r.toFixed(0)} tok/s`;
  const perPass = r => r == null ? "—" : r.toFixed(1);

  /** The headline: a number, and the words that go with it, in the same size whether it won or lost. */
  function headline(speedup) {
    if (speedup == null || !isFinite(speedup)) return {number: "—", words: ""};
    const shown = digits(speedup);
    if (shown === "1.00") return {number: "1.00x,", words: "no faster"};
    return speedup > 1 ? {number: `${shown}x`, words: "faster"} : {number: `${shown}x:`, words: "slower"};
  }

  // ---------------------------------------------------------------- clockwork

  /** Calls tick(seconds since the last frame) until stopped. The generation counter retires older loops: start() twice
      leaves one loop, and a frame already on its way when stop() is called does nothing. */
  function createClock(tick) {
    let generation = 0;
    return {
      start() {
        const mine = ++generation;
        let last = null;
        const loop = now => {
          if (mine !== generation) return;
          const elapsed = last === null ? 0 : Math.min(0.25, Math.max(0, (now - last) / 1000));
          last = now;
          tick(elapsed);
          requestAnimationFrame(loop);
        };
        requestAnimationFrame(loop);
      },
      stop() { generation += 1; },
    };
  }

  /** Decides when to ask for missing events. `poke(now)` is called often and mostly does nothing: at most one call is in
      flight, waits grow from 1.5 s to 10 s, and any news brings them back. `now` is in milliseconds. */
  function createRepair({log, resend, receive, changed}) {
    const FIRST = 1500, LONGEST = 10000, GIVE_UP = 20000;
    let flight = null, failures = 0, wait = FIRST, due = Infinity, afterStop = 0;

    function heard(now, outcome) {
      if (outcome.fresh) { flight = null; failures = 0; afterStop = 0; due = now + FIRST; }
      if (outcome.applied) { wait = FIRST; if (failures) { failures = 0; changed(); } }
      if (outcome.gap) due = failures ? due : Math.min(due, now + 40);
      else if (outcome.applied) due = now + FIRST;
    }

    function poke(now) {
      if (flight && now - flight.since > GIVE_UP) fail(now);
      if (!log.run || log.end || flight || now < due || (log.stopped && afterStop >= 2)) return null;
      if (log.stopped) afterStop += 1;
      const mine = flight = {since: now, run: log.run};
      const started = performance.now(), landed = () => now + performance.now() - started;
      return Promise.resolve().then(() => resend(mine.run, log.received)).then(text => {
        if (log.run !== mine.run) return;
        const outcome = text == null || text === "" ? null : receive(text);
        if (flight !== mine) return;
        flight = null;
        if (outcome === null) { fail(landed()); return; }
        const lost = failures >= 3;
        failures = 0;
        wait = outcome.applied ? FIRST : Math.min(LONGEST, wait * 2);
        due = landed() + (outcome.gap && outcome.applied ? 0 : wait);
        if (lost) changed();
      }).catch(() => { if (flight === mine) fail(landed()); });
    }

    function fail(now) {
      flight = null;
      failures += 1;
      wait = Math.min(LONGEST, wait * 2);
      due = now + wait;
      changed();
    }

    return {heard, poke, get lost() { return failures >= 3; }, get busy() { return flight !== null; }};
  }

  /** What was generated, without the prompt: the pieces of a lane joined. */
  const laneText = lane => lane.steps.map(step => step.pieces.join("")).join("");

  return {RATES, FINISH, createLog, applyBatch, duration, liveEdge, isDone, neighbour, frameAt, ghostChain, passParts, moreRows,
          describePass, teachingRate, rateLabel, rateWords, seconds, milliseconds, perSecond, perPass,
          headline, createClock, createRepair, laneText};
})();
