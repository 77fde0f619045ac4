/* checks.js: the tasks of the exercise in lesson 9, and the four tests that grade them. All cases are drawn with a
   seeded generator, so the same code always gets the same result. */

import {hundredths, percent} from "../page/numbers.js";

const END = ".";
const WORDS = ["the", "cat", "dog", "sat", "saw", "and", "ran", "on"];
const TOKENS = ["cat", "dog", "fox"];
const [TEXTS, PASSES, THROWS] = [8, 10, 4000];
const AGREES = 0.7; // chance that a drafted word is the target's
const CHI_SQUARE = 18.4; // a correct rule exceeds it in 1 of 10,000 runs with 2 degrees of freedom
const DEVIATIONS = 4; // standard deviations that the acceptance rate may differ
const LIKE = 0.03; // difference of shares below which a known mistake is the likely cause

/** Random numbers from 0 to 1 (mulberry32). The same seed gives the same numbers. */
export function generator(seed) {
  let state = seed;
  return () => {
    state = (state + 0x6d2b79f5) | 0;
    let mixed = Math.imul(state ^ (state >>> 15), 1 | state);
    mixed = (mixed + Math.imul(mixed ^ (mixed >>> 7), 61 | mixed)) ^ mixed;
    return ((mixed ^ (mixed >>> 14)) >>> 0) / 2 ** 32;
  };
}

// ------------------------------------------------------------------ greedy verification

/** The tokens that a pass writes: the accepted tokens and the target's own, up to the end of the text. */
export function verify(draft, predictions, end = END) {
  const written = [];
  for (let i = 0; i <= draft.length; i++) {
    written.push(predictions[i]);
    if (predictions[i] === end || draft[i] !== predictions[i]) break;
  }
  return written;
}

const acceptedOf = (draft, predictions) => {
  const first = draft.findIndex((word, i) => word !== predictions[i]);
  return first < 0 ? draft.length : first;
};
/* Results of common mistakes. The first one that equals the returned value names the likely cause. */
const MISTAKES = [
  [
    (draft, predictions) => draft.slice(0, acceptedOf(draft, predictions)),
    draft => (draft.rejects ? "The correction is missing." : "The bonus is missing."),
  ],
  [(draft, predictions) => [predictions[acceptedOf(draft, predictions)]], () => "The accepted tokens are missing."],
  [
    (draft, predictions) => draft.filter((word, i) => word === predictions[i]),
    () => "Your code continues after a rejection, and the correction is missing.",
  ],
  [
    (draft, predictions) => [...draft.filter((word, i) => word === predictions[i]), predictions[draft.length]],
    () => "Your code continues after a rejection. These predictions have read a token that is not in the text.",
  ],
  [(_, predictions) => predictions, () => "Your code continues after a rejection."],
  [draft => draft, () => "Your code accepts every drafted token."],
];
const isSame = (a, b) => JSON.stringify(a) === JSON.stringify(b);

function hintOf([draft, predictions], returned) {
  const marked = Object.assign([...draft], {rejects: acceptedOf(draft, predictions) < draft.length});
  const end = Array.isArray(returned) ? returned.indexOf(END) : -1;
  if (end >= 0 && end < returned.length - 1) return "Your code writes tokens after the end of the text.";
  const found = MISTAKES.find(([result]) => isSame(result(draft, predictions), returned));
  return found ? found[1](marked) : "";
}

/** The toy target's next word depends on the last two words. It never ends the text. */
const nextWord = words => {
  const [a, b] = [0, ...words.map(word => WORDS.indexOf(word))].slice(-2);
  return WORDS[(5 * a + 3 * b + words.length) % WORDS.length];
};

/** A pass after `context` with k drafted words: [draft, predictions, end]. */
function passAfter(context, k, random) {
  const draft = [];
  const predictions = [];
  for (let i = 0; i < k; i++) {
    predictions.push(nextWord([...context, ...draft]));
    draft.push(random() < AGREES ? predictions[i] : WORDS[Math.floor(random() * WORDS.length)]);
  }
  return [draft, [...predictions, nextWord([...context, ...draft])], END];
}

/** Passes over several texts, each after the text that naive decoding writes. */
function passesOfTexts() {
  const random = generator(1);
  const cases = [];
  for (let number = 0; number < TEXTS; number++) {
    let context = [WORDS[number], WORDS[(3 * number + 1) % WORDS.length]];
    for (let i = 0; i < PASSES; i++) {
      const values = passAfter(context, 1 + (i % 5), random);
      cases.push({values});
      context = [...context, ...verify(...values)];
    }
  }
  return cases;
}

