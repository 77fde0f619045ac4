/* translation.js: a draft of a model with another tokenizer, as its tokens and the target's over one text. */

import {make} from "../page/dom.js";
import {count, percent} from "../page/numbers.js";
import {STATUSES, statusOf} from "./draft.js";
import {heading, small, token, unseen} from "./parts.js";
import {shown} from "./text.js";

const LENGTH = 240; // characters shown

/** The cells of a ruler: [{text, span, parts, kind, label}]. `span` is a number of characters. A token that ends
    within a character shares the cell of the next one. */
function ruler(pieces, kindOf) {
  const cells = [];
  let at = 0;
  let parts = 0;
  for (const [i, piece] of pieces.entries()) {
    parts += 1;
    const span = Array.from(piece).length;
    if (!span) continue;
    at += span;
    if (at > LENGTH) break;
    cells.push({text: shown(piece), span, parts, ...kindOf(i)});
    parts = 0;
  }
  return cells;
}

const sum = (steps, value) => steps.reduce((total, {draft}) => total + (draft.translation ? value(draft) : 0), 0);

/** {own, target: rulers, sentences} of a pass for which the draft model drafted text, else null. */
export function translationOf(log, laneIndex, stepIndex) {
  const {steps} = log.lanes[laneIndex];
  const step = steps[stepIndex];
  const {translation, pieces} = step.draft;
  if (!translation) return null;
  const {used} = translation;
  const all = translation.pieces.length;
  const ownKind = i => (i < used ? {kind: "plain", label: ""} : {kind: "unreached", label: "not translated"});
  const targetKind = row => ({kind: statusOf(step, row), label: STATUSES[statusOf(step, row)].label});
  const soFar = steps.slice(0, stepIndex + 1);
  const drafted = sum(soFar, draft => draft.translation.pieces.length);
  const share = drafted ? percent(sum(soFar, draft => draft.translation.used) / drafted, 0) : "0%";
  return {
    own: ruler(translation.pieces, ownKind),
    target: ruler(pieces, targetKind),
    sentences: [
      `The draft model has another tokenizer, so it drafted text, ${count(all, "token")}. ` +
        `${used} gave tokens of the target, and the last ${all - used} gave none.`,
      `In this lane so far, ${share} of its tokens were translated.`,
    ],
  };
}

const width = cells => cells.reduce((total, {span}) => total + span, 0);

function list(label, cells) {
  const items = cells.map(({text, span, parts, kind, label: outcome}) => {
    const several = parts > 1 ? [make("span.la-i-label", ` ${parts} tokens`)] : [];
    const item = make("li", token(text, kind), ...several, ...(outcome ? [unseen(`, ${outcome}`)] : []));
    item.style.gridColumn = `span ${span}`;
    return item;
  });
  return [make("span.la-i-label", label), make("ul", {role: "list", "aria-label": `Tokens of the ${label}`}, ...items)];
}

/** Both rulers over the drafted text. A character is a column, so equal boundaries are aligned. */
export function view({own, target, sentences}) {
  const rulers = make("div.la-i-rulers", ...list("draft model", own), ...list("target", target));
  rulers.style.gridTemplateColumns = `auto repeat(${Math.max(width(own), width(target), 1)}, minmax(1.6ch, auto))`;
  const label = {role: "group", tabindex: "0", "aria-label": "The drafted text in tokens of both models"};
  const notes = sentences.map(text => small(text));
  const scroll = make("div.la-i-scroll", label, rulers);
  return make("section.la-i-translation", heading("Two tokenizers"), scroll, ...notes);
}
