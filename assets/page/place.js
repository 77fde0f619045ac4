/* place.js: the page asks for everything where it was found, below any path and with or without a slash at its end.

   Why it is so.  A proxy may serve the app below a path and cut that path off, so the server does not know it. Gradio's
   page is the app's only one, so its own address is the app's root.

   What it does not know.  Who asks for what. It runs before Gradio's own scripts: of several bases the first counts,
   and scripts of modules run after the document has been read. */

const root = location.origin + location.pathname.replace(/\/+$/, "");
const base = document.createElement("base");
base.href = `${root}/`;
document.head.prepend(base);
const settle = () => {
  if (window.gradio_config) window.gradio_config.root = root;
};
document.addEventListener("readystatechange", settle, {once: true});
