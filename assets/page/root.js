/* root.js: sets the page's base address, so that the page works below any path, with or without a slash at the end. A
   proxy may remove the path, so the server cannot set the base. This script runs before Gradio's own scripts, because
   browsers use the first base. */

const root = location.origin + location.pathname.replace(/\/+$/, "");
const base = document.createElement("base");
base.href = `${root}/`;
document.head.prepend(base);
const setRoot = () => {
  if (window.gradio_config) window.gradio_config.root = root;
};
document.addEventListener("readystatechange", setRoot, {once: true});
