/* widget.js: the small parts that a lesson's guess, quiz, costs and listing share.

   What it does not know.  Lessons. Their texts are untrusted: they enter through text nodes. */

globalThis.lookaheadWidget = (() => {
  const {make} = lookaheadDom;

  /** An id, where one node describes another: this script may run once for each widget of a page. */
  const newId = () => `la-g-${Math.random().toString(36).slice(2)}`;

  const text = (className, ...words) => make(`p.${className}`, ...words);
  const part = (className, ...children) => make(`div.${className}`, ...children);
  /** A place where words appear that a screen reader should say. */
  const live = className => make(`div.${className}`, {"aria-live": "polite"});

  function button(label, act, attributes) {
    const node = make("button.la-g-button", {type: "button", ...attributes}, label);
    node.addEventListener("click", act);
    return node;
  }

  return {newId, text, part, live, button};
})();
