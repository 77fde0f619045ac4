/* buttons.js: buttons of the form, and the header's button for a new measurement. */

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
  });
}

export function selectPrompt() {
  const prompt = document.querySelector("#la-prompt textarea");
  prompt.focus();
  prompt.select();
}
