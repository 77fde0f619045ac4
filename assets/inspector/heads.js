/* heads.js: a draft of a trained head, as plain data to be shown: what the head read, and how it came to its tokens.

   What it is.  `draftingOf(log, lane, step)` gives the target's layers it read, the text's last tokens with what it
   read of each, and the draft by levels. `shape` says what a level is: "passes", if a pass of the head drafts one
   token (EAGLE); "heads", if all its tokens come from one state of the target's last layer (Medusa); else "slots" of a
   block.

   Why it is so.  A trace has what was drafted and not what might have been: a slot without a token is empty here.

   What it does not know.  The DOM; scores of tokens that were not drafted; by how much the Markov part shifted any. */

import {FATES, fateOf, tested} from "./draft.js";
import {quote, rootOf, shown} from "./text.js";

const TOKENS = 4; // of the text that are shown
const SLOTS = 32; // slots that are shown
const NAMED = 8; // layers that are named

/** "2, 5, 7 and 10". */
const listed = words => (words.length > 1 ? `${words.slice(0, -1).join(", ")} and ${words.at(-1)}` : words.join(""));

/** Which hidden states were read, in words. */
function layerWords({taps, layers}) {
  if (taps.length === 1 && taps[0] === layers) return `the hidden states after the last of ${layers} layers`;
  const named = taps.slice(0, NAMED).map(tap => (tap === 0 ? "the embedding" : String(tap)));
  if (taps.length > NAMED) named.push(`${taps.length - NAMED} more`);
  return `the hidden states after ${taps.length === 1 ? "layer" : "layers"} ${listed(named)} of ${layers}`;
}

/** The last tokens before a pass, its root the last of them: {texts, cut}. */
function lastTokens(log, laneIndex, stepIndex, most = TOKENS) {
  let texts = [];
  const {steps} = log.lanes[laneIndex];
  for (let i = stepIndex - 1; i >= 0 && texts.length <= most; i--) texts = [...steps[i].pieces, ...texts];
  if (texts.length <= most) texts = [...(log.header.prompt.pieces || []), ...texts];
  if (!texts.length) return {texts: [shown(rootOf(log, laneIndex, stepIndex))], cut: true};
  return {texts: texts.slice(-most).map(text => shown(text)), cut: texts.length > most};
}

/** What a level of the draft is, by the record of the head. */
function shapeOf({slots, taps, layers}) {
  if (slots <= 1) return "passes";
  return taps.length === 1 && taps[0] === layers ? "heads" : "slots";
}

/** What the head read of those tokens: {pairs, tokens: [{text, read, previous}]}. With `pairs`, each token is read
    together with the states of the token before it, `previous`. `read` is whether the token's states were read. */
function readOf(shape, {texts, cut}) {
  const pairs = shape === "passes";
  const last = texts.length - 1;
  const tokens = texts.map((text, i) => ({
    text,
    read: shape === "heads" ? i === last - 1 : i < last,
    previous: i ? texts[i - 1] : null,
  }));
  // The first of them has a token before it whose text is not shown.
  return {pairs, tokens: pairs ? tokens.slice(1) : tokens, cut: cut || pairs};
}

/** The rows of a draft by depth: [[{text, fate, sign, chance, after}]]; `after` is the drafted token above. */
function levelsOf(step) {
  const {draft} = step;
  const depths = [];
  const levels = [];
  for (let row = 0; row < tested(draft); row++) {
    const parent = draft.parents[row];
    depths[row] = parent < 0 ? 0 : depths[parent] + 1;
    levels[depths[row]] ||= [];
    const fate = fateOf(step, row);
    levels[depths[row]].push({
      text: shown(draft.pieces[row]),
      ...{fate, ...FATES[fate]},
      chance: draft.chances?.length ? draft.chances[row] : null,
      after: parent < 0 ? null : quote(draft.pieces[parent]),
    });
  }
  return levels;
}

/** Why a draft went no deeper than it did, as far as the record tells: "full", "room", "k", "unworthy". */
function endOf(log, laneIndex, stepIndex, depth, slots) {
  const {k, max_new_tokens: most} = log.header.settings;
  const written = log.lanes[laneIndex].steps.slice(0, stepIndex).reduce((sum, {emitted}) => sum + emitted.length, 0);
  if (slots && depth >= slots) return "full";
  if (depth >= most - written - 1) return "room";
  if (Number.isInteger(k)) return depth >= k ? "k" : "";
  return k === "auto" ? "unworthy" : "";
}

/** How a trained head drafted; null for a pass without such a draft. */
export function draftingOf(log, laneIndex, stepIndex) {
  const lane = log.lanes[laneIndex];
  const step = lane?.steps[stepIndex];
  const kind = lane?.options.draft;
  const heads = log.header.models?.heads || {};
  // A lane with several sources may have looked all rows up.
  const isDrafted =
    step &&
    tested(step.draft) &&
    step.draft.sources.some(source => source === lane.method || log.modelled.includes(source));
  const head = Object.hasOwn(heads, kind) ? heads[kind] : null;
  if (!isDrafted || !head?.taps) return null;
  const shape = shapeOf(head);
  const levels = levelsOf(step);
  const slots = shape === "passes" ? 0 : Math.max(head.slots, levels.length);
  const isTree = new Set(step.draft.parents).size < step.draft.parents.length;
  return {
    ...{shape, tree: isTree, name: shown(head.name)},
    ...{taps: head.taps, layers: head.layers, words: layerWords(head)},
    ...{markov: head.markov, confident: head.confident && !isTree},
    read: readOf(shape, lastTokens(log, laneIndex, stepIndex, shape === "passes" ? TOKENS + 1 : TOKENS)),
    anchor: shown(rootOf(log, laneIndex, stepIndex)),
    levels,
    ...{slots, empty: Math.max(0, Math.min(slots, SLOTS) - levels.length)},
    ...{end: endOf(log, laneIndex, stepIndex, levels.length, slots), k: log.header.settings.k},
  };
}