/** Drafts that agree with the target, with the end of the text at each position. */
function endings() {
  const random = generator(2);
  const cases = [];
  for (let k = 2; k <= 5; k++) {
    for (let at = 0; at <= k; at++) {
      const text = Array.from({length: k + 1}, () => WORDS[Math.floor(random() * WORDS.length)]);
      text[at] = END;
      cases.push({values: [text.slice(0, k), text, END]});
    }
  }
  return cases;
}

/** Drafts by the target itself, of 1 to 8 words. */
function draftsByTarget() {
  const random = generator(3);
  return Array.from({length: 8}, (_, i) => {
    const text = Array.from({length: i + 2}, () => WORDS[Math.floor(random() * WORDS.length)]);
    return {values: [text.slice(0, -1), text, END]};
  });
}

const words = list => list.join(" ") || "nothing";
const shown = value =>
  Array.isArray(value) && value.every(x => typeof x === "string") ? words(value) : String(JSON.stringify(value));

/** The returned value of a case, from its JSON; undefined if there is none. */
function parsed({value}) {
  try {
    return JSON.parse(value);
  } catch {
    return undefined; // the value has no JSON, as a function has none, or it is too long
  }
}

/** Return the first failing case of a test of `verify`, or null. `isRight(returned, expected)` decides. */
function firstFailing(cases, results, isRight) {
  for (const [i, {values}] of cases.entries()) {
    const expected = verify(...values);
    const returned = parsed(results[i]);
    if (!results[i].error && isRight(returned, expected)) continue;
    const [draft, predictions, end] = values;
    const input = [
      ["draft", words(draft)],
      ["predictions", words(predictions)],
      ["end", end],
    ];
    const outcome = results[i].error ? `the error ${parsed({value: results[i].error})}` : shown(returned);
    const hint = results[i].error ? "" : hintOf(values, returned);
    return {lines: [...input, ["expected", words(expected)], ["returned", outcome]], hint};
  }
  return null;
}

// The first test compares texts only. Fewer tokens per pass are slower, and the third test rejects them.
const isBeginning = (returned, expected) =>
  Array.isArray(returned) && returned.length > 0 && isSame(returned, expected.slice(0, returned.length));

// ------------------------------------------------------------------ the rejection rule

const DISTRIBUTIONS = [
  {p: [0.5, 0.3, 0.2], q: [0.2, 0.7, 0.1]},
  {p: [0.1, 0.6, 0.3], q: [0.3, 0.3, 0.4]},
  {p: [0.7, 0.3, 0], q: [0.1, 0.2, 0.7]},
];

/** The index of a token drawn from q with a random number. */
function drawn(q, random) {
  let rest = random;
  for (const [i, share] of q.entries()) {
    rest -= share;
    if (rest < 0) return i;
  }
  return q.length - 1;
}

function throwsOfDice() {
  const random = generator(4);
  const throwDie = ({p, q}) => ({values: [p, q, drawn(q, random()), random()], random: random()});
  return DISTRIBUTIONS.flatMap(pair => Array.from({length: THROWS}, () => throwDie(pair)));
}

const overlapOf = ({p, q}) => p.reduce((sum, x, i) => sum + Math.min(x, q[i]), 0);
/* The distributions of common mistakes, computed from p and q. */
const WRONG_SHARES = [
  [({q}) => q, "Your code accepts every drafted token."],
  [
    ({p, q}) => p.map((x, i) => Math.min(x, q[i]) + (1 - overlapOf({p, q})) * x),
    "After a rejection, your code draws from p. Draw from the residual: max(0, p - q).",
  ],
  [
    ({p, q}) => p.map((x, i) => Math.min(x, q[i]) + (1 - overlapOf({p, q})) * q[i]),
    "After a rejection, your code draws from q. Draw from the residual: max(0, p - q).",
  ],
];

/** Return the first pair of distributions whose throws do not have the distribution p, or null. */
function judgeDice(cases, results) {
  const wrong = results.findIndex(result => result.error || ![0, 1, 2].includes(parsed(result)));
  if (wrong >= 0) return invalidThrow(cases[wrong].values, results[wrong]);
  for (const [number, pair] of DISTRIBUTIONS.entries()) {
    const counts = TOKENS.map(() => 0);
    let kept = 0;
    for (let i = number * THROWS; i < (number + 1) * THROWS; i++) {
      const token = parsed(results[i]);
      counts[token]++;
      kept += Number(token === cases[i].values[2]);
    }
    const failed = judgeCounts(pair, counts, kept);
    if (failed) return failed;
  }
  return null;
}

