/* notes.js: the teacher's notes in a second window (`?present=notes`). The windows exchange messages in this browser:
   the projector sends its frame, and this window sends pressed keys. */

import {button, make, setText} from "./dom.js";

const NAME = "lookahead-present";
const NO_FRAME = "No session is open in this browser. Open one, then move its window to the projector.";
const SESSIONS = {1: "Session 1", 2: "Session 2", short: "25 minutes"};

/** A number of seconds as minutes and seconds, such as "12:30". */
export const clockText = seconds => `${Math.floor(seconds / 60)}:${String(Math.floor(seconds % 60)).padStart(2, "0")}`;

/** Whether the time is past the end of the planned frame. */
export const isLate = ({started, start, minutes}) => Date.now() - started > 60_000 * (start + minutes);

/** A channel to the other window: `send(message)`, and `received(message)` for its messages. */
export function connectWindows(received) {
  const channel = new BroadcastChannel(NAME);
  channel.onmessage = ({data}) => received(data);
  return message => channel.postMessage(message);
}

export class Notes {
  #frame = null;
  #time = make("p.la-n-time", {role: "timer"});
  #plan = make("p.la-n-plan");
  #title = make("h1.la-n-title", {"aria-live": "polite"});
  #text = make("p.la-n-text");
  #answer = make("p.la-n-answer");
  #next = make("p.la-n-next");
  #keys;
  #links;

  /** `press(key)` sends a pressed key to the projector. */
  constructor(press) {
    const key = (label, name) => button("la-p-button", label, () => press(name));
    this.reveal = key("reveal (R)", "r");
    this.#keys = make("div.la-n-keys", key("‹ previous", "ArrowLeft"), key("next ›", "ArrowRight"), this.reveal);
    const links = Object.entries(SESSIONS).map(([name, label]) =>
      make("a.la-p-button", {href: `?present=${name}`, target: "_blank"}, label),
    );
    this.#links = make("div.la-n-keys", ...links);
    const head = make("div.la-n-head", this.#time, this.#plan);
    this.node = make("section.la-n", head, this.#title, this.#text, this.#answer, this.#next, this.#keys, this.#links);
    this.show(null);
    setInterval(() => this.#tick(), 1000);
  }

  /** Show the projector's frame; null if there is none. */
  show(frame) {
    this.#frame = frame;
    this.#links.hidden = frame !== null;
    for (const node of [this.#keys, this.#time, this.#plan, this.#next]) node.hidden = frame === null;
    setText(this.#title, frame ? frame.title : "Notes");
    setText(this.#text, frame ? frame.notes : NO_FRAME);
    setText(this.#answer, frame?.answer ? `Answer: ${frame.answer}` : "");
    if (!frame) return;
    this.reveal.hidden = !frame.canHide;
    setText(this.reveal, frame.hidden ? "reveal (R)" : "hide (R)");
    setText(this.#next, frame.next ? `Next: ${frame.next}` : "This is the last frame.");
    this.#tick();
  }

  #tick() {
    if (!this.#frame) return;
    const {started, start, minutes, place} = this.#frame;
    const late = isLate(this.#frame);
    setText(this.#time, clockText((Date.now() - started) / 1000));
    this.#time.classList.toggle("la-late", late);
    const planned = `${clockText(60 * start)} to ${clockText(60 * (start + minutes))}`;
    setText(this.#plan, `planned ${planned}${late ? ", late" : ""} · frame ${place}`);
  }
}
