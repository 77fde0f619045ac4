/* draft.js: a draft as an outline, and the outcomes of its rows.

   What it does not know.  The DOM. Statuses are read, never computed from p, q and the draw, which are rounded. */

export const branches = draft => new Set(draft.parents).size < draft.parents.length;
/** How many rows were there to be tested: all but those of the window, which are the last. */
export const tested = draft => draft.tokens.length - (draft.window || 0);

/** The drafted rows from the root down to `row`, itself included. */
export function ancestors(parents, row) {
  const path = [];
  for (; row >= 0; row = parents[row]) path.push(row);
  return path.reverse();
}

/** The rows to be tested, elder branches first and whole: [{row, depth, guide}]; `guide` draws the tree. */
export function outline(draft) {
  const below = new Map();
  for (let row = 0; row < tested(draft); row++) {
    const parent = draft.parents[row];
    if (!below.has(parent)) below.set(parent, []);
    below.get(parent).push(row);
  }
  const forks = [...below.values()].some(rows => rows.length > 1);
  const list = [];
  const stack = []; // a stranger's draft may be deeper than calls can go
  const push = (parent, depth, indent) => {
    const rows = below.get(parent) || [];
    stack.push(...rows.map((row, i) => ({row, depth, indent, isLast: i === rows.length - 1})).reverse());
  };
  push(-1, 1, "");
  while (stack.length) {
    const {row, depth, indent, isLast} = stack.pop();
    list.push({row, depth, guide: forks ? `${indent}${isLast ? "└ " : "├ "}` : ""});
    push(row, depth + 1, indent + (isLast ? "  " : "│ "));
  }
  return {rows: list, branches: forks};
}

/** The outcome of a row: accepted, rejected, passed (a sibling was accepted), ended (the text did), unreached. */
export function fateOf(step, row) {
  const {parents} = step.draft;
  const status = step.statuses[row];
  const parent = parents[row];
  if (status === "accepted" || status === "rejected") return status;
  if (parent >= 0 && step.statuses[parent] !== "accepted") return "unreached";
  return step.path.some(other => parents[other] === parent) ? "passed" : "ended";
}
export const FATES = {
  accepted: {sign: "✓", words: "accepted"},
  rejected: {sign: "✕", words: "rejected"},
  passed: {sign: "–", words: "not tested: another branch was accepted"},
  ended: {sign: "–", words: "not tested: the text ended"},
  unreached: {sign: "○", words: "not tested: an earlier token was rejected"},
};
