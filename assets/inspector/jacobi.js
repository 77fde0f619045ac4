/* jacobi.js: the window of lookahead decoding, as plain data to be shown.

   What it is.  `windowOf(log, lane, step)` gives the grid of guesses of a pass, what the target said at them, and the
   n-grams from the pool that were verified in the same pass, each with its origin. `maskOf` returns which rows may
   attend to which.

   Why it is so.  A draft names parents only; rows, columns and levels follow from them. Level l, column c (from 1)
   guesses the token l + c - 1 places ahead. So does level l - 1, column c + 1: it is the guess of the iteration before.
   Where the two agree the iteration has stopped moving there. Comparing the same cell of two passes would say nothing:
   the levels only move up, so that cell held the neighbouring token of its own trajectory.

   What it does not know.  The DOM, and the pool beyond what was tried: the record does not hold it. */

import {ancestors, FATES, fateOf, tested} from "./draft.js";
import {rootOf, shown} from "./text.js";

/** How many columns a pass's window has. Level 2 hangs below column 1; where there is one level, or one column, the
    parents alone do not tell, but a lane's first window always is one level. */
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

/** Marks the cells that repeat the guess of the iteration before for the same place: `above` is the older level. */
const settle = (level, above) => level.map((cell, c) => ({...cell, settled: above?.[c + 1]?.token === cell.token}));

/** The window of a pass: {columns, levels, said, moved, full}; null where it has none. */
export function windowOf(log, laneIndex, stepIndex) {
  const lane = log.lanes[laneIndex];
  const step = lane?.steps[stepIndex];
  const grid = gridOf(lane, step);
  if (!grid.length) return null;
  const before = gridOf(lane, lane.steps[stepIndex - 1]);
  const after = gridOf(lane, lane.steps[stepIndex + 1]);
  const deepest = lane.steps.reduce((most, other) => Math.max(most, other.draft.window / grid[0].length), 0);
  const said = after.length && after[0].length === grid[0].length ? after.at(-1) : null;
  const earlier = lane.steps.slice(0, stepIndex).some(other => other.draft.window > 0);
  const opening = earlier ? "restarted" : "opened";
  return {
    columns: grid[0].length,
    levels: grid.map((level, l) => settle(level, grid[l - 1])),
    said: said && settle(said, grid.at(-1)),
    moved: !before.length ? opening : before.length < grid.length ? "grew" : "moved",
    full: grid.length === deepest,
  };
}

/** One entry per root-to-leaf path of the verification branch. Its leaf belongs to one n-gram only, so the leaf's
    birthplace is the n-gram's. Columns and tokens count from 1. */
export function triedOf(log, laneIndex, stepIndex) {
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
      tokens: path.map(row => ({text: shown(draft.pieces[row]), fate: fateOf(step, row)})),
      birth: birthOf(lane, draft, leaf),
      outcome: outcomeOf(step, path, accepted),
      whole: accepted === path.length,
    };
  });
}

/** Where an n-gram was found: {kind: "pass", pass, column, step}, {kind: "prompt"}, or {kind: "unknown"}. */
function birthOf(lane, draft, row) {
  if (!draft.births?.length) return {kind: "unknown"};
  const birth = draft.births[row];
  if (!birth) return {kind: "prompt"};
  return {
    kind: "pass",
    pass: birth[0],
    column: birth[1] + 1,
    step: lane.steps.findIndex(step => step.kind === "verify" && step.index === birth[0]),
  };
}

const ENDS = {rejected: "then rejected", ended: "then the text ended"};
function outcomeOf(step, path, accepted) {
  if (accepted === path.length) return "accepted";
  const fate = fateOf(step, path[accepted]);
  if (!accepted) return FATES[fate].words;
  return `${accepted} of ${path.length} accepted, ${ENDS[fate] || "then another branch was accepted"}`;
}

/** Who may look at whom in a pass: rows of the pass, the text's last token being row 0. Every row sees the cached
    text too. [{name, text, group, sees: rows of the pass}]. */
export function maskOf(log, laneIndex, stepIndex) {
  const lane = log.lanes[laneIndex];
  const step = lane.steps[stepIndex];
  const {draft} = step;
  const n = tested(draft);
  const tried = draft.window ? triedOf(log, laneIndex, stepIndex) : [];
  const columns = draft.window ? columnsOf(lane, step) : 1;
  function nameOf(row) {
    if (row >= n) return `window level ${Math.floor((row - n) / columns) + 1}, column ${((row - n) % columns) + 1}`;
    const gram = tried.findIndex(({path}) => path.includes(row));
    return gram < 0 ? "drafted" : `n-gram ${gram + 1}, token ${tried[gram].path.indexOf(row) + 2}`;
  }
  const root = shown(rootOf(log, laneIndex, stepIndex));
  const drafted = draft.pieces.map((piece, row) => ({
    name: nameOf(row),
    text: shown(piece),
    group: row >= n ? "window" : "tried",
    sees: [0, ...ancestors(draft.parents, row).map(other => other + 1)],
  }));
  return [{name: "the text’s last token", text: root, group: "root", sees: [0]}, ...drafted];
}

/** "the text, row 0, rows 3 to 5 and itself": what a row may see, runs of three and more drawn together. */
export function seesWords(row, sees) {
  const others = sees.filter(other => other !== row);
  const words = ["the text"];
  for (let i = 0; i < others.length; ) {
    let j = i;
    while (others[j + 1] === others[j] + 1) j += 1;
    if (j - i >= 2) words.push(`rows ${others[i]} to ${others[j]}`);
    else for (let k = i; k <= j; k++) words.push(`row ${others[k]}`);
    i = j + 1;
  }
  return `${words.join(", ")} and itself`;
}
