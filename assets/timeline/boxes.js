/* boxes.js: the signs and the names of a pass's tokens in the strip and in the lessons' drawing of a pass. */

export const MARKS = {accepted: "✓", rejected: "✕", unvisited: "·"};
export const NAMES = {accepted: "accepted", rejected: "rejected", unvisited: "not tested", own: "the target’s own"};
