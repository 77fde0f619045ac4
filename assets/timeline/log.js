/* log.js: the log of a race: numbered events, and values derived from them. Events are applied by index, so lost,
   repeated and late batches are safe. Times are the lanes' own clocks, in seconds. */

const [SAMPLED, LOSSY] = ["same distribution, different text", "changes the text"];
/** The acceptance rules under which the text depends on the draft, with the match of the texts in words. */
export const OTHER_TEXT = {
  ...{rejection: SAMPLED, "block-verification": SAMPLED},
  ...{typical: LOSSY, relaxed: LOSSY, ensemble: LOSSY},
};
/** Whether a rule tests tokens with random draws. */
export const isSampled = rule => OTHER_TEXT[rule] === SAMPLED;
export const EPSILON = 1e-9; // clocks are sums of floats: a smaller difference is no difference

export const createLog = () => ({retired: [], ...emptyRun(null)});

/** `link` is the query of the race's address, `pass` the position of the playhead in a link. `modelSources` are the
    sources of drafts that a draft model or a trained head computes. */
const emptyRun = run => ({
  ...{run, received: 0, seen: 0, expected: null, events: [], header: null, caption: null, live: false},
  ...{link: null, pass: null, modelSources: [], status: null, lanes: [], end: null, stopped: false, stopPressed: false},
});

/** Apply one parsed batch to `log`, in place.
    Returns {fresh: a new run replaced the old one, applied: number of new events, gap: events are missing}. */
export function applyBatch(log, batch) {
  const outcome = {fresh: false, applied: 0, gap: false};
  if (!batch || typeof batch !== "object") return outcome;
  if (batch.stop) {
    if (!log.end && (batch.run == null || batch.run === log.run)) log.stopped = log.stopPressed = true;
    return outcome;
  }
  if (batch.run == null || !Array.isArray(batch.ev)) return outcome;
  const first = batch.i0 || 0;
  const last = first + batch.ev.length;
  if (batch.run !== log.run) {
    // A late batch must not restore a replaced run, except a batch from the run's start: the run is then shown again.
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
  const {trace, caption = null, live = false, link = null, pass = null} = event;
  const lanes = trace.lanes.map((lane, i, all) => createLane(lane, nameOf(lane, i, all)));
  const modelSources = event.model_sources || [];
  Object.assign(log, {header: trace, caption, live, link, pass, modelSources, lanes});
}

function end(log, event) {
  log.end = event;
  // A server's counts of drafted tokens arrive at the end: its passes must be drawn again.
  (event.drafted || []).forEach((counts, i) => {
    const lane = log.lanes[i];
    for (const [index, step] of lane.steps.entries()) step.drafted = counts[index];
    lane.recounted = true;
  });
  log.expected = log.received;
  if (event.reason === "stopped") log.stopped = true;
}

/** The name of a lane: its server or its method. If several lanes have the method, with options or the lane's number.
    A lane with a bug is named after it. */
function nameOf(lane, i, all) {
  if (lane.options?.server) return lane.options.server;
  if (lane.options?.bug) return `${lane.method}, with the bug`;
  if (all.filter(other => other.method === lane.method && !other.options?.bug).length < 2) return lane.method;
  const options = Object.entries(lane.options || {})
    .map(([option, value]) => (option === lane.method ? value : `${option} ${value}`))
    .join(", ");
  return `${lane.method} (${options || `lane ${i}`})`;
}

/** A lane without steps. `ids` has its tokens. The other lists are parallel to `steps`: start and end of a pass, the
    tokens and passes so far, and the time of the last committed token. */
const createLane = ({method, options, opaque}, name) => ({
  ...{name, method, options: options || {}, naive: method === "naive", opaque: Boolean(opaque)},
  ...{ids: [], steps: [], starts: [], ends: [], tokens: [], passes: [], commits: []},
  ...{clock: 0, finish: null, prefill_s: null},
});

export const tokensOf = lane => lane.tokens.at(-1) || 0;
export const passesOf = lane => lane.passes.at(-1) || 0;

/** The seconds of a step. Older recordings have no masks. */
export const secondsOf = step => step.propose_s + step.verify_s + (step.mask_s || 0) + step.other_s;

/** Add a step and update the running sums; with them a frame costs one binary search per lane. */
function addStep(lane, step, clock_s) {
  const end = Math.max(lane.clock, Number(clock_s) || 0);
  const isVerify = step.kind !== "prefill";
  if (!isVerify) lane.prefill_s = secondsOf(step);
  lane.starts.push(lane.clock);
  lane.ends.push(end);
  lane.tokens.push(tokensOf(lane) + step.emitted.length);
  lane.passes.push(passesOf(lane) + (isVerify ? 1 : 0));
  lane.commits.push(step.emitted.length || !lane.steps.length ? end : lane.commits.at(-1));
  lane.steps.push(step);
  lane.ids.push(...step.emitted);
  lane.clock = end;
  if (step.finish) lane.finish = step.finish;
}

/** The position of the first token at which two lanes differ; -1 if they are the same as far as both have written. A
    token after the other lane's end differs too. */
export function differenceOf(a, b) {
  const [most, least] = a.ids.length > b.ids.length ? [a, b] : [b, a];
  const difference = least.ids.findIndex((id, i) => id !== most.ids[i]);
  return difference < 0 && least.finish && most.ids.length > least.ids.length ? least.ids.length : difference;
}

/** Whether a race can be shown as one text: naive and a second lane, whose tokens are the same so far. */
export function isOneText({lanes, header}) {
  const [naive, lane] = lanes;
  if (lanes.length !== 2 || !naive.naive || lane.naive || lane.opaque || lane.options.server) return false;
  return !OTHER_TEXT[header.settings.rule] && differenceOf(naive, lane) < 0;
}

/** Whether the text is code: it has an indented line. */
export const isCode = ({lanes}) =>
  /\n( {2,}|\t)\S/.test((lanes.at(-1)?.steps || []).flatMap(step => step.pieces).join(""));

/** The number of entries of the ascending `list` that are <= t. */
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

/** The latest time that every running lane has reached; the playhead stops there. Lanes that have not started (servers
    on one machine run one after the other) do not count. */
export function liveEdge(log) {
  const running = log.lanes.filter(lane => !lane.finish && lane.steps.length);
  if (isDone(log) || !running.length) return duration(log);
  return Math.min(...running.map(lane => lane.clock));
}

/** The nearest end of a pass after (`direction` 1) or before (-1) the time t, of the lanes in `lanes`. */
export function neighbor(log, t, direction, lanes = log.lanes) {
  let nearest = direction > 0 ? liveEdge(log) : 0;
  for (const lane of lanes) {
    const i = direction > 0 ? countUpTo(lane.ends, t) : countUpTo(lane.ends, t - 2 * EPSILON) - 1;
    const end = lane.ends[i];
    if (end !== undefined) nearest = direction > 0 ? Math.min(nearest, end) : Math.max(nearest, end);
  }
  return nearest;
}
