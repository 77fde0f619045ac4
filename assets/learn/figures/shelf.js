/* shelf.js: the cache as a row of boxes: the rows that a pass stores, and the next pass's input if rejected rows are
   not dropped. A box is the keys and values of one word in all layers. */

import {make, setText} from "../../page/dom.js";
import {range} from "./handles.js";

const TEXT = ["Once", "there", "was", "a"];
const DRAFT = ["small", "green", "frog", "who"];
const OWN = ["big", "old", "toad", "that", "lived"];

/** The words that the next pass reads: text, accepted words, the target's own, and rejected words if not dropped. */
export function reads(accepted, isDropped) {
  const kept = isDropped ? DRAFT.slice(0, accepted) : DRAFT;
  return [...TEXT, ...kept, OWN[accepted]];
}

export function figure() {
  let accepted = 2;
  let isDropped = true;
  const shelf = make("div.la-f-shelf", {role: "img"});
  const sentence = make("p.la-f-advice", {"aria-live": "polite"});
  const box = make("input", {type: "checkbox", checked: ""});
  const choice = make("label.la-f-range", box, make("span", "drop rejected rows"));

  function draw() {
    const boxes = [...TEXT, ...DRAFT].map((word, i) => {
      const isRejected = i >= TEXT.length + accepted;
      return make(`span.la-f-kept${isRejected ? (isDropped ? ".la-f-swept" : ".la-f-wrong") : ""}`, word);
    });
    shelf.replaceChildren(...boxes);
    const read = reads(accepted, isDropped).join(" ");
    shelf.setAttribute("aria-label", `In the cache: ${boxes.map(node => node.textContent).join(" ")}`);
    const isRight = isDropped || accepted === DRAFT.length;
    const wrong = "This is not the text: the model continues as if the rejected words were in it.";
    setText(sentence, `The next pass reads: ${read}. ${isRight ? "This is the text." : wrong}`);
  }

  box.addEventListener("change", () => {
    isDropped = box.checked;
    draw();
  });
  const options = {min: 0, max: DRAFT.length, step: 1, value: accepted, describe: n => `${n} of ${DRAFT.length}`};
  const slider = range("accepted", options, value => {
    accepted = value;
    draw();
  });
  draw();
  return [slider, choice, shelf, sentence];
}