const listed = (numbers, format) => TOKENS.map((token, i) => `${token} ${format(numbers[i])}`).join(", ");

function invalidThrow([p, q, token, u], result) {
  const input = [
    ["p", listed(p, String)],
    ["q", listed(q, String)],
    ["token", `${token} (${TOKENS[token]})`],
    ["u", hundredths(u)],
  ];
  const outcome = result.error ? `the error ${parsed({value: result.error})}` : shown(parsed(result));
  const isRejected = u >= p[token] / q[token];
  const hint = isRejected && !result.error ? "A rejected token needs a correction: draw it from the residual." : "";
  return {lines: [...input, ["expected", "a token: 0, 1 or 2"], ["returned", outcome]], hint};
}

function judgeCounts(pair, counts, kept) {
  const {p, q} = pair;
  const deviation = p.reduce(
    (sum, x, i) => sum + (x ? (counts[i] - x * THROWS) ** 2 / (x * THROWS) : counts[i] * THROWS),
    0,
  );
  const input = [
    ["p", listed(p, String)],
    ["q", listed(q, String)],
  ];
  if (deviation > CHI_SQUARE) {
    const shares = counts.map(n => n / THROWS);
    const isLike = ([compute]) => compute(pair).every((x, i) => Math.abs(x - shares[i]) < LIKE);
    const hint = WRONG_SHARES.find(isLike)?.[1] || "";
    return {lines: [...input, ["expected", listed(p, hundredths)], ["returned", listed(shares, hundredths)]], hint};
  }
  const [overlap, rate] = [overlapOf(pair), kept / THROWS];
  if (Math.abs(rate - overlap) < DEVIATIONS * Math.sqrt((overlap * (1 - overlap)) / THROWS)) return null;
  const accepted = share => `${percent(share, 0)} of the drafted tokens are written`;
  const hint = "The distribution is right, but more drafted tokens can be accepted: test the drafted token itself.";
  return {lines: [...input, ["expected", accepted(overlap)], ["returned", accepted(rate)]], hint};
}

// ------------------------------------------------------------------ the tasks

/* `cases()` returns the cases of a test, and `judge(cases, results)` the first failing case or null. */
const verifyTest = (name, cases, isRight) => ({
  name,
  cases,
  judge: (all, results) => firstFailing(all, results, isRight),
});

export const TASKS = [
  {
    id: "verify",
    title: "1. Greedy verification",
    names: ["draft", "predictions", "end"],
    about: [
      ["draft", "the k drafted words"],
      ["predictions", "k + 1 words of the target; predictions[i] is at the position of draft[i]"],
      ["end", "the word that ends the text"],
      ["return", "the list of words that this pass writes"],
    ],
    starter: `const written = [];
for (let i = 0; i < draft.length; i++) {
  if (draft[i] !== predictions[i]) break;
  written.push(draft[i]);
}
return written;`,
    solution: `const written = [];
for (let i = 0; i <= draft.length; i++) {
  written.push(predictions[i]);
  if (predictions[i] === end || draft[i] !== predictions[i]) break;
}
return written;`,
    tests: [
      verifyTest("equal ids with naive decoding", passesOfTexts, isBeginning),
      verifyTest("an end inside accepted tokens", endings, isSame),
      verifyTest("a draft by the target itself, accepted completely", draftsByTarget, isSame),
    ],
  },
  {
    id: "rejection",
    title: "2. The rejection rule",
    names: ["p", "q", "token", "u"],
    about: [
      ["p, q", "the probabilities of all tokens, as lists"],
      ["token", "the index of the drafted token, drawn from q"],
      ["u", "a random number between 0 and 1"],
      ["draw(weights)", "returns an index, drawn in proportion to the weights"],
      ["return", "the index of the token that is written"],
    ],
    starter: `if (u < p[token] / q[token]) return token;
return draw(p);`,
    solution: `if (u < p[token] / q[token]) return token;
return draw(p.map((x, i) => Math.max(0, x - q[i])));`,
    tests: [{name: "dice compared with the distribution", cases: throwsOfDice, judge: judgeDice}],
  },
];

/** All cases of a task's tests, in order: [{values, random}]. */
export const casesOf = ({tests}) => tests.flatMap(({cases}) => cases());

/** Grade the results of these cases. Returns for each test {name, failed: null or {lines, hint}}. */
export function grade({tests}, results) {
  let first = 0;
  return tests.map(({name, cases, judge}) => {
    const all = cases();
    const failed = judge(all, results.slice(first, first + all.length));
    first += all.length;
    return {name, failed};
  });
}
