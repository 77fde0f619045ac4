/* heads.js: returns a trained head's draft as plain data: the head's input, and its tokens by level. */

import {STATUSES, statusOf, tested} from "./draft.js";
import {quote, rootOf, shown} from "./text.js";

const TOKENS = 4; // of the text, shown
const SLOTS = 32; // shown
const NAMED = 8; // layers in the label

/** "2, 5, 7 and 10". */
const joined = names => (names.length > 1 ? `${names.slice(0, -1).join(", ")} and ${names.at(-1)}` : names.join(""));

/** A phrase that names the hidden states that the head read. */
function layersLabel({taps, layers}) {
  if (taps.length === 1 && taps[0] === layers) return `the hidden states after the last of ${layers} layers`;
  const named = taps.slice(0, NAMED).map(tap => (tap === 0 ? "the embedding" : String(tap)));
  if (taps.length > NAMED) named.push(`${taps.length - NAMED} more`);
  return `the hidden states after ${taps.length === 1 ? "layer" : "layers"} ${joined(named)} of ${layers}`;
}

/** The last tokens before a pass, ending with its root: {texts, cut}. */
function lastTokens(log, laneIndex, stepIndex, limit = TOKENS) {
  let texts = [];
  const {steps} = log.lanes[laneIndex];
  for (let i = stepIndex - 1; i >= 0 && texts.length <= limit; i--) texts = [...steps[i].pieces, ...texts];
  if (texts.length <= limit) texts = [...(log.header.prompt.pieces || []), ...texts];
  if (!texts.length) return {texts: [shown(rootOf(log, laneIndex, stepIndex))], cut: true};
  return {texts: texts.slice(-limit).map(text => shown(text)), cut: texts.length > limit};
}

/** The meaning of a level of the draft. "passes": each pass of the head drafts one token (EAGLE). "heads": all tokens
    come from one state of the target's last layer (Medusa). "slots": the head drafts a block. */
function shapeOf({slots, taps, layers}) {
  if (slots <= 1) return "passes";
  return taps.length === 1 && taps[0] === layers ? "heads" : "slots";
}

/** The head's input from these tokens: {pairs, tokens: [{text, read, previous}], cut}. With `pairs`, the head reads
    each token together with the states of the token before it, `previous`. `read`: the token's states were read. */
function readOf(shape, {texts, cut}) {
  const pairs = shape === "passes";
  const last = texts.length - 1;
  const tokens = texts.map((text, i) => ({
    text,
    read: shape === "heads" ? i === last - 1 : i < last,
    previous: i ? texts[i - 1] : null,
  }));
  // The text of the token before the first one is not shown.
  return {pairs, tokens: pairs ? tokens.slice(1) : tokens, cut: cut || pairs};
}

/** The rows of a draft by depth: [[{text, status, sign, chance, after}]]; `after` is the text of its parent row. */
function levelsOf(step) {
  const {draft} = step;
  const depths = [];
  const levels = [];
  for (let row = 0; row < tested(draft); row++) {
    const parent = draft.parents[row];
    depths[row] = parent < 0 ? 0 : depths[parent] + 1;
    levels[depths[row]] ||= [];
    const status = statusOf(step, row);
    levels[depths[row]].push({
      text: shown(draft.pieces[row]),
      ...{status, ...STATUSES[status]},
      chance: draft.chances?.length ? draft.chances[row] : null,
      after: parent < 0 ? null : quote(draft.pieces[parent]),
    });
  }
  return levels;
}

/** Why the draft is not deeper: "full" (all slots used), "max_tokens" (the text ends), "k", "auto" (more was not
    worth its cost), or "" if the recording does not show it. */
function endOf(log, laneIndex, stepIndex, depth, slots) {
  const {k, max_new_tokens: maxTokens} = log.header.settings;
  const written = log.lanes[laneIndex].steps.slice(0, stepIndex).reduce((sum, {emitted}) => sum + emitted.length, 0);
  if (slots && depth >= slots) return "full";
  if (depth >= maxTokens - written - 1) return "max_tokens";
  if (Number.isInteger(k)) return depth >= k ? "k" : "";
  return k === "auto" ? "auto" : "";
}

/** The draft of a trained head in a pass; null if no trained head drafted. Slots without a token are counted in
    `empty`. */
export function draftingOf(log, laneIndex, stepIndex) {
  const lane = log.lanes[laneIndex];
  const step = lane?.steps[stepIndex];
  const kind = lane?.options.draft;
  const heads = log.header.models?.heads || {};
  // A lane with several sources may have found all rows by lookup.
  const isDrafted =
    step &&
    tested(step.draft) &&
    step.draft.sources.some(source => source === lane.method || log.modelSources.includes(source));
  const head = Object.hasOwn(heads, kind) ? heads[kind] : null;
  if (!isDrafted || !head?.taps) return null;
  const shape = shapeOf(head);
  const levels = levelsOf(step);
  const slots = shape === "passes" ? 0 : Math.max(head.slots, levels.length);
  const isTree = new Set(step.draft.parents).size < step.draft.parents.length;
  return {
    ...{shape, tree: isTree, name: shown(head.name)},
    ...{taps: head.taps, layers: head.layers, layersLabel: layersLabel(head)},
    ...{markov: head.markov, confident: head.confident && !isTree},
    read: readOf(shape, lastTokens(log, laneIndex, stepIndex, shape === "passes" ? TOKENS + 1 : TOKENS)),
    anchor: shown(rootOf(log, laneIndex, stepIndex)),
    levels,
    ...{slots, empty: Math.max(0, Math.min(slots, SLOTS) - levels.length)},
    ...{end: endOf(log, laneIndex, stepIndex, levels.length, slots), k: log.header.settings.k},
  };
}
