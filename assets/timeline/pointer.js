/* pointer.js: one token of a lane under the pointer or the keyboard: Enter selects the last token, the arrows move
   from token to token. */

const stepOf = node => node.closest(".la-pass")?.laStep ?? -1;

export class TokenPointer {
  #text;
  #listener;
  #token = null; // the node under the pointer

  /** `text` is the element of the text, `scroll` its focusable container, `listener` as in lane.js. */
  constructor(text, scroll, listener) {
    this.#text = text;
    this.#listener = listener;
    text.addEventListener("pointerover", ({target}) => {
      const token = target.closest(".la-tok");
      listener.hover(stepOf(target));
      this.#point(token?.laPart ? token : null);
    });
    text.addEventListener("pointerleave", () => {
      listener.hover(-1);
      this.#point(null);
    });
    text.addEventListener("click", ({target}) => listener.pick(stepOf(target)));
    scroll.addEventListener("keydown", event => this.#press(event));
    scroll.addEventListener("blur", () => this.#point(null));
  }

  #point(token) {
    if (token === this.#token) return;
    this.#token?.classList.remove("la-pointed");
    token?.classList.add("la-pointed");
    this.#token = token;
    this.#listener.point(token ? stepOf(token) : -1, token?.laPart, token);
  }

  #press(event) {
    const tokens = [...this.#text.querySelectorAll(".la-pass > .la-tok")];
    const visible = tokens.filter(token => token.laPart && token.offsetParent);
    if (!visible.length || !this.#handle(event.key, visible)) return;
    event.preventDefault();
    event.stopPropagation(); // the arrows step through passes everywhere else
    this.#token?.scrollIntoView({block: "nearest"});
  }

  /** Handle a key. Returns whether the key has an action. */
  #handle(key, tokens) {
    const move = {ArrowLeft: -1, ArrowRight: 1}[key];
    if (key === "Enter" && !this.#token) this.#point(tokens.at(-1));
    else if (key === "Enter") this.#listener.pick(stepOf(this.#token));
    else if (key === "Escape" && this.#token) this.#point(null);
    else if (move && this.#token) {
      const index = tokens.indexOf(this.#token) + move;
      this.#point(tokens[Math.max(0, Math.min(tokens.length - 1, index))]);
    } else return false;
    return true;
  }
}
