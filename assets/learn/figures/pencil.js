/* pencil.js: one pass by hand: a draft to edit, the target's answers, what is accepted, and the cache that is cut.

    Why it is so.  The target here knows one thing, which word follows which; so its answer to any draft can be
   worked out on paper, and a reader who changes a word sees at once why the words after it do not count.

    What it does not know.  Models. What the reader types is text. */

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

const answerTo = word => AFTER[word] || "and";

/** {fates, written, kept} of a pass over the root and a draft. */
export function passOf(draft) {
  const read = [ROOT, ...draft];
  const miss = draft.findIndex((word, i) => word !== answerTo(read[i]));
  const accepted = miss < 0 ? draft.length : miss;
  const fates = draft.map((_, i) => (i < accepted ? "accepted" : i === accepted ? "rejected" : "not tested"));
  return {fates, written: [...draft.slice(0, accepted), answerTo(read[accepted])], kept: 1 + accepted};
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
  const shelf = make("div.la-f-shelf", {role: "img"});

  function draw() {
    const draft = inputs.map(input => input.value.trim() || "and");
    const {fates, written: words, kept} = passOf(draft);
    const read = [ROOT, ...draft];
    cells.forEach(([reads, says, , fate], i) => {
      setText(reads, read[i]);
      setText(says, answerTo(read[i]));
      setText(
        fate,
        fates[i]
          ? `${{accepted: "✓ ", rejected: "✕ "}[fates[i]] || ""}${fates[i]}`
          : i > words.length - 1
            ? "not tested"
            : "the bonus",
      );
      rows[i].dataset.fate = fates[i] || "";
    });
    setText(written, `Written: ${words.join(" ")}. ${count(words.length, "token")} in one pass.`);
    const boxes = read.map((word, i) => make(`span.la-f-kept${i < kept ? "" : ".la-f-swept"}`, word));
    shelf.replaceChildren(make("span.la-g-small", "the cache: "), ...boxes);
    shelf.setAttribute("aria-label", `The cache keeps ${read.slice(0, kept).join(" ")}; the other rows are dropped.`);
  }

  for (const input of inputs) input.addEventListener("input", draw);
  draw();
  return [table, written, shelf];
}
