/* pass.js: one pass, or one token, as plain data for the inspector and the card. All values are pure functions of the
   log. */

import {bits} from "../page/numbers.js";
import {isSampled} from "../timeline/log.js";
import {describePass} from "../timeline/sentences.js";
import {outline, STATUSES, statusOf, tested} from "./draft.js";
import {candidates, positionsOf, residualOf} from "./positions.js";
import {contextOf, quote, rootOf, shown} from "./text.js";
import {timeOf} from "./time.js";

function kindOf(lane, step) {
  if (step.kind === "prefill") return "prefill";
  if (lane.opaque) return "opaque";
  return tested(step.draft) ? "drafted" : "plain";
}

/** The data of a pass for the inspector; null if there is no such pass. */
export function passOf(log, laneIndex, stepIndex) {
  const lane = log.lanes[laneIndex];
  const step = lane?.steps[stepIndex];
  if (!step) return null;
  const {rule} = log.header.settings;
  const kind = kindOf(lane, step);
  const {title, action, quotation, tail} = describePass(log, laneIndex, stepIndex);
  const {rows} = outline(step.draft);
  const positions = positionsOf(step);
  const root = rootOf(log, laneIndex, stepIndex);
  return {
    ...{kind, rule, method: shown(lane.name)},
    ...{title: kind === "prefill" ? "the prompt" : title, lead: action, quotation: quote(quotation), tail},
    context: contextOf(log, laneIndex, stepIndex),
    window: step.draft.window || 0,
    pooled: Boolean(step.draft.births?.length),
    rows: rows.map(entry => ({...entry, ...rowOf(step, entry.row, positions)})),
    targetToken: targetTokenOf(step, positions),
    emitted: step.pieces.map((piece, i) => ({text: shown(piece), origin: step.origins[i]})),
    positions: positions.map(position => positionOf(step, position, rule, root)),
    time: timeOf(log, lane, step),
    previous: stepIndex > 0,
    next: stepIndex + 1 < lane.steps.length,
  };
}

function positionOf(step, position, rule, root) {
  const tokens = candidates(step, position, rule);
  return {
    ...position,
    after: shown(position.index ? step.pieces[position.index - 1] : root),
    text: shown(step.pieces[position.index] || ""),
    origin: step.origins[position.index],
    tokens,
    entropy: bits(position.settled.entropy),
    residual: residualOf(position, tokens, rule),
  };
}

/** A drafted row with its outcome and its test, if it was tested. */
function rowOf(step, row, positions) {
  const {draft} = step;
  const position = positions.find(({rejected, settled}) => [...rejected, settled].some(test => test.row === row));
  const tests = position ? [...position.rejected, position.settled] : [];
  const order = tests.findIndex(test => test.row === row);
  const status = statusOf(step, row);
  return {
    text: shown(draft.pieces[row]),
    source: draft.sources[row] ? shown(draft.sources[row]) : null,
    confidence: draft.chances?.length ? draft.chances[row] : null,
    ...{status, ...STATUSES[status]},
    emitted: step.path.indexOf(row),
    position: position ? position.index : -1,
    ...numbersOf(tests[order]),
    isResidual: order > 0, // its p is a probability in the residual after earlier rejections
    choice: position ? shown(step.pieces[position.index] || "") : null,
    change: tests[order]?.change || null,
  };
}

/** The numbers of a test; a draw below `threshold` accepts. */
function numbersOf(test) {
  const {p = null, q = null, draw = null, limit = null} = test || {};
  const ratio = p == null || q == null ? null : q > 0 ? Math.min(1, p / q) : p > 0 ? 1 : 0;
  return {p, q, draw, limit, threshold: limit ?? ratio};
}

