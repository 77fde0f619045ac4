/* vote.js: the parts of a class vote that the teacher's and the students' pages share: requests, random keys, and the
   histogram. The server's routes are in `server/votes.py`. */

import {HIDDEN, make} from "../page/dom.js";
import {percent} from "../page/numbers.js";

// A proxy may serve the app below a path, and the address may have no slash at its end.
export const ROOT = location.origin + location.pathname.replace(/\/+$/, "");
const TIMEOUT_MS = 10000;

export const addressOf = action => `${ROOT}/votes/${action}`;

/** Send a request and return its reply. A refusal raises an error with the server's sentence and `status`. */
export async function send(action, fields) {
  const options = {method: "POST", body: JSON.stringify(fields), signal: AbortSignal.timeout(TIMEOUT_MS)};
  const response = await fetch(addressOf(action), options);
  const reply = await response.json();
  if (!response.ok) throw Object.assign(new Error(reply.error), {status: response.status});
  return reply;
}

/** Return `length` random characters of an alphabet of at most 256. Every character is equally likely. */
export function randomText(length, alphabet) {
  const limit = 256 - (256 % alphabet.length);
  let text = "";
  while (text.length < length) {
    const [byte] = crypto.getRandomValues(new Uint8Array(1));
    if (byte < limit) text += alphabet[byte % alphabet.length];
  }
  return text;
}
export const newSecret = () => randomText(32, "0123456789abcdef");

/** The number of answers per option as bars. The right option and the page's own choice have words and signs. */
export function histogram({options, counts, right, chosen}) {
  const most = Math.max(1, ...counts);
  const rows = options.map((option, i) => {
    const bar = make("span.la-v-fill");
    bar.style.width = percent(counts[i] / most);
    const notes = [];
    if (i === right) notes.push(make("span.la-v-right", "✓ right answer"));
    if (i === chosen) notes.push(make("span.la-v-mine", "your answer"));
    const label = make("span.la-v-label", option, ...notes.flatMap(note => [" ", note]));
    const track = make("span.la-v-track", HIDDEN, bar);
    return make(
      `li.la-v-row${i === right ? ".la-v-is-right" : ""}`,
      label,
      track,
      make("b.la-v-count", `${counts[i]}`),
    );
  });
  return make("ul.la-v-rows", {role: "list", "aria-label": "Answers"}, ...rows);
}
