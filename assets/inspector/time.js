/* time.js: the time of a pass in seconds, compared with a naive pass of the target in the same race. */

import {count, digits, duration} from "../page/numbers.js";
import {secondsOf} from "../timeline/log.js";
import {branches, tested} from "./draft.js";

/** Return the seconds of a pass with this many rows, interpolated linearly between the measured points. */
export function costOf(costs, rows, branched = false) {
  if (!costs?.rows?.length || costs.rows.length !== costs.seconds.length) return null;
  const {rows: xs, seconds: ys} = costs;
  const branching = branched ? costs.branching_s || 0 : 0;
  if (xs.length === 1 || rows <= xs[0]) return ys[0] + branching;
  const after = xs.findIndex((x, i) => i > 0 && rows <= x);
  const i = after < 0 ? xs.length - 1 : after;
  return ys[i - 1] + ((rows - xs[i - 1]) / (xs[i] - xs[i - 1])) * (ys[i] - ys[i - 1]) + branching;
}

/** A naive pass: the median target pass of the naive lane, else the measured pass of one row. */
function naivePassOf(log) {
  const steps = log.lanes.find(lane => lane.naive)?.steps || [];
  const times = steps.filter(step => step.kind === "verify").map(step => step.verify_s);
  const seconds = times.length ? median(times) : 0;
  if (seconds > 0)
    return {seconds, source: `the median target pass of the naive lane (${count(times.length, "pass")})`};
  const measured = costOf(log.header.costs, 1);
  return measured > 0 ? {seconds: measured, source: "a pass of 1 row, as measured before the race"} : null;
}

function median(numbers) {
  const sorted = [...numbers].sort((a, b) => a - b);
  const middle = sorted.length >> 1;
  return sorted.length % 2 ? sorted[middle] : (sorted[middle - 1] + sorted[middle]) / 2;
}

/** The time of a pass by part: [{kind, name, seconds}]. */
function partsOf(lane, {kind, propose_s, verify_s, mask_s, other_s}) {
  const draft = (name, seconds) => ({kind: "draft", name, seconds});
  const verify = (name, seconds) => ({kind: "verify", name, seconds});
  const other = seconds => ({kind: "other", name: "sample + engine", seconds});
  if (kind === "prefill") return [draft("drafter reads", propose_s), verify("target reads", verify_s)];
  const masks = mask_s ? [{kind: "mask", name: "masks", seconds: mask_s}] : [];
  if (lane.opaque) return [verify("pass and drafting", propose_s + verify_s + other_s), ...masks];
  if (lane.naive) return [verify("target pass", verify_s), ...masks, other(propose_s + other_s)];
  return [draft("draft", propose_s), verify("verify", verify_s), ...masks, other(other_s)];
}

/** The time of a pass compared with a naive one, as numbers and sentences. */
export function timeOf(log, lane, step) {
  const total = secondsOf(step);
  const time = {parts: partsOf(lane, step), total, naivePass: null, sentence: "", sum: "", basis: "", rows: ""};
  if (step.kind === "prefill") return time;
  const emitted = count(step.emitted.length, "token");
  const rows = lane.opaque ? "" : rowsSentence(log, step);
  const naivePass = naivePassOf(log);
  if (!naivePass) return {...time, rows, sentence: `This pass took ${duration(total)} and emitted ${emitted}.`};
  const ratio = total / naivePass.seconds;
  const cost = `${digits(ratio)} naive ${digits(ratio) === "1.00" ? "pass" : "passes"}`;
  return {
    ...time,
    rows,
    naivePass,
    sentence: `This pass cost ${cost} and emitted ${emitted}.`,
    sum: `${sumOf(time.parts)} ms / ${duration(naivePass.seconds)} = ${digits(ratio)}`,
    basis: `A naive pass is ${naivePass.source}: ${duration(naivePass.seconds)}.`,
  };
}

function sumOf(parts) {
  const terms = parts.map(part => digits(1000 * part.seconds));
  return terms.length > 1 ? `(${terms.join(" + ")})` : terms[0];
}

/** A sentence on the number of rows in the pass, and their cost according to the cost curve. */
function rowsSentence(log, step) {
  const {draft} = step;
  const rows = 1 + draft.tokens.length;
  const cost = costOf(log.header.costs, rows, branches(draft));
  const oneRow = costOf(log.header.costs, 1);
  const terms = [
    draft.tokens.length && "1",
    tested(draft) && `${tested(draft)} drafted`,
    draft.window && `${draft.window} in the window`,
  ].filter(Boolean);
  const counted = `${count(rows, "row")}${terms.length ? ` (${terms.join(" + ")})` : ""}`;
  if (!(oneRow > 0)) return `The pass had ${counted}.`;
  const unknown = branches(draft) && log.header.costs.branching_s == null;
  const branching = unknown ? ", without the cost of branches" : "";
  const times = rows > 1 ? `, ${digits(cost / oneRow)} times ${duration(oneRow)} for 1 row${branching}` : "";
  const curve = `the cost curve measured before the race gives`;
  return `${counted} in the target’s pass; ${curve} ${duration(cost)}${times}.`;
}