/** The target's own token (correction or bonus) at the end of a pass; null if the text ended before it. */
function targetTokenOf(step, positions) {
  const index = step.origins.findIndex(origin => origin !== "accepted");
  if (index < 0) return null;
  const {p, draw} = numbersOf(positions[index]?.settled);
  const isResidual = Boolean(positions[index]?.rejected.length);
  return {text: shown(step.pieces[index]), origin: step.origins[index], p, draw, isResidual};
}

/** The data of a token's card. `part` is {kind, row, emitted}, as in `passParts`; a ghost is a row not verified yet. */
export function tokenOf(log, laneIndex, stepIndex, part) {
  const pass = passOf(log, laneIndex, stepIndex);
  if (!pass) return null;
  const lane = log.lanes[laneIndex];
  const step = lane.steps[stepIndex];
  const {row, emitted} = locate(step, part);
  const drafted = pass.rows.find(entry => entry.row === row && row >= 0) || null;
  const isGhost = part.kind === "ghost";
  const isTargetToken = emitted >= 0 && step.origins[emitted] !== "accepted";
  const position = isGhost ? null : pass.positions[emitted >= 0 ? emitted : drafted ? drafted.position : -1];
  const numbers = (!isGhost && (drafted || (isTargetToken && pass.targetToken))) || {};
  const {p = null, q = null, draw = null, threshold = null, limit = null, isResidual = false} = numbers;
  return {
    title: step.kind === "prefill" ? "the prompt" : `pass ${lane.passes[stepIndex]}`,
    ...{method: pass.method, rule: pass.rule},
    text: emitted >= 0 ? shown(step.pieces[emitted]) : drafted ? drafted.text : null,
    source: drafted ? drafted.source : null,
    confidence: drafted ? drafted.confidence : null,
    ...{p, q, draw, threshold, limit, isResidual},
    change: position?.settled.change || null,
    ...outcomeOf({pass, step, lane, drafted, emitted, isGhost, isTargetToken}),
    tokens: position?.tokens || [],
    entropy: position?.entropy || null,
  };
}

/** The drafted row and the emitted token of a part of the text; -1 for none. */
function locate(step, {row, emitted}) {
  if (row < 0) return {row: emitted >= 0 && emitted < step.path.length ? step.path[emitted] : -1, emitted};
  return {row, emitted: emitted >= 0 ? emitted : step.path.indexOf(row)};
}

/** The outcome of a token: `status` is one word, `outcome` a sentence {lead, quotation, tail}. */
function outcomeOf({pass, step, lane, drafted, emitted, isGhost, isTargetToken}) {
  const sentence = (lead, quotation = null) => ({lead, quotation, tail: ""});
  if (isGhost) return {status: "ghost", outcome: sentence("drafted; not verified yet")};
  if (drafted) return {status: drafted.status, outcome: sentence(...draftedOutcome(drafted, pass))};
  if (isTargetToken) return {status: step.origins[emitted], outcome: sentence(targetOutcome(pass, lane))};
  if (emitted >= 0)
    return {status: "accepted", outcome: sentence("accepted; this lane does not report its other drafted tokens")};
  return {status: "none", outcome: {lead: pass.lead, quotation: pass.quotation, tail: pass.tail}};
}

function draftedOutcome({status, label, choice, source, change}, {rule}) {
  if (status === "accepted" && source === "forced") return ["accepted: the schema allows no other token"];
  if (status !== "accepted" && status !== "rejected") return [label];
  if (isSampled(rule)) return [`${status} by the draw`];
  if (change) return ["accepted: the rule changes the text"];
  if (status === "accepted") return ["accepted: the target’s choice too"];
  return ["rejected: the target’s choice is ", quote(choice)];
}

function targetOutcome({rule, kind, targetToken}, lane) {
  if (targetToken.origin === "correction") {
    if (isSampled(rule)) return "the target’s own, drawn from the residual";
    return "the target’s own, instead of the rejected token";
  }
  if (lane.naive || kind === "plain") return "the target’s own: nothing was drafted";
  return "the target’s own, after an accepted draft";
}
