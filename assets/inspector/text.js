/* text.js: untrusted text of prompts and models, cut to a displayable length by whole code points, with signs for
   line breaks. */

import {signs} from "../page/dom.js";

const TOKEN_LENGTH = 40; // characters shown of one token
const CONTEXT_LENGTH = 90; // characters shown of the text before a pass

/** Return at most `limit` code points of untrusted text, with signs for line breaks. */
export function shown(text, limit = TOKEN_LENGTH) {
  const letters = Array.from(String(text).slice(0, 4 * limit));
  return signs(letters.length > limit ? `${letters.slice(0, limit).join("")}…` : letters.join(""));
}

/** The same for a quotation inside a sentence, without the spaces around the text. */
export const quote = text => (text == null ? null : shown(String(text).trim() || text));

/** The end of the text before a pass: {text, cut}. */
export function contextOf(log, laneIndex, stepIndex, limit = CONTEXT_LENGTH) {
  let text = "";
  const {steps} = log.lanes[laneIndex];
  for (let i = stepIndex - 1; i >= 0 && text.length <= 4 * limit; i--) text = steps[i].pieces.join("") + text;
  if (text.length <= 4 * limit) text = String(log.header.prompt.text).slice(-4 * limit - 1) + text;
  const letters = Array.from(text.slice(-4 * limit - 1));
  const cut = letters.length > limit;
  const tail = letters.slice(-limit).join("");
  const space = tail.search(/\s/);
  return {text: cut && space >= 0 && space < limit / 3 ? tail.slice(space + 1) : tail, cut};
}

/** The last token of the text before a pass, which is the pass's first row. */
export function rootOf(log, laneIndex, stepIndex) {
  for (let i = stepIndex - 1; i >= 0; i--) {
    const {pieces} = log.lanes[laneIndex].steps[i];
    if (pieces.length) return pieces.at(-1);
  }
  const {pieces, text} = log.header.prompt;
  return pieces?.length ? pieces.at(-1) : (String(text).match(/\s?\S*$/) || [""])[0];
}
