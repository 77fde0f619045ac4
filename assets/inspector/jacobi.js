/* jacobi.js: the window of lookahead decoding as plain data: its levels and columns, the verified n-grams and the
   attention mask. They are derived from the draft's parents, because a recording contains no other structure. */

import {ancestors, STATUSES, statusOf, tested} from "./draft.js";
import {rootOf, shown} from "./text.js";

/** The number of columns of a pass's window. The first row of level 2 is a child of column 1. With one level or one
    column the parents are ambiguous, but a lane's first window always has one level. */
function columnsOf(lane, step) {
  const {draft} = step;
  const first = tested(draft);
  for (let i = 1; i < draft.window; i++) if (draft.parents[first + i] !== first + i - 1) return i;
  const opening = lane.steps.find(other => other.draft.window > 0);
  const columns = opening === step ? draft.window : columnsOf(lane, opening);
  return draft.window % columns ? draft.window : columns;
}

/** The guesses of a pass by level and column: [[{token, text}]]; empty without a window. */
export function gridOf(lane, step) {
  if (!step?.draft.window) return [];
  const {draft} = step;
  const first = tested(draft);
  const columns = columnsOf(lane, step);
  const cells = draft.pieces.map((piece, row) => ({token: draft.tokens[row], text: shown(piece)}));
  const grid = [];
  for (let row = first; row < cells.length; row += columns) grid.push(cells.slice(row, row + columns));
  return grid;
}

/** Mark the cells that repeat the previous iteration's guess for the same position; `above` is the older level. Level
    l, column c (from 1) guesses the token l + c - 1 positions ahead, and so does level l - 1, column c + 1: that is
    the guess of the previous iteration. Cells of two passes cannot be compared, because the levels move up. */
const markRepeats = (level, above) =>
  level.map((cell, c) => ({...cell, repeats: above?.[c + 1]?.token === cell.token}));

/** The window of a pass: {columns, levels, predictions, change, full}; null if the pass has none. `predictions` are the
    target's at the newest level. */
export function windowOf(log, laneIndex, stepIndex) {
  const lane = log.lanes[laneIndex];
  const step = lane?.steps[stepIndex];
  const grid = gridOf(lane, step);
  if (!grid.length) return null;
  const before = gridOf(lane, lane.steps[stepIndex - 1]);
  const after = gridOf(lane, lane.steps[stepIndex + 1]);
  const deepest = lane.steps.reduce((max, other) => Math.max(max, other.draft.window / grid[0].length), 0);
  const predictions = after.length && after[0].length === grid[0].length ? after.at(-1) : null;
  const earlier = lane.steps.slice(0, stepIndex).some(other => other.draft.window > 0);
  const opening = earlier ? "restarted" : "opened";
  return {
    columns: grid[0].length,
    levels: grid.map((level, l) => markRepeats(level, grid[l - 1])),
    predictions: predictions && markRepeats(predictions, grid.at(-1)),
    change: !before.length ? opening : before.length < grid.length ? "grew" : "moved",
    full: grid.length === deepest,
  };
}

/** The verified n-grams: one entry per root-to-leaf path of the verification branch. A leaf belongs to one n-gram only,
    so its origin is the n-gram's origin. Columns and tokens count from 1. */
export function ngramsOf(log, laneIndex, stepIndex) {
  const lane = log.lanes[laneIndex];
  const step = lane.steps[stepIndex];
  const {draft} = step;
  const n = tested(draft);
  const inner = new Set(draft.parents.slice(0, n));
  const leaves = Array.from({length: n}, (_, row) => row).filter(row => !inner.has(row));
  const root = shown(rootOf(log, laneIndex, stepIndex));
  return leaves.map(leaf => {
    const path = ancestors(draft.parents, leaf);
    const accepted = path.filter(row => step.path.includes(row)).length;
    return {
      ...{path, root, accepted},
      tokens: path.map(row => ({text: shown(draft.pieces[row]), status: statusOf(step, row)})),
      origin: originOf(lane, draft, leaf),
      outcome: outcomeOf(step, path, accepted),
      isAccepted: accepted === path.length,
    };
  });
}

/** The origin of an n-gram: {kind: "pass", pass, column, step}, {kind: "prompt"}, or {kind: "unknown"}. */
function originOf(lane, draft, row) {
  if (!draft.births?.length) return {kind: "unknown"};
  const source = draft.births[row];
  if (!source) return {kind: "prompt"};
  return {
    kind: "pass",
    pass: source[0],
    column: source[1] + 1,
    step: lane.steps.findIndex(step => step.kind === "verify" && step.index === source[0]),
  };
}

const ENDS = {rejected: "then rejected", ended: "then the text ended"};
function outcomeOf(step, path, accepted) {
  if (accepted === path.length) return "accepted";
  const status = statusOf(step, path[accepted]);
  if (!accepted) return STATUSES[status].label;
  return `${accepted} of ${path.length} accepted, ${ENDS[status] || "then another branch was accepted"}`;
}

/** The attention mask of a pass: [{name, text, group, attendsTo: rows of the pass}]. Row 0 is the text's last token.
    Every row attends to the cached text, too. */
export function maskOf(log, laneIndex, stepIndex) {
  const lane = log.lanes[laneIndex];
  const step = lane.steps[stepIndex];
  const {draft} = step;
  const n = tested(draft);
  const ngrams = draft.window ? ngramsOf(log, laneIndex, stepIndex) : [];
  const columns = draft.window ? columnsOf(lane, step) : 1;
  function nameOf(row) {
    if (row >= n) return `window level ${Math.floor((row - n) / columns) + 1}, column ${((row - n) % columns) + 1}`;
    const ngram = ngrams.findIndex(({path}) => path.includes(row));
    return ngram < 0 ? "drafted" : `n-gram ${ngram + 1}, token ${ngrams[ngram].path.indexOf(row) + 2}`;
  }
  const root = shown(rootOf(log, laneIndex, stepIndex));
  const drafted = draft.pieces.map((piece, row) => ({
    name: nameOf(row),
    text: shown(piece),
    group: row >= n ? "window" : "tried",
    attendsTo: [0, ...ancestors(draft.parents, row).map(other => other + 1)],
  }));
  return [{name: "the text’s last token", text: root, group: "root", attendsTo: [0]}, ...drafted];
}

/** The rows that a row attends to, as in "the text, row 0, rows 3 to 5 and itself"; three or more rows are a range. */
export function attendsToLabel(row, attendsTo) {
  const others = attendsTo.filter(other => other !== row);
  const labels = ["the text"];
  for (let i = 0; i < others.length; ) {
    let j = i;
    while (others[j + 1] === others[j] + 1) j += 1;
    if (j - i >= 2) labels.push(`rows ${others[i]} to ${others[j]}`);
    else for (let k = i; k <= j; k++) labels.push(`row ${others[k]}`);
    i = j + 1;
  }
  return `${labels.join(", ")} and itself`;
}
