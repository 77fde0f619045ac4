/* root.js: sets the page's base address, so that it works below any path and with or without a slash at its end. A
   proxy may remove the path, so the server does not have it. It runs before Gradio's own scripts, because the first
   base counts. */

const root = location.origin + location.pathname.replace(/\/+$/, "");
const base = document.createElement("base");
base.href = `${root}/`;
document.head.prepend(base);
const setRoot = () => {
  if (window.gradio_config) window.gradio_config.root = root;
};
document.addEventListener("readystatechange", setRoot, {once: true});
