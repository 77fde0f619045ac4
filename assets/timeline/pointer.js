/* pointer.js: one token of a lane under the pointer, the finger or the keyboard.

   What it is.  A `TokenPointer` listens to a lane's text and tells a listener (see lane.js) of passes and tokens. With
   the keyboard, Enter begins at the last token, the arrows go from token to token.

   What it does not know.  What is shown of a token. */

const stepOf = node => node.closest(".la-pass")?.laStep ?? -1;

export class TokenPointer {
  #words;
  #listener;
  #token = null; // the node that is pointed at

  /** `words` is the element of the text, `scroll` the one around it that can have the focus. */
  constructor(words, scroll, listener) {
    this.#words = words;
    this.#listener = listener;
    words.addEventListener("pointerover", ({target}) => {
      const token = target.closest(".la-tok");
      listener.hover(stepOf(target));
      this.#point(token?.laPart ? token : null);
    });
    words.addEventListener("pointerleave", () => {
      listener.hover(-1);
      this.#point(null);
    });
    words.addEventListener("click", ({target}) => listener.pick(stepOf(target)));
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
    const tokens = [...this.#words.querySelectorAll(".la-pass > .la-tok")];
    const visible = tokens.filter(token => token.laPart && token.offsetParent);
    if (!visible.length || !this.#act(event.key, visible)) return;
    event.preventDefault();
    event.stopPropagation(); // the arrows step through passes everywhere else
    this.#token?.scrollIntoView({block: "nearest"});
  }

  /** Does what a key asks for; whether it asks for anything. */
  #act(key, tokens) {
    const move = {ArrowLeft: -1, ArrowRight: 1}[key];
    if (key === "Enter" && !this.#token) this.#point(tokens.at(-1));
    else if (key === "Enter") this.#listener.pick(stepOf(this.#token));
    else if (key === "Escape" && this.#token) this.#point(null);
    else if (move && this.#token) {
      const to = tokens.indexOf(this.#token) + move;
      this.#point(tokens[Math.max(0, Math.min(tokens.length - 1, to))]);
    } else return false;
    return true;
  }
}
