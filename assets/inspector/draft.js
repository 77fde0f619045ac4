/* draft.js: the rows of a draft as an outline, and the detailed status of each row, derived from the recorded
   statuses. */

export const branches = draft => new Set(draft.parents).size < draft.parents.length;
/** The number of rows that the target verifies: all rows except the window's, which come last. */
export const tested = draft => draft.tokens.length - (draft.window || 0);

/** The drafted rows on the path from the root to `row`, including `row`. */
export function ancestors(parents, row) {
  const path = [];
  for (; row >= 0; row = parents[row]) path.push(row);
  return path.reverse();
}

/** The verified rows in depth-first order, as {rows: [{row, depth, guide}], branches}; `guide` draws the tree. */
export function outline(draft) {
  const children = new Map();
  for (let row = 0; row < tested(draft); row++) {
    const parent = draft.parents[row];
    if (!children.has(parent)) children.set(parent, []);
    children.get(parent).push(row);
  }
  const forks = [...children.values()].some(rows => rows.length > 1);
  const list = [];
  const stack = []; // not recursion: the draft in an opened file may be deeper than the call stack
  const push = (parent, depth, indent) => {
    const rows = children.get(parent) || [];
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

/** The detailed status of a row: accepted, rejected, passed (a sibling was accepted), ended (the text ended),
    unreached. */
export function statusOf(step, row) {
  const {parents} = step.draft;
  const recorded = step.statuses[row];
  const parent = parents[row];
  if (recorded === "accepted" || recorded === "rejected") return recorded;
  if (parent >= 0 && step.statuses[parent] !== "accepted") return "unreached";
  return step.path.some(other => parents[other] === parent) ? "passed" : "ended";
}
export const STATUSES = {
  accepted: {sign: "✓", label: "accepted"},
  rejected: {sign: "✕", label: "rejected"},
  passed: {sign: "–", label: "not tested: another branch was accepted"},
  ended: {sign: "–", label: "not tested: the text ended"},
  unreached: {sign: "○", label: "not tested: an earlier token was rejected"},
};
