/* chips.js: the presets under the prompt: `connect` is called with [{id, note}] in the order of the chips. */

const MORE = 3; // suggested presets
let presets = [];

const chips = () => [...document.querySelectorAll(".la-chip")].slice(0, presets.length);

function mark(chosen) {
  for (const chip of chips()) {
    chip.classList.toggle("la-chosen", chip === chosen);
    chip.setAttribute("aria-pressed", String(chip === chosen));
  }
}

export function connect(scenarios) {
  presets = scenarios;
  const shown = /^recording-(.+?)(-\d+)?$/.exec(window.lookahead?.state().run || "")?.[1];
  for (const [i, chip] of chips().entries()) {
    chip.title = presets[i].note;
    chip.addEventListener("click", () => mark(chip));
    if (presets[i].id === shown) mark(chip);
  }
}

export const unmark = () => mark(null);

export const press = id => chips()[presets.findIndex(preset => preset.id === id)]?.click();

/** The presets after this one, to try next: [{id, label}]. */
export function after(id) {
  const at = Math.max(
    0,
    presets.findIndex(preset => preset.id === id),
  );
  const visible = [...chips().entries()].filter(([, chip]) => chip.getClientRects().length);
  const position = visible.findIndex(([i]) => i === at);
  return visible
    .slice(position + 1, position + 1 + MORE)
    .map(([i, chip]) => ({id: presets[i].id, label: chip.textContent.trim()}));
}
