/* votes.js: a vote of the class on the teacher's page: the address for the students, the live histogram, and the right
   answer. `openVote` opens it in any element. A tab has one vote at a time, and its code stays the same. */

import {button, make, setText} from "../page/dom.js";
import {count} from "../page/numbers.js";
import {addressOf, histogram, newSecret, ROOT, randomText, send} from "./vote.js";

const LETTERS = "ABCDEFGHJKMNPQRSTUVWXYZ23456789"; // without characters that look alike
const CODE_LENGTH = 6;
const [POLL_MS, MAX_POLL_MS] = [1000, 8000];
const newTab = () => ({code: randomText(CODE_LENGTH, LETTERS), secret: newSecret()});
const LOCAL = /^(localhost|127\.|\[::1\])/;

let tab = newTab(); // the code and the secret of this tab's votes
let current = null;

/** Open a vote under this tab's code, or under another code if a different tab uses it. */
async function begin(question) {
  try {
    return await send("open", {...tab, question});
  } catch (error) {
    if (error.status !== 403) throw error;
    tab = newTab();
    return send("open", {...tab, question});
  }
}

class Vote {
  #waitMs = POLL_MS;
  #ended = false;
  #drawn = "";
  #question = make("p.la-v-question");
  #place = make("div.la-v-place");
  #bars = make("div");
  #answers = make("span.la-v-answers", {role: "status"});
  #status = make("p.la-v-status", {role: "status"});
  #why = make("p.la-v-why", {"aria-live": "polite"});
  #show = button("la-v-button", "Show the answer", () => this.#act("show"));
  #close = button("la-v-button", "Close the vote", () => this.close());

  constructor() {
    const actions = make("div.la-v-actions", this.#show, this.#close, this.#answers);
    const parts = [this.#place, this.#question, this.#bars, this.#why, actions, this.#status];
    this.node = make("section.la-vote", {"aria-label": "A vote of the class"}, ...parts);
  }

  async open(question) {
    setText(this.#status, "Opening the vote.");
    try {
      const report = await begin(question);
      this.#place.replaceChildren(...invitation());
      this.#draw(report);
      this.node.scrollIntoView({block: "nearest"});
      setTimeout(() => this.#poll(), POLL_MS);
    } catch (error) {
      this.#end(error.status ? error.message : "The server does not answer. Open the vote again.");
    }
  }

  async #act(action) {
    try {
      this.#draw(await send(action, tab));
      this.#waitMs = POLL_MS;
    } catch (error) {
      if (error.status) this.#end(error.message);
      else setText(this.#status, "The server does not answer. Trying again.");
      this.#waitMs = Math.min(MAX_POLL_MS, 2 * this.#waitMs);
    }
  }

  /** Read the counts until the vote ends. Each request also keeps the vote open. */
  async #poll() {
    if (this.#ended) return;
    if (!this.node.isConnected) {
      this.close();
      return;
    }
    await this.#act("watch");
    setTimeout(() => this.#poll(), this.#waitMs);
  }

  #draw(report) {
    if (this.#ended || JSON.stringify(report) === this.#drawn) return;
    if (!report.open) {
      this.#end("This vote has ended.");
      return;
    }
    this.#drawn = JSON.stringify(report);
    setText(this.#question, report.text);
    setText(this.#answers, count(report.answers, "answer"));
    this.#bars.replaceChildren(histogram(report));
    setText(this.#status, "");
    if (!report.shown) return;
    this.#why.replaceChildren(make("b", `The right answer: ${report.options[report.right]}.`), ` ${report.why}`);
    this.#show.disabled = true;
    this.#place.replaceChildren(); // makes room for the answer
    this.node.scrollIntoView({block: "nearest"});
  }

  #end(reason) {
    this.#ended = true;
    this.#place.replaceChildren();
    this.#show.disabled = this.#close.disabled = true;
    setText(this.#status, reason);
  }

  /** Delete the vote on the server. Its last counts remain on this page. */
  close() {
    if (this.#ended) return;
    this.#end("This vote is closed.");
    leave();
  }

  /** Leave the server's vote to the next question of this tab. */
  replace() {
    this.#ended = true;
    this.node.remove();
  }

  get isOpen() {
    return !this.#ended;
  }
}

// A beacon is sent even while the tab closes.
const leave = () => navigator.sendBeacon(addressOf("close"), JSON.stringify(tab));
addEventListener("pagehide", () => current?.isOpen && leave());

/** How students take part: the address in large type, and its code. */
function invitation() {
  const address = `${ROOT}/?class=${tab.code}`;
  const parts = [
    make("p", "Answer on your phone at"),
    make(
      "p.la-v-address",
      address.replace(/^https?:\/\//, "").replace(/\/?\?class=.*/, "/?class="),
      make("b", tab.code),
    ),
  ];
  const local =
    "This address works on this machine only. Start the app with --host 0.0.0.0, and open it by its network name.";
  if (LOCAL.test(location.hostname)) parts.push(make("p.la-v-note", local));
  return parts;
}

/** Open a vote of the class in `container`. The question's id is one of `page/learn/questions.py`. Returns a function
    that closes the vote. */
export function openVote(question, container) {
  current?.replace();
  const vote = new Vote();
  current = vote;
  container.replaceChildren(vote.node);
  vote.open(question);
  return () => vote.close();
}
