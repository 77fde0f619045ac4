/* positions.js: the positions of a pass at which a test selected a token, with the target's candidates and the
   residual. */

import {probability} from "../page/numbers.js";
import {isSampled} from "../timeline/log.js";
import {tested} from "./draft.js";
import {shown} from "./text.js";

/** One entry per emitted token with a test: {index, parentRow, rejected: the tests that rejected, settled:
    the test that selected the token}. */
export function positionsOf(step) {
  const positions = [];
  let rejected = [];
  for (const test of step.tests) {
    if (test.outcome === "rejected") rejected.push(test);
    else {
      const index = positions.length;
      positions.push({index, parentRow: index ? step.path[index - 1] : -1, rejected, settled: test});
      rejected = [];
    }
  }
  return positions;
}

/** The target's candidates (its most likely tokens) at a position, then other drafted or emitted tokens there. */
export function candidates(step, position, rule) {
  const {settled, rejected, index, parentRow} = position;
  const {draft} = step;
  const emittedToken = step.emitted[index];
  const drafted = draft.tokens.filter((_, row) => row < tested(draft) && draft.parents[row] === parentRow);
  const tokens = settled.top.map(([id, text, p]) => ({id, text: shown(text), p, candidate: true}));
  const add = (id, text, p) => {
    if (!tokens.some(entry => entry.id === id)) tokens.push({id, text: shown(text), p, candidate: false});
  };
  // If draws decide, p of a second rejection and of a correction is a probability in the residual.
  const fromResidual = isSampled(rule);
  rejected.forEach((test, i) => {
    add(test.token, draft.pieces[test.row], fromResidual && i ? null : test.p);
  });
  if (emittedToken !== undefined)
    add(emittedToken, step.pieces[index], fromResidual && rejected.length ? null : settled.p);
  return tokens.map(entry => ({
    ...entry,
    drafted: drafted.includes(entry.id),
    rejected: rejected.some(test => test.token === entry.id),
    emitted: entry.id === emittedToken,
  }));
}

/** The residual max(0, p - q) of each candidate. q was recorded for the tested token only, so the residual of the
    others is between `low` and `high`. Null if no token was rejected by a draw. */
export function residualOf(position, tokens, rule) {
  const {rejected, settled} = position;
  if (rule !== "rejection" || !rejected.length) return null;
  if (rejected.some(test => test.p == null || test.q == null)) return null;
  const [first] = rejected;
  const exact = rejected.every(test => test.q === 1); // q is a point mass: the others keep their p
  const isBounded = exact || rejected.length === 1;
  const low = p => (exact ? p : Math.max(0, p - (1 - first.q)));
  const bound = entry => {
    if (entry.rejected) return {low: 0, high: 0};
    return isBounded && entry.p != null ? {low: low(entry.p), high: entry.p} : null;
  };
  const left = exact ? rejected.reduce((sum, test) => sum * (1 - test.p), 1) : null;
  const share = settled.outcome === "correction" ? settled.p : null;
  return {left, share, explanation: explanationOf(rejected, left), rows: tokens.map(bound)};
}

/** A sentence on which part of the residual is known; `left` is its sum, null if unknown. */
function explanationOf([{q}, ...others], left) {
  if (left !== null) {
    return `The rejected token has all of q, so the other tokens keep their p: ${probability(left)} in total.`;
  }
  if (others.length) return "After more than one rejection, the residual was not recorded.";
  const explanation = `q was recorded for the rejected token only, ${probability(q)}.`;
  return `${explanation} The residual of any other token is between p − ${probability(1 - q)} (solid) and p (dashed).`;
}
