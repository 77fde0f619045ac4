/* matching.js: prompt lookup word by word: the last words of a text are looked up in the text before them. The
   longest match wins, then the most recent; the words after it are the draft. */

import {make, setText} from "../../page/dom.js";
import {range} from "./handles.js";

const WORDS = "the cat sat on the mat . the dog saw the cat sit on the mat and the cat sat on the mat .".split(" ");
const [MAX_MATCH, MAX_DRAFT] = [4, 4];

/** {from, length, draft} of the longest, most recent earlier match of the text's last words; null for none. */
export function matchOf(words) {
  for (let n = Math.min(MAX_MATCH, words.length - 1); n > 0; n--) {
    const last = words.slice(-n).join(" ");
    for (let from = words.length - n - 1; from >= 0; from--) {
      if (words.slice(from, from + n).join(" ") === last) {
        return {from, length: n, draft: words.slice(from + n, from + n + MAX_DRAFT)};
      }
    }
  }
  return null;
}

/** The words that followed the last word so far: [[word, count]], the most frequent first. */
export function followers(words) {
  const counts = new Map();
  words.slice(0, -1).forEach((word, i) => {
    if (word === words.at(-1)) counts.set(words[i + 1], (counts.get(words[i + 1]) || 0) + 1);
  });
  return [...counts].sort(([, a], [, b]) => b - a);
}

export function figure() {
  const text = make("p.la-f-text");
  const summary = make("p.la-f-advice", {"aria-live": "polite"});
  const trie = make("ul.la-f-trie", {"aria-label": "Words that followed the last word so far"});

  function draw(length) {
    const read = WORDS.slice(0, length);
    const match = matchOf(read);
    const isIn = (i, start) => match && i >= start && i < start + match.length;
    const spans = read.map((word, i) => {
      const kind = isIn(i, length - match?.length) ? ".la-f-last" : isIn(i, match?.from) ? ".la-f-match" : "";
      return make(`span${kind}`, `${word} `);
    });
    const drafted = (match?.draft || []).map((word, i) => {
      const isRight = match.draft.slice(0, i + 1).every((w, j) => w === WORDS[length + j]);
      return make(`span.la-f-drafted${isRight ? ".la-f-fits" : ""}`, `${isRight ? "✓" : "✕"}${word} `);
    });
    text.replaceChildren(...spans, ...drafted);
    const sentence =
      match &&
      `“${read.slice(-match.length).join(" ")}” occurred before; it was followed by “${match.draft.join(" ")}”.`;
    setText(summary, sentence || `“${read.at(-1)}” did not occur before: nothing is drafted.`);
    const last = make("li", make("b", read.at(-1)), " →");
    trie.replaceChildren(last, ...followers(read).map(([word, times]) => make("li", `${word} ${"●".repeat(times)}`)));
  }

  const value = 12;
  const limits = {min: 2, max: WORDS.length - 1, step: 1, value, describe: n => `${n} words`};
  draw(value);
  return [range("read so far", limits, draw), text, summary, trie];
}
