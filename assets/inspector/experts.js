/* experts.js: the experts of a mixture that the rows of a pass activated. */

import {make} from "../page/dom.js";
import {count, exact} from "../page/numbers.js";
import {bar, heading, small} from "./parts.js";

/** {bars: [label, share], sentence} of a pass; null if the target has no experts, and in old recordings. */
export function expertsOf(log, laneIndex, stepIndex) {
  const step = log.lanes[laneIndex].steps[stepIndex];
  const mixture = log.header.models?.experts;
  if (!mixture || step.experts == null) return null;
  const {layers, total, per_row} = mixture;
  const rows = step.draft.pieces.length + 1;
  const active = `${exact(step.experts, 3)} of ${count(total, "expert")} per layer`;
  return {
    bars: [
      ["this pass", step.experts / total],
      ["one row", per_row / total],
    ],
    sentence: [
      `This pass’s ${count(rows, "row")} activated ${active} (mean over ${count(layers, "layer")}).`,
      `One row activates ${per_row}. The pass reads the weights of every activated expert, so more rows cost more.`,
    ].join(" "),
  };
}

/** The experts of a pass. */
export function view({bars, sentence}) {
  const lines = bars.map(([label, share]) =>
    make("div.la-i-timeline", make("span.la-i-label", label), bar(share, "p")),
  );
  return make("section.la-i-experts", heading("Experts"), small(sentence), ...lines);
}
