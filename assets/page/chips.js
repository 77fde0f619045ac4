/* chips.js: the presets under the prompt: which one is chosen, and what each is good for.

    What it is.  `connect(scenarios)` is given [{id, note}] in the order of the chips; `press(id)` presses one,
   `after(id)` gives those that follow it, as {id, label}, to try next.

    What it does not know.  What a chip fills in: that is the app's business. */

const MORE = 3; // to try next
let known = [];

const chips = () => [...document.querySelectorAll(".la-chip")].slice(0, known.length);

function mark(chosen) {
  for (const chip of chips()) {
    chip.classList.toggle("la-chosen", chip === chosen);
    chip.setAttribute("aria-pressed", String(chip === chosen));
  }
}

export function connect(scenarios) {
  known = scenarios;
  const shown = /^recording-(.+?)(-\d+)?$/.exec(window.lookahead?.state().run || "")?.[1];
  for (const [i, chip] of chips().entries()) {
    chip.title = known[i].note;
    chip.addEventListener("click", () => mark(chip));
    if (known[i].id === shown) mark(chip);
  }
}

export const press = id => chips()[known.findIndex(one => one.id === id)]?.click();

export function after(id) {
  const at = Math.max(
    0,
    known.findIndex(one => one.id === id),
  );
  const seen = [...chips().entries()].filter(([, chip]) => chip.getClientRects().length);
  const from = seen.findIndex(([i]) => i === at);
  return seen.slice(from + 1, from + 1 + MORE).map(([i, chip]) => ({id: known[i].id, label: chip.textContent.trim()}));
}
