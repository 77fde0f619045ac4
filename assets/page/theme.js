/* theme.js: light or dark on a page that stands in one file: as the address says, else as the system does.

   What it does not know.  Colours: the style sheet has them. */

const theme = new URLSearchParams(location.search).get("__theme"); // the app's own name for it
const system = matchMedia("(prefers-color-scheme: dark)");
const apply = () => document.body.classList.toggle("dark", theme ? theme === "dark" : system.matches);
system.addEventListener("change", apply);
apply();
