/* heat.js: where drafts fail, and where the target hesitates, token by token.

   What it is.  `heatOf(step)` reads both from the tests of a pass; `levelOf(bits)` puts entropy into five classes.

   Why it is so.  Names, quotes and first words are where drafts die; seen over a whole text, that shows at a glance.
   The classes are the same for every race, so two lanes, or two prompts, can be compared by eye.

   What it does not know.  The DOM and colours. Entropy is what the recording says: it is never estimated. */

const BITS = [0.25, 1, 2, 3.5]; // bounds between the five classes of entropy, in bits

/** For every emitted token {fails, bits}: `fails` is true where a drafted token was rejected, false where one was
    accepted, null where none was drafted; `bits` is null where no entropy was recorded. */
export function heatOf(step) {
  const settling = step.tests.filter(test => test.outcome !== "rejected");
  const hasRejection = settling.length < step.tests.length;
  return step.origins.map((origin, i) => ({
    fails: origin === "accepted" ? false : origin === "correction" && hasRejection ? true : null,
    bits: settling[i]?.entropy == null ? null : settling[i].entropy / Math.LN2,
  }));
}

export const levelOf = bits => (bits == null ? -1 : BITS.filter(bound => bits >= bound).length);

/** The classes in words, for the legend. */
export const CLASSES = ["under 0.25 bits: certain", "to 1 bit", "to 2 bits", "to 3.5 bits", "more: uncertain"];
