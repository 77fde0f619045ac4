/* rollback.js: how rejected rows leave the cache after a pass. */

import {make} from "../page/dom.js";
import {count} from "../page/numbers.js";
import {branches} from "./draft.js";
import {heading, small, token} from "./parts.js";
import {rootOf, shown} from "./text.js";

/** {kept, cut, again: texts of rows, sentence} of a drafted pass. Old recordings have keys in every layer. */
export function rollbackOf(log, laneIndex, stepIndex) {
  const {keys, recurrent} = log.header.models?.rollback || {keys: 1, recurrent: 0};
  const {draft, path} = log.lanes[laneIndex].steps[stepIndex];
  const kept = [rootOf(log, laneIndex, stepIndex), ...path.map(row => draft.pieces[row])];
  const cut = draft.pieces.filter((_, row) => !path.includes(row));
  const isRestored = recurrent > 0 && (cut.length > 0 || branches(draft));
  const parts = [];
  if (!cut.length) parts.push("Every row stays in the cache.");
  else if (keys > 0) parts.push(`The keys and values of ${count(cut.length, "row")} are cut from the cache.`);
  if (isRestored) {
    parts.push(
      `The state of ${count(recurrent, "recurrent layer")} cannot be cut: its copy from before the draft is restored.`,
    );
  }
  return {kept, cut, again: isRestored ? kept : [], sentence: parts.join(" ")};
}

/** The rollback after a drafted pass. */
export function view({kept, cut, again, sentence}) {
  const lines = [
    ["stay", kept, "accepted"],
    ["cut", cut, "rejected"],
    ["read again by the next pass", again, "own"],
  ].filter(([, rows]) => rows.length);
  const nodes = lines.map(([label, rows, kind]) =>
    small(make("b", label), ": ", ...rows.flatMap(text => [token(shown(text), kind), " "])),
  );
  return make("section.la-i-rollback", heading("Rollback"), small(sentence), ...nodes);
}
