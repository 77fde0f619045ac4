/* address.js: keeps the address, the selected tab and the open lesson the same (`?tab=lab`, `?lesson=03-rejection`), so
   that Back, Forward, reload and a copied address work. */

const TABS = ["race", "lab", "learn", "models"]; // in the order of the page
let queryBefore = ""; // of the other tabs, while a lesson has the address: a race or a family
let isReady = false; // the page itself selects tabs while it loads
const following = new Set(); // tabs that Back or Forward has selected; Gradio reports this later

/** The name of the lesson in an address, or null. */
export const lessonOf = address => new URL(address, location.href).searchParams.get("lesson");

const tabOf = query => (lessonOf(query) === null ? new URLSearchParams(query).get("tab") || "race" : "learn");

/** Called when the tab in the address is selected. */
export const ready = () => {
  isReady = true;
};

/** Make `query` the address. */
export function show(query) {
  if (lessonOf(location.href) === null) queryBefore = location.search;
  if (query !== location.search) history.pushState(null, "", query || location.pathname);
}

/** Whether the selection of a tab, which is now reported, follows the address. */
export const isFollowed = name => following.delete(name);

/** Called when a tab other than Learn is selected. */
export function selected(name) {
  if (isFollowed(name) || !isReady || tabOf(location.search) === name) return;
  const parameters = new URLSearchParams(lessonOf(location.href) === null ? location.search : queryBefore);
  parameters.delete("tab");
  if (name !== "race") parameters.set("tab", name);
  show(parameters.size ? `?${parameters}` : "");
}

addEventListener("popstate", () => {
  const tabs = document.querySelectorAll("#la-tabs > .tab-wrapper [role='tab']");
  const name = tabOf(location.search);
  const tab = tabs[TABS.indexOf(name)];
  if (tab?.getAttribute("aria-selected") === "false") following.add(name);
  tab?.click();
  document.getElementById(`la-lesson-${lessonOf(location.href)}`)?.click();
});
