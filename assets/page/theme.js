/* theme.js: light or dark for a page in one file: the theme in the address, else the system's. */

const theme = new URLSearchParams(location.search).get("__theme"); // Gradio's name of the parameter
const system = matchMedia("(prefers-color-scheme: dark)");
const apply = () => document.body.classList.toggle("dark", theme ? theme === "dark" : system.matches);
system.addEventListener("change", apply);
apply();
