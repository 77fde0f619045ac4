/* pencil.js: one pass by hand: an editable draft, the target's predictions, the accepted tokens, and the cache after
   the pass. The target here is a table of next words, so the reader can check each prediction. */

import {make, setText} from "../../page/dom.js";
import {count} from "../../page/numbers.js";

const ROOT = "The";
const DRAFT = ["quick", "brown", "fox", "jumps"];
const AFTER = {
  The: "quick",
  quick: "brown",
  brown: "dog",
  dog: "sleeps",
  fox: "runs",
  jumps: "over",
  sleeps: "in",
  over: "the",
};

const predictionAfter = word => AFTER[word] || "and";

/** Return {outcomes, written, kept} of a pass over the root and a draft: outcomes, emitted words, rows kept in the
    cache. */
export function passOf(draft) {
  const read = [ROOT, ...draft];
  const mismatch = draft.findIndex((word, i) => word !== predictionAfter(read[i]));
  const accepted = mismatch < 0 ? draft.length : mismatch;
  const outcomes = draft.map((_, i) => (i < accepted ? "accepted" : i === accepted ? "rejected" : "not tested"));
  return {outcomes, written: [...draft.slice(0, accepted), predictionAfter(read[accepted])], kept: 1 + accepted};
}

export function figure() {
  const inputs = DRAFT.map((word, i) =>
    make("input.la-f-word", {type: "text", value: word, maxlength: 16, "aria-label": `drafted word ${i + 1}`}),
  );
  const cells = [ROOT, ...DRAFT].map(() => ["td", "td.la-f-answer", "td", "td.la-f-fate"].map(tag => make(tag)));
  cells.forEach(([, , drafted], i) => {
    if (inputs[i]) drafted.append(inputs[i]);
  });
  const heads = ["input", "the target predicts", "the draft has", ""].map(word => make("th", {scope: "col"}, word));
  const rows = cells.map(row => make("tr", ...row));
  const table = make("table.la-f-table", make("thead", make("tr", ...heads)), make("tbody", ...rows));
  const written = make("p.la-f-advice", {"aria-live": "polite"});
  const cache = make("div.la-f-shelf", {role: "img"});

  function draw() {
    const draft = inputs.map(input => input.value.trim() || "and");
    const {outcomes, written: emitted, kept} = passOf(draft);
    const read = [ROOT, ...draft];
    cells.forEach(([input, prediction, , outcomeCell], i) => {
      setText(input, read[i]);
      setText(prediction, predictionAfter(read[i]));
      setText(
        outcomeCell,
        outcomes[i]
          ? `${{accepted: "✓ ", rejected: "✕ "}[outcomes[i]] || ""}${outcomes[i]}`
          : i > emitted.length - 1
            ? "not tested"
            : "the bonus",
      );
      rows[i].dataset.fate = outcomes[i] || "";
    });
    setText(written, `Written: ${emitted.join(" ")}. ${count(emitted.length, "token")} in one pass.`);
    const boxes = read.map((word, i) => make(`span.la-f-kept${i < kept ? "" : ".la-f-swept"}`, word));
    cache.replaceChildren(make("span.la-g-small", "the cache: "), ...boxes);
    cache.setAttribute("aria-label", `The cache keeps ${read.slice(0, kept).join(" ")}; the other rows are dropped.`);
  }

  for (const input of inputs) input.addEventListener("input", draw);
  draw();
  return [table, written, cache];
}
