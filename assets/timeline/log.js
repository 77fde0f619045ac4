/* log.js: a race as it reaches the page: numbered events, and what follows from them.

   What it is.  `applyBatch` adds a batch of events to a log, in place; the rest reads a log: how far it goes, whether
   it has ended, where passes end.

   Why it is so.  Batches may be lost, repeated or late, so nothing is applied by arrival: every event has an index,
   what is already here is ignored, and `gap` says that some are missing (repair.js asks for them).

   What it does not know.  The DOM, the network, the time of day: times are the lanes' own clocks, in seconds. */

export const EPSILON = 1e-9; // clocks are sums of floats: closer than this is the same instant

export const createLog = () => ({retired: [], ...emptyRun(null)});

/** `link` is the query that brings the race back, `pass` where a link wants the playhead. `modelled` are the sources
    of drafts that a draft model or a trained head computes. */
const emptyRun = run => ({
  ...{run, received: 0, seen: 0, expected: null, events: [], header: null, caption: null, live: false},
  ...{link: null, pass: null, modelled: [], status: null, lanes: [], end: null, stopped: false},
});

/** Applies one parsed message to `log`, in place.
    Returns {fresh: a new run replaced the old one, applied: how many events were new, gap: some are missing}. */
export function applyBatch(log, batch) {
  const outcome = {fresh: false, applied: 0, gap: false};
  if (!batch || typeof batch !== "object") return outcome;
  if (batch.stop) {
    if (!log.end && (batch.run == null || batch.run === log.run)) log.stopped = true;
    return outcome;
  }
  if (batch.run == null || !Array.isArray(batch.ev)) return outcome;
  const first = batch.i0 || 0;
  const last = first + batch.ev.length;
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
  if (event.kind === "status") {
    log.status = {text: event.text || "", fraction: event.fraction ?? null};
    return;
  }
  if (event.kind === "begin") begin(log, event);
  else if (event.kind === "step" && log.lanes[event.lane]) addStep(log.lanes[event.lane], event.step, event.clock_s);
  else if (event.kind === "end") end(log, event);
  else return;
  log.status = null;
}

function begin(log, event) {
  const {trace, caption = null, live = false, link = null, pass = null, modelled = []} = event;
  const lanes = trace.lanes.map((lane, i, all) => createLane(lane, nameOf(lane, i, all)));
  Object.assign(log, {header: trace, caption, live, link, pass, modelled, lanes});
}

function end(log, event) {
  log.end = event;
  // What servers tell at the end of every pass: those look different now.
  (event.drafted || []).forEach((counts, i) => {
    const lane = log.lanes[i];
    for (const [at, step] of lane.steps.entries()) step.drafted = counts[at];
    lane.recounted = true;
  });
  log.expected = log.received;
  if (event.reason === "stopped") log.stopped = true;
}

/** What a lane is called: its server, or its method, with its options or its number where the method is there more
    than once. */
function nameOf(lane, i, all) {
  if (lane.options?.server) return lane.options.server;
  if (all.filter(other => other.method === lane.method).length < 2) return lane.method;
  const options = Object.entries(lane.options || {})
    .map(([option, value]) => (option === lane.method ? value : `${option} ${value}`))
    .join(", ");
  return `${lane.method} (${options || `lane ${i}`})`;
}

/** A lane without steps. Its lists are parallel to `steps`: when a pass starts and ends, the tokens and passes so
    far, and when the last token was committed. */
const createLane = ({method, options, opaque}, name) => ({
  ...{name, method, options: options || {}, naive: method === "naive", opaque: Boolean(opaque)},
  ...{steps: [], starts: [], ends: [], tokens: [], passes: [], commits: []},
  ...{clock: 0, finish: null, prefill_s: null},
});

export const tokensOf = lane => lane.tokens.at(-1) || 0;
export const passesOf = lane => lane.passes.at(-1) || 0;

/** Keeps running sums with the steps, so that a frame costs one binary search per lane. */
function addStep(lane, step, clock_s) {
  const end = Math.max(lane.clock, Number(clock_s) || 0);
  const isVerify = step.kind !== "prefill";
  if (!isVerify) lane.prefill_s = step.propose_s + step.verify_s + step.other_s;
  lane.starts.push(lane.clock);
  lane.ends.push(end);
  lane.tokens.push(tokensOf(lane) + step.emitted.length);
  lane.passes.push(passesOf(lane) + (isVerify ? 1 : 0));
  lane.commits.push(step.emitted.length || !lane.steps.length ? end : lane.commits.at(-1));
  lane.steps.push(step);
  lane.clock = end;
  if (step.finish) lane.finish = step.finish;
}

/** How many entries of the ascending `list` are <= t. */
export function countUpTo(list, t) {
  let low = 0;
  let high = list.length;
  while (low < high) {
    const middle = (low + high) >> 1;
    if (list[middle] <= t + EPSILON) low = middle + 1;
    else high = middle;
  }
  return low;
}

export const duration = log => log.lanes.reduce((longest, lane) => Math.max(longest, lane.clock), 0);
export const isDone = log => Boolean(log.end || log.stopped);

/** The latest instant about which every lane has reported. Past it a lane would seem to stand still. A lane whose
    turn has not come, as of servers on one machine, is not waited for. */
export function liveEdge(log) {
  const running = log.lanes.filter(lane => !lane.finish && lane.steps.length);
  if (isDone(log) || !running.length) return duration(log);
  return Math.min(...running.map(lane => lane.clock));
}

/** The nearest end of a pass, among all lanes, after (`direction` 1) or before (-1) the instant t. */
export function neighbour(log, t, direction) {
  let nearest = direction > 0 ? liveEdge(log) : 0;
  for (const lane of log.lanes) {
    const i = direction > 0 ? countUpTo(lane.ends, t) : countUpTo(lane.ends, t - 2 * EPSILON) - 1;
    const end = lane.ends[i];
    if (end !== undefined) nearest = direction > 0 ? Math.min(nearest, end) : Math.max(nearest, end);
  }
  return nearest;
}
