/* player.js: the state of the page at a time t. `frameAt` is a pure function of the log and t, so scrubbing,
   replaying and stepping only choose another t. */

import {count} from "../page/numbers.js";
import {countUpTo, duration, EPSILON, isOneText, secondsOf, tokensOf} from "./log.js";

/** Return the frame at lane time `t`: {t, lanes, atEnd, speedup}. Pure. */
export function frameAt(log, t) {
  const most = mostTokens(log);
  const lanes = log.lanes.map(lane => laneAt(lane, t, most));
  const naive = log.lanes.findIndex(lane => lane.naive);
  return {t, lanes, atEnd: t >= duration(log) - EPSILON, speedup: speedupOf(lanes[naive], lanes.at(-1))};
}

/** The number of tokens that are shown of each lane: of a stopped race, those after which both lanes ended a pass. */
export function mostTokens(log) {
  if (!log.stopped || !isOneText(log)) return Infinity;
  const [naive, lane] = log.lanes;
  const both = Math.min(tokensOf(naive), tokensOf(lane));
  return lane.tokens[countUpTo(lane.tokens, both) - 1] || 0;
}

/** A lane's frame at `t`, without the passes after its first `most` tokens. */
function laneAt(lane, t, most) {
  const settled = Math.min(countUpTo(lane.ends, t), countUpTo(lane.tokens, most));
  const last = settled - 1;
  const frame = {
    settled,
    tokens: settled ? lane.tokens[last] : 0,
    passes: settled ? lane.passes[last] : 0,
    clock: settled ? lane.commits[last] : 0,
    finished: Boolean(settled && lane.steps[last].finish),
    inFlight: -1,
    ghosts: 0,
    sweep: null,
    rate: null,
    perPass: null,
  };
  if (frame.clock > 0) frame.rate = frame.tokens / frame.clock;
  if (frame.passes) frame.perPass = frame.tokens / frame.passes;
  const step = lane.steps[settled];
  if (!step || lane.naive || most < Infinity || t < lane.starts[settled]) return frame;
  // The pass in flight: its drafted tokens appear one by one, then the target's pass sweeps over them.
  const spent = secondsOf(step) || 1;
  const elapsed = ((t - lane.starts[settled]) / (lane.ends[settled] - lane.starts[settled] || 1)) * spent;
  const rows = ghostChain(step).rows.length;
  frame.inFlight = settled;
  frame.ghosts = elapsed >= step.propose_s ? rows : Math.ceil((rows * elapsed) / step.propose_s);
  if (elapsed >= step.propose_s) frame.sweep = Math.min(1, (elapsed - step.propose_s) / (step.verify_s || 1));
  return frame;
}

/** The ratio of tokens per second, each at the lane's own last commit. Null until both lanes have three tokens. */
function speedupOf(naive, lane) {
  if (!naive || !lane || naive === lane || naive.tokens < 3 || lane.tokens < 3) return null;
  return naive.rate && lane.rate ? lane.rate / naive.rate : null;
}

/** The rows from `node` along first children to a leaf. Rows of lookahead's window are not text. */
function descend(step, node) {
  const rows = [];
  const firstChild = row =>
    step.draft.parents.findIndex((parent, i) => parent === row && step.statuses[i] !== "window");
  for (let row = firstChild(node); row !== -1; row = firstChild(row)) rows.push(row);
  return rows;
}

export const textRows = step => step.statuses.filter(status => status !== "window").length;

export const moreRows = n => `+${count(n, "row")}`;

/** The first root-to-leaf chain of a draft, and the number of other rows: {rows, more}. */
export function ghostChain(step) {
  const rows = descend(step, -1);
  return {rows, more: step.draft.tokens.length - rows.length};
}

/** Whether a schema allows only this drafted token. */
export const isForced = (step, row) => step.draft.sources?.[row] === "forced";

/** A settled pass as [{kind, text, row, emitted}]: accepted tokens, rejected ones, then the target's own token. `row`
    is the drafted row and `emitted` the index among the emitted tokens; -1 for none. For `forced`, see
    `isForced`. */
export function passParts(step, naive) {
  // Without a draft the text is plain. An opaque lane records no draft; a server reports only the draft's size.
  const drafted = step.draft.tokens.length || step.drafted || step.origins.includes("accepted");
  if (naive || !drafted) return step.pieces.map((text, emitted) => ({kind: "plain", text, row: -1, emitted}));
  const parts = [];
  const added = [];
  step.pieces.forEach((text, emitted) => {
    const accepted = step.origins[emitted] === "accepted";
    const row = accepted && emitted < step.path.length ? step.path[emitted] : -1;
    const kind = accepted ? "accepted" : "own";
    (accepted ? parts : added).push({kind, text, row, emitted, forced: isForced(step, row)});
  });
  const accepted = new Set(step.path);
  const unaccepted = descend(step, step.path.at(-1) ?? -1).filter(row => !accepted.has(row));
  const kindOf = row => (step.statuses[row] === "rejected" ? "rejected" : "unvisited");
  parts.push(...unaccepted.map(row => ({kind: kindOf(row), text: step.draft.pieces[row], row, emitted: -1})));
  const more = textRows(step) - step.path.length - unaccepted.length;
  const unreported = (step.drafted || 0) - parts.length; // a server does not report their text
  if (unreported > 0) parts.push({kind: "note", hatched: true, text: `${unreported} rejected`, row: -1, emitted: -1});
  if (more > 0) parts.push({kind: "note", text: moreRows(more), row: -1, emitted: -1});
  return parts.concat(added);
}
