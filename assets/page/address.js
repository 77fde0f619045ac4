/* address.js: keeps the address, the selected tab and the open lesson the same (`?tab=lab`, `?lesson=03-rejection`), so
   that Back, Forward, reload and a copied address work. Gradio reports a selection late and sometimes twice, so a
   report is ignored if another tab is selected by then. */

const TABS = ["race", "lab", "learn", "models"]; // in the order of the page
let queryBefore = ""; // of the other tabs, while a lesson has the address: a race or a family
let followed = null; // the lesson that Back or Forward has opened and that is not yet reported
let isReady = false; // the page itself selects tabs while it loads

const tabs = () => [...document.querySelectorAll("#la-tabs > .tab-wrapper [role='tab']")];
const isSelected = name => tabs()[TABS.indexOf(name)]?.getAttribute("aria-selected") === "true";

/** The name of the lesson in an address, or null. */
export const lessonOf = address => new URL(address, location.href).searchParams.get("lesson");

const tabOf = query => (lessonOf(query) === null ? new URLSearchParams(query).get("tab") || "race" : "learn");

/** Called when the tab in the address is selected. */
export const ready = () => {
  isReady = true;
};

function show(query) {
  if (lessonOf(location.href) === null) queryBefore = location.search;
  if (query !== location.search) history.pushState(null, "", query || location.pathname);
}

/** Called when a lesson is opened. */
export function opened(lesson) {
  if (lesson !== followed && isSelected("learn")) show(`?lesson=${lesson}`);
  followed = null;
}

/** Called when a tab other than Learn is selected. */
export function selected(name) {
  if (!isReady || !isSelected(name) || tabOf(location.search) === name) return;
  const parameters = new URLSearchParams(lessonOf(location.href) === null ? location.search : queryBefore);
  parameters.delete("tab");
  if (name !== "race") parameters.set("tab", name);
  show(parameters.size ? `?${parameters}` : "");
}

addEventListener("popstate", () => {
  tabs()[TABS.indexOf(tabOf(location.search))]?.click();
  followed = lessonOf(location.href);
  document.getElementById(`la-lesson-${followed}`)?.click();
});
