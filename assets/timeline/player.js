/* player.js: what the page shows at an instant.

   What it is.  `frameAt(log, t)` says what must be on the page when the lanes' clocks read `t` seconds; `passParts`
   lays a settled pass out as text.

   Why it is so.  A frame is a pure function of the log and `t`, so scrubbing, replaying and stepping are all the same
   act: choosing another `t`.

   What it does not know.  The DOM, playback, colours. It reads the statuses it was sent and decides none. */

import {count} from "../page/numbers.js";
import {countUpTo, duration, EPSILON} from "./log.js";

/** What the page shows at lane time `t`. PURE: reads its arguments only, changes nothing. */
export function frameAt(log, t) {
  const lanes = log.lanes.map(lane => laneAt(lane, t));
  const naive = log.lanes.findIndex(lane => lane.naive);
  return {t, lanes, atEnd: t >= duration(log) - EPSILON, speedup: ratio(lanes[naive], lanes.at(-1))};
}

function laneAt(lane, t) {
  const settled = countUpTo(lane.ends, t);
  const last = settled - 1;
  const frame = {
    settled,
    tokens: settled ? lane.tokens[last] : 0,
    passes: settled ? lane.passes[last] : 0,
    clock: settled ? lane.commits[last] : 0,
    finished: Boolean(settled && lane.steps[last].finish),
    flying: -1,
    ghosts: 0,
    sweep: null,
    rate: null,
    perPass: null,
  };
  if (frame.clock > 0) frame.rate = frame.tokens / frame.clock;
  if (frame.passes) frame.perPass = frame.tokens / frame.passes;
  const step = lane.steps[settled];
  if (!step || lane.naive || t < lane.starts[settled]) return frame;
  // The pass in flight: first its drafts appear one by one, then the target's pass sweeps over them.
  const spent = step.propose_s + step.verify_s + step.other_s || 1;
  const elapsed = ((t - lane.starts[settled]) / (lane.ends[settled] - lane.starts[settled] || 1)) * spent;
  const rows = ghostChain(step).rows.length;
  frame.flying = settled;
  frame.ghosts = elapsed >= step.propose_s ? rows : Math.ceil((rows * elapsed) / step.propose_s);
  if (elapsed >= step.propose_s) frame.sweep = Math.min(1, (elapsed - step.propose_s) / (step.verify_s || 1));
  return frame;
}

/** Tokens a second against tokens a second, each lane by its own last commit. Null until both have three. */
function ratio(naive, lane) {
  if (!naive || !lane || naive === lane || naive.tokens < 3 || lane.tokens < 3) return null;
  return naive.rate && lane.rate ? lane.rate / naive.rate : null;
}

/** Follows first children from `node` down to a leaf. Window rows (lookahead's Jacobi rows) are not text. */
function descend(step, node) {
  const rows = [];
  const child = of => step.draft.parents.findIndex((parent, i) => parent === of && step.statuses[i] !== "window");
  for (let row = child(node); row !== -1; row = child(row)) rows.push(row);
  return rows;
}

export const textRows = step => step.statuses.filter(status => status !== "window").length;

export const moreRows = n => `+${count(n, "row")}`;

/** The first root-to-leaf chain of a draft, and how many other rows travel with it unseen. */
export function ghostChain(step) {
  const rows = descend(step, -1);
  return {rows, more: step.draft.tokens.length - rows.length};
}

/** A settled pass as a list of {kind, text, row, emitted}: what was accepted, what died there, then the target's own
    token. `row` is the drafted row and `emitted` the place among the emitted tokens; -1 where there is none. */
export function passParts(step, naive) {
  // Colour means drafting: where nothing was drafted the text stays plain.
  // An opaque lane shows no draft; a server's tells how much was drafted.
  const drafted = step.draft.tokens.length || step.drafted || step.origins.includes("accepted");
  if (naive || !drafted) return step.pieces.map((text, emitted) => ({kind: "plain", text, row: -1, emitted}));
  const parts = [];
  const own = [];
  step.pieces.forEach((text, emitted) => {
    const taken = step.origins[emitted] === "accepted";
    const row = taken && emitted < step.path.length ? step.path[emitted] : -1;
    (taken ? parts : own).push({kind: taken ? "accepted" : "own", text, row, emitted});
  });
  const taken = new Set(step.path);
  const dead = descend(step, step.path.at(-1) ?? -1).filter(row => !taken.has(row));
  const kindOf = row => (step.statuses[row] === "rejected" ? "rejected" : "unvisited");
  parts.push(...dead.map(row => ({kind: kindOf(row), text: step.draft.pieces[row], row, emitted: -1})));
  const more = textRows(step) - step.path.length - dead.length;
  const unseen = (step.drafted || 0) - parts.length; // whose words no server tells
  if (unseen > 0) parts.push({kind: "note", hatched: true, text: `${unseen} rejected`, row: -1, emitted: -1});
  if (more > 0) parts.push({kind: "note", text: moreRows(more), row: -1, emitted: -1});
  if (dead.length || unseen > 0) parts.push({kind: "tick", text: "", row: -1, emitted: -1});
  return parts.concat(own);
}
