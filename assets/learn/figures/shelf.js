/* shelf.js: the cache as a shelf: what a pass puts there, and what the next one reads if refused rows are not
   swept out.

    What it does not know.  Models, layers: a box stands for the keys and values of one word in all of them. */

import {make, setText} from "../../page/dom.js";
import {range} from "./handles.js";

const TEXT = ["Once", "there", "was", "a"];
const DRAFT = ["small", "green", "frog", "who"];
const OWN = ["big", "old", "toad", "that", "lived"];

/** What the next pass reads: the text, the accepted words and the target's own; unswept, what was refused as well. */
export function reads(accepted, isSwept) {
  const stays = isSwept ? DRAFT.slice(0, accepted) : DRAFT;
  return [...TEXT, ...stays, OWN[accepted]];
}

export function figure() {
  let accepted = 2;
  let isSwept = true;
  const shelf = make("div.la-f-shelf", {role: "img"});
  const words = make("p.la-f-advice", {"aria-live": "polite"});
  const box = make("input", {type: "checkbox", checked: ""});
  const choice = make("label.la-f-range", box, make("span", "drop rejected rows"));

  function draw() {
    const boxes = [...TEXT, ...DRAFT].map((word, i) => {
      const isRefused = i >= TEXT.length + accepted;
      return make(`span.la-f-kept${isRefused ? (isSwept ? ".la-f-swept" : ".la-f-wrong") : ""}`, word);
    });
    shelf.replaceChildren(...boxes);
    const read = reads(accepted, isSwept).join(" ");
    shelf.setAttribute("aria-label", `In the cache: ${boxes.map(node => node.textContent).join(" ")}`);
    const isRight = isSwept || accepted === DRAFT.length;
    const wrong = "This is not the text: the model continues as if the rejected words were in it.";
    setText(words, `The next pass reads: ${read}. ${isRight ? "This is the text." : wrong}`);
  }

  box.addEventListener("change", () => {
    isSwept = box.checked;
    draw();
  });
  const some = {min: 0, max: DRAFT.length, step: 1, value: accepted, words: n => `${n} of ${DRAFT.length}`};
  const slider = range("accepted", some, value => {
    accepted = value;
    draw();
  });
  draw();
  return [slider, choice, shelf, words];
}
