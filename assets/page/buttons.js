/* buttons.js: buttons of the form, the header's button for a new measurement, and the link over the header. */

import {takeRace} from "../timeline/stored.js";

export function connect() {
  const more = document.getElementById("la-more-button");
  more.setAttribute("aria-controls", "la-more");
  more.setAttribute("aria-expanded", "false");
  more.addEventListener("click", () => {
    const open = document.getElementById("la-more").classList.toggle("la-open");
    more.setAttribute("aria-expanded", String(open));
  });
  // The server replaces the header, so the header's button presses a permanent button.
  document.addEventListener("click", event => {
    if (event.target.closest(".la-again")) document.getElementById("la-again").click();
    if (!event.target.closest(".la-skip")) return;
    event.preventDefault(); // the address stays
    const panel = [...document.querySelectorAll("#la-tabs > .tabitem")].find(node => node.offsetParent);
    panel.tabIndex = -1;
    panel.focus();
  });
}

export function selectPrompt() {
  const prompt = document.querySelector("#la-prompt textarea");
  prompt.focus();
  prompt.select();
}

/** Press Race if the reader has pressed it on the loading page. */
export function raceIfWanted() {
  const race = document.getElementById("la-race");
  if (takeRace() && race.getClientRects().length) race.click();
}
