/* matching.js: prompt lookup word by word: the last words of a text are looked up in the text before them. The
   longest match wins, then the most recent; the words after it are the draft. The next step shows its verdict. */

import {make, setText} from "../../page/dom.js";
import {count} from "../../page/numbers.js";
import {range, stepper} from "./handles.js";

const WORDS = "the cat sat on the mat . the dog saw the cat sit on the mat and the cat sat on the mat .".split(" ");
const [LONGEST, MAX_DRAFT, FIRST, START] = [4, 4, 2, 12];
const SIGNS = {accepted: "✓", rejected: "✕", "not tested": "·"};

/** {from, length, draft} of the longest, most recent earlier match of the text's last words; null for none. */
export function matchOf(words, shortest = 1) {
  for (let n = Math.min(LONGEST, words.length - 1); n >= shortest; n--) {
    const last = words.slice(-n).join(" ");
    for (let from = words.length - n - 1; from >= 0; from--) {
      if (words.slice(from, from + n).join(" ") === last) {
        return {from, length: n, draft: words.slice(from + n, from + n + MAX_DRAFT)};
      }
    }
  }
  return null;
}

/** The outcome of each word of a draft after the first `length` words of the text. */
export function verdictOf(draft, length) {
  const mismatch = draft.findIndex((word, i) => word !== WORDS[length + i]);
  const accepted = mismatch < 0 ? draft.length : mismatch;
  return draft.map((_, i) => (i < accepted ? "accepted" : i === accepted ? "rejected" : "not tested"));
}

/** The passes that write the text after its first two words, with lookup, with naive decoding and with an oracle. */
export function passesOf(shortest) {
  const total = WORDS.length - FIRST;
  let lookup = 0;
  for (let length = FIRST; length < WORDS.length; lookup++) {
    const draft = matchOf(WORDS.slice(0, length), shortest)?.draft || [];
    length += 1 + verdictOf(draft, length).filter(outcome => outcome === "accepted").length;
  }
  return {lookup, naive: total, oracle: Math.ceil(total / (MAX_DRAFT + 1))};
}

/** The words that followed the last word so far: [[word, count]], the most frequent first. */
export function followers(words) {
  const counts = new Map();
  words.slice(0, -1).forEach((word, i) => {
    if (word === words.at(-1)) counts.set(words[i + 1], (counts.get(words[i + 1]) || 0) + 1);
  });
  return [...counts].sort(([, a], [, b]) => b - a);
}

const quotation = words => `“${words.join(" ")}”`;

/** The verdict on the draft of the step before, as nodes. */
function verdict(length, shortest) {
  const before = WORDS.slice(0, length - 1);
  const {draft = []} = matchOf(before, shortest) || {};
  if (!draft.length) return [`After ${quotation(before.slice(-1))}, nothing was drafted.`];
  const outcomes = verdictOf(draft, length - 1);
  const accepted = outcomes.filter(outcome => outcome === "accepted").length;
  const words = draft.map((word, i) => {
    const kind = outcomes[i].replace(" ", "-");
    return make(`span.la-f-drafted.la-f-${kind}`, `${SIGNS[outcomes[i]]} ${word}`, make("span.la-unseen", outcomes[i]));
  });
  const result = `: ${accepted} of ${count(draft.length, "word")} accepted.`;
  return [`The draft after ${quotation(before.slice(-1))} was `, ...words, result];
}

export function figure() {
  const state = {length: START, shortest: 2};
  const text = make("p.la-f-text");
  const summary = make("p.la-f-advice", {"aria-live": "polite"});
  const last = make("p.la-f-text", {"aria-live": "polite"});
  const trie = make("ul.la-f-trie", {"aria-label": "Words that followed the last word so far"});
  const total = make("p.la-f-text");

  function draw(changes) {
    const {length, shortest} = Object.assign(state, changes);
    const read = WORDS.slice(0, length);
    const match = matchOf(read, shortest);
    const isIn = (i, start) => match && i >= start && i < start + match.length;
    const spans = read.map((word, i) => {
      const kind = isIn(i, length - match?.length) ? ".la-f-last" : isIn(i, match?.from) ? ".la-f-match" : "";
      return make(`span${kind}`, `${word} `);
    });
    text.replaceChildren(...spans, ...(match?.draft || []).map(word => make("span.la-f-drafted", word)));
    const found = match && `${quotation(read.slice(-match.length))} occurred before. Draft: ${quotation(match.draft)}.`;
    const isEnd = length === WORDS.length - 1;
    const question = isEnd ? "" : " Is it accepted? Guess, then go to the next word.";
    const none = `No match of ${count(shortest, "word")} or more: nothing is drafted.`;
    setText(summary, match ? found + question : none);
    last.replaceChildren(...verdict(length, shortest));
    const items = followers(read).map(([word, times]) => make("li", `${word} ${"●".repeat(times)}`));
    trie.replaceChildren(make("li", make("b", read.at(-1)), " →"), ...items);
    const {lookup, naive, oracle} = passesOf(shortest);
    setText(total, `Passes for the whole text: ${lookup} with lookup, ${naive} naive, ${oracle} with an oracle.`);
  }

  const ends = {min: FIRST + 1, max: WORDS.length - 1, step: 1, value: state.length, describe: n => `${n} words`};
  const words = stepper("words read", ends, length => draw({length}));
  const limits = {min: 1, max: LONGEST, step: 1, value: state.shortest, describe: n => count(n, "word")};
  draw({});
  return [words.node, range("shortest match", limits, shortest => draw({shortest})), text, summary, last, trie, total];
}
