/* feed.js: applies every batch of events to the log: from the host, from repeated requests, and from opened files. All
   lost, repeated and late batches are handled here. */

import {applyBatch, isDone} from "./log.js";
import {Repair} from "./repair.js";

const NOT_A_RACE = /^(recording|asked)-/; // runs that are not races

/** Parse JSON text; null if it is empty or invalid. */
function parse(text) {
  try {
    return text ? JSON.parse(text) : null;
  } catch {
    return null;
  }
}

export class Feed {
  problem = ""; // the server's error message for the last request
  field = ""; // the form's field that the message is about
  batches = 0; // number of applied batches
  restored = false; // the shown run was restored after a reload
  #log;
  #read;
  #owner;
  #first;
  #fallback;

  /** `read()` returns the host's current value; `fallback` is shown if the first value is an error.
      `refused(message, field)` is called for an error of the server, `updated(isNewRun)` for any other batch,
      `changed()` when the page must redraw. */
  constructor(log, read, fallback, {resend, refused, updated, changed}) {
    this.#log = log;
    this.#read = read;
    this.#fallback = fallback;
    this.#owner = {refused, updated, changed};
    this.repair = new Repair({log, resend, receive: batch => this.receive(batch, true), changed});
  }

  /** Apply the host's first value. */
  open() {
    this.#first = this.#read();
    this.receive(this.#first);
  }

  /** Called when the host has a new value. */
  update() {
    const lost = Number(window.lookahead?.drop) || 0; // tests drop updates on purpose
    if (lost > 0 && Math.random() < lost) return;
    const value = this.#read();
    if (this.restored && (value === this.#first || parse(value)?.arrival)) return;
    this.receive(value);
  }

  /** Apply a batch, as data or JSON text. Returns the result of `applyBatch`. */
  receive(value, isReply = false) {
    const log = this.#log;
    const batch = typeof value === "string" ? parse(value) : value;
    const unchanged = {fresh: false, applied: 0, gap: log.seen > log.received};
    if (!batch || this.#isLate(batch) || (isReply && batch.run !== log.run)) return unchanged;
    if (batch.error != null) {
      if (!log.run && this.#fallback) this.receive(this.#fallback); // the link is invalid
      this.problem = String(batch.error);
      this.field = batch.field || "";
      if (batch.stop) applyBatch(log, {stop: 1}); // the running race ends
      this.#owner.refused(this.problem, this.field);
      this.#owner.changed(); // the shown events of the race stay
      return {...unchanged, gap: false};
    }
    const {header} = log;
    const outcome = applyBatch(log, batch);
    if (outcome.fresh) {
      this.restored = false;
      this.problem = "";
    }
    if (!isReply) this.repair.arrived(performance.now(), outcome);
    this.batches += 1;
    this.#owner.updated(outcome.fresh || log.header !== header);
    return outcome;
  }

  /** Whether a batch was requested before Race was pressed: a recording, or the race of a link. */
  #isLate(batch) {
    const {run} = this.#log;
    const racing = run != null && !NOT_A_RACE.test(run) && !isDone(this.#log);
    return racing && NOT_A_RACE.test(batch.run);
  }

  /** Restore a run that was saved before a reload: {batch, stopped}. */
  restore({batch, stopped}) {
    this.receive(batch);
    if (stopped) this.receive({stop: 1, run: batch.run});
    this.restored = true;
  }
}
