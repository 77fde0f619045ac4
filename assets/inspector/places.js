/* places.js: the places of a pass where a token was settled by a test.

   What it is.  `placesOf` pairs every rejection with the test that settled its place; `favourites` are the target's
   most likely tokens there; `residualOf` is what max(0, p - q) leaves of them.

   What it does not know.  The DOM. Nothing is estimated: what was not recorded is null. */

import {probability} from "../page/numbers.js";
import {tested} from "./draft.js";
import {shown} from "./text.js";

/** For each emitted token that a test settled {at, node: the row above it, rejected: tests, settled: that test}. */
export function placesOf(step) {
  const places = [];
  let rejected = [];
  for (const test of step.tests) {
    if (test.outcome === "rejected") rejected.push(test);
    else {
      const at = places.length;
      places.push({at, node: at ? step.path[at - 1] : -1, rejected, settled: test});
      rejected = [];
    }
  }
  return places;
}

/** The target's favourites at a place, and after them what was drafted or emitted there without being one. */
export function favourites(step, place, rule) {
  const {settled, rejected, at, node} = place;
  const {draft} = step;
  const own = step.emitted[at];
  const drafted = draft.tokens.filter((_, row) => row < tested(draft) && draft.parents[row] === node);
  const list = settled.top.map(([id, text, p]) => ({id, text: shown(text), p, favourite: true}));
  const add = (id, text, p) => {
    if (!list.some(entry => entry.id === id)) list.push({id, text: shown(text), p, favourite: false});
  };
  // Under the rejection rule p of a second rejection, and of a correction, is of the residual, not of the target.
  const drawn = rule === "rejection";
  rejected.forEach((test, i) => {
    add(test.token, draft.pieces[test.row], drawn && i ? null : test.p);
  });
  if (own !== undefined) add(own, step.pieces[at], drawn && rejected.length ? null : settled.p);
  return list.map(entry => ({
    ...entry,
    drafted: drafted.includes(entry.id),
    rejected: rejected.some(test => test.token === entry.id),
    emitted: entry.id === own,
  }));
}

/** What max(0, p - q) leaves of the favourites, as far as it was recorded: q is known for the tested token only,
    so for the others it is known to lie between `low` and `high`. Null where nothing was rejected by a draw. */
export function residualOf(place, list, rule) {
  const {rejected, settled} = place;
  if (rule !== "rejection" || !rejected.length) return null;
  if (rejected.some(test => test.p == null || test.q == null)) return null;
  const [first] = rejected;
  const exact = rejected.every(test => test.q === 1); // point masses: the others keep their p
  const isBounded = exact || rejected.length === 1;
  const low = p => (exact ? p : Math.max(0, p - (1 - first.q)));
  const bound = entry => {
    if (entry.rejected) return {low: 0, high: 0};
    return isBounded && entry.p != null ? {low: low(entry.p), high: entry.p} : null;
  };
  const left = exact ? rejected.reduce((rest, test) => rest * (1 - test.p), 1) : null;
  const share = settled.outcome === "correction" ? settled.p : null;
  return {left, share, known: knownOf(rejected, left), rows: list.map(bound)};
}

/** How far the residual is known, in words; `left` is its sum, null where that is not known. */
function knownOf([{q}, ...others], left) {
  if (left !== null) {
    return `The rejected token has all of q, so the other tokens keep their p: ${probability(left)} in total.`;
  }
  if (others.length) return "After more than one rejection, the residual was not recorded.";
  const known = `q was recorded for the rejected token only, ${probability(q)}.`;
  return `${known} The residual of any other token is between p − ${probability(1 - q)} (solid) and p (dashed).`;
}
