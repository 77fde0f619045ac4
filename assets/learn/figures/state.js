/* state.js: the rollback of keys and of a recurrent state, step by step. The state is a decaying count of the words
   that were read, as in the race below the figure. Its words are shown with their weights. */

import {make, setText} from "../../page/dom.js";
import {hundredths} from "../../page/numbers.js";
import {part} from "../widget.js";
import {choice, stepper} from "./handles.js";

const TEXT = ["Once", "there", "was"]; // in the cache
const ROOT = "a";
const DRAFT = ["small", "green", "frog", "who"];
const ACCEPTED = 2;
const CORRECTION = "toad";
const DECAY = 0.9;
const STEPS = ["before the pass", "snapshot", "the pass", "rollback", "the next pass"];
const LOOPS = ["correct loop", "state not restored"];

const kept = [ROOT, ...DRAFT.slice(0, ACCEPTED)];

/** The words that the state has read at a step, in order. */
export function readAt(step, isBroken) {
  const all = [...TEXT, ROOT, ...DRAFT];
  if (step < 2) return TEXT;
  if (step === 2) return all;
  if (isBroken) return step === 3 ? all : [...all, CORRECTION];
  return step === 3 ? TEXT : [...TEXT, ...kept, CORRECTION];
}

/** The weights of words in the state: 1 for the newest word, and a tenth less for each word before it. */
export const weightsOf = words => words.map((word, i) => [word, DECAY ** (words.length - 1 - i)]);

/** The keys at a step: [word, is it cut]. */
export function keysAt(step) {
  const rows = [ROOT, ...DRAFT];
  if (step < 2) return TEXT.map(word => [word, false]);
  if (step === 2) return [...TEXT, ...rows].map(word => [word, false]);
  const cut = step === 3 ? rows.slice(kept.length).map(word => [word, true]) : [[CORRECTION, false]];
  return [...[...TEXT, ...kept].map(word => [word, false]), ...cut];
}

const SENTENCES = [
  () => "The cache has read three words. There is one key per word, but only one state for all of them.",
  () => "The state is copied. This is the snapshot.",
  () => `The pass reads “${ROOT}” and four drafted words. Each adds a key, and each changes the state.`,
  isBroken => {
    const [first, second] = DRAFT.slice(ACCEPTED);
    const start = `“${first}” is rejected. Two keys are cut. The state has no part that can be cut`;
    const read = `it has read “${first}” and “${second}”, which are not in the text`;
    return isBroken ? `${start}, and it is not restored: ${read}.` : `${start}, so the snapshot is restored.`;
  },
  isBroken => {
    const after = `the correction “${CORRECTION}”`;
    return isBroken
      ? `The pass reads ${after}. The rejected words still have weight, so the next predictions are wrong.`
      : `The pass reads the accepted words again, then ${after}. This costs rows, but no further pass.`;
  },
];

/** A word in the state. After the rollback, rejected words are wrong. */
function box(word, weight, step) {
  const isWrong = step > 2 && DRAFT.indexOf(word) >= ACCEPTED;
  const name = isWrong ? `≠ ${word} ` : `${word} `;
  return make(`span.la-f-kept${isWrong ? ".la-f-wrong" : ""}`, name, make("span.la-g-small", hundredths(weight)));
}

export function figure() {
  let [step, isBroken] = [0, false];
  const keys = part("la-f-cache");
  const state = part("la-f-cache");
  const result = make("p.la-f-advice", {"aria-live": "polite"});

  function draw() {
    const cells = keysAt(step).map(([word, isCut]) =>
      make(`span.la-f-kept${isCut ? ".la-f-swept" : ""}`, isCut ? `✕ ${word}` : word),
    );
    const boxes = weightsOf(readAt(step, isBroken)).map(([word, weight]) => box(word, weight, step));
    keys.replaceChildren(make("span.la-g-small", "keys:"), ...cells);
    state.replaceChildren(make("span.la-g-small", "state, a sum with these weights:"), ...boxes);
    setText(result, SENTENCES[step](isBroken));
  }

  const limits = {min: 0, max: STEPS.length - 1, step: 1, value: 0, describe: at => STEPS[at]};
  const steps = stepper("step", limits, at => {
    step = at;
    draw();
  });
  const loop = choice("loop", LOOPS, 0, chosen => {
    isBroken = chosen === 1;
    draw();
  });
  draw();
  return [loop, steps.node, keys, state, result];
}
