/* text.js: text of prompts and models, cut to what fits, and the words around a pass.

   Why it is so.  The text is untrusted and of any length: it is cut by whole code points, and line breaks become signs.

   What it does not know.  The DOM. */

import {signs} from "../page/dom.js";

const LONGEST = 40; // letters shown of one token
const CONTEXT = 90; // letters shown of the words before a pass

/** At most `most` letters of untrusted text, whole code points, line breaks as signs. */
export function shown(text, most = LONGEST) {
  const letters = Array.from(String(text).slice(0, 4 * most));
  return signs(letters.length > most ? `${letters.slice(0, most).join("")}…` : letters.join(""));
}

/** The same for a quotation inside a sentence, where the space before a word would only be in the way. */
export const quote = text => (text == null ? null : shown(String(text).trim() || text));

/** The text before a pass, its end only: {text, cut}. */
export function contextOf(log, laneIndex, stepIndex, most = CONTEXT) {
  let text = "";
  const {steps} = log.lanes[laneIndex];
  for (let i = stepIndex - 1; i >= 0 && text.length <= 4 * most; i--) text = steps[i].pieces.join("") + text;
  if (text.length <= 4 * most) text = String(log.header.prompt.text).slice(-4 * most - 1) + text;
  const letters = Array.from(text.slice(-4 * most - 1));
  const cut = letters.length > most;
  const tail = letters.slice(-most).join("");
  const space = tail.search(/\s/);
  return {text: cut && space >= 0 && space < most / 3 ? tail.slice(space + 1) : tail, cut};
}

/** The last token of the text before a pass: its first row. */
export function rootOf(log, laneIndex, stepIndex) {
  for (let i = stepIndex - 1; i >= 0; i--) {
    const {pieces} = log.lanes[laneIndex].steps[i];
    if (pieces.length) return pieces.at(-1);
  }
  const {pieces, text} = log.header.prompt;
  return pieces?.length ? pieces.at(-1) : (String(text).match(/\s?\S*$/) || [""])[0];
}
