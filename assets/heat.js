/* heat.js: where drafts fail, and where the target hesitates, token by token.

   What it is.  `heatOf(step)` gives for every emitted token of a pass {fails, bits}: whether a drafted token was refused
   in its place, and the entropy of the target's distribution there. `levelOf(bits)` puts entropy into five classes.

   Why it is so.  Names, quotes and first words are where drafts die; seen over a whole text, that shows at a glance. The
   classes are the same for every race, so two lanes, or two prompts, can be compared by eye.

   What it does not know.  The DOM and colours. Entropy is what the recording says: it is never estimated. */

const lookaheadHeat = (() => {
  "use strict";

  const BITS = [0.25, 1, 2, 3.5];                 // bounds between the five classes of entropy, in bits
  const NATS = Math.log(2);

  /** For every emitted token: `fails` true where a draft was refused, false where one stood, null where none was; `bits` or null. */
  function heatOf(step) {
    const settled = step.tests.filter(test => test.outcome !== "rejected");
    const refused = step.tests.some(test => test.outcome === "rejected");
    return step.emitted.map((_, i) => {
      const test = settled[i], origin = step.origins[i];
      return {fails: origin === "accepted" ? false : origin === "correction" && refused ? true : null,
              bits: test && test.entropy != null ? test.entropy / NATS : null};
    });
  }

  const levelOf = bits => bits == null ? -1 : BITS.filter(bound => bits >= bound).length;

  /** The classes in words, for the legend. */
  const CLASSES = ["under 0.25 bits: sure", "to 1 bit", "to 2 bits", "to 3.5 bits", "more: anything goes"];

  return {heatOf, levelOf, CLASSES, BITS};
})();
