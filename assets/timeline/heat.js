/* heat.js: rejected drafts and the target's entropy per token, from the recorded tests. The classes of entropy are
   the same for every race, so lanes and prompts can be compared. */

const BITS = [0.25, 1, 2, 3.5]; // bounds between the five classes of entropy, in bits

/** One {fails, bits} per emitted token. `fails` is true if a drafted token was rejected there, false if one was
    accepted, null if none was drafted. `bits` is the entropy, null if it was not recorded. */
export function heatOf(step) {
  const finalTests = step.tests.filter(test => test.outcome !== "rejected");
  const hasRejection = finalTests.length < step.tests.length;
  return step.origins.map((origin, i) => ({
    fails: origin === "accepted" ? false : origin === "correction" && hasRejection ? true : null,
    bits: finalTests[i]?.entropy == null ? null : finalTests[i].entropy / Math.LN2,
  }));
}

export const levelOf = bits => (bits == null ? -1 : BITS.filter(bound => bits >= bound).length);

/** The labels of the classes, for the legend. */
export const CLASSES = ["under 0.25 bits: certain", "to 1 bit", "to 2 bits", "to 3.5 bits", "more: uncertain"];
