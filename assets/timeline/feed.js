/* feed.js: batches of events on their way into the log.

   What it is.  A `Feed` takes what the host reads, what the server sends again and what a reader opens, applies it to
   the log, and tells its owner: `refused(words)` when the server answers with an error, `news(isNewRun)` otherwise.

   Why it is so.  There is one way in, so a lost, repeated or late batch means the same wherever it comes from.

   What it does not know.  The DOM, time, what an event means. */

import {applyBatch, isDone} from "./log.js";
import {Repair} from "./repair.js";

const ON_SHOW = /^(recording|asked)-/; // the names of runs that no race makes

/** JSON text as data; null where it is none. */
function parse(text) {
  try {
    return text ? JSON.parse(text) : null;
  } catch {
    return null;
  }
}

export class Feed {
  problem = ""; // why the server refused the last request
  batches = 0; // how many have been applied
  restored = false; // what is on show comes from before a reload
  #log;
  #read;
  #owner;
  #first;
  #fallback;

  /** `read()` gives the host's current value; `fallback` is shown where it is nothing but an error at first. */
  constructor(log, read, fallback, {resend, refused, news, changed}) {
    this.#log = log;
    this.#read = read;
    this.#fallback = fallback;
    this.#owner = {refused, news, changed};
    this.repair = new Repair({log, resend, receive: batch => this.receive(batch, true), changed});
  }

  /** Takes what the host shows at first. */
  open() {
    this.#first = this.#read();
    this.receive(this.#first);
  }

  /** The host has another value. */
  hear() {
    const lost = Number(window.lookahead?.drop) || 0; // tests lose updates on purpose
    if (lost > 0 && Math.random() < lost) return;
    const value = this.#read();
    if (this.restored && (value === this.#first || parse(value)?.arrival)) return;
    this.receive(value);
  }

  /** Applies a batch, given as data or as JSON text; what came of it, as `applyBatch` says. */
  receive(value, isReply = false) {
    const log = this.#log;
    const batch = typeof value === "string" ? parse(value) : value;
    const unchanged = {fresh: false, applied: 0, gap: log.seen > log.received};
    if (!batch || this.#isLate(batch) || (isReply && batch.run !== log.run)) return unchanged;
    if (batch.error != null) {
      if (!log.run && this.#fallback) this.receive(this.#fallback); // a link that cannot be followed
      this.problem = String(batch.error);
      if (batch.stop) applyBatch(log, {stop: 1}); // no more comes of a run that had begun
      this.#owner.refused(this.problem);
      this.#owner.changed(); // what is shown of the race stays as it is
      return {...unchanged, gap: false};
    }
    const {header} = log;
    const outcome = applyBatch(log, batch);
    if (outcome.fresh) {
      this.restored = false;
      this.problem = "";
    }
    if (!isReply) this.repair.heard(performance.now(), outcome);
    this.batches += 1;
    this.#owner.news(outcome.fresh || log.header !== header);
    return outcome;
  }

  /** What was to be shown before Race was pressed: a recording, or the race of a link. */
  #isLate(batch) {
    const {run} = this.#log;
    const racing = run != null && !ON_SHOW.test(run) && !isDone(this.#log);
    return racing && ON_SHOW.test(batch.run);
  }

  /** Takes a run that was saved before a reload: {batch, stopped}. */
  restore({batch, stopped}) {
    this.receive(batch);
    if (stopped) this.receive({stop: 1, run: batch.run});
    this.restored = true;
  }
}
