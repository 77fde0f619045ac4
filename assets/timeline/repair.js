/* repair.js: when to ask the server for events that did not arrive.

   What it is.  A `Repair` hears of every batch that arrives (`heard`) and is given the time several times a second
   (`poke`); it calls `resend(run, index)`, which promises a batch or null, and hands what comes to `receive`.

   Why it is so.  A lost update is mended within seconds, and a server that does not answer is not besieged: at most one
   call is in flight, waits grow from 1.5 s to 10 s, and any news brings them back.

   What it does not know.  What is in a batch. All times are in milliseconds. */

const FIRST_WAIT = 1500;
const LONGEST_WAIT = 10000;
const GIVE_UP = 20000; // on a call that is not answered
const GAP_WAIT = 40; // a hole is often filled by the batch right behind it
const LOST_AFTER = 3; // failures in a row
const CALLS_AFTER_STOP = 2;

export class Repair {
  #host;
  #call = null;
  #failures = 0;
  #wait = FIRST_WAIT;
  #due = Infinity;
  #callsAfterStop = 0;

  /** `host` is {log, resend, receive, changed}; `changed()` is called when `lost` may have changed. */
  constructor(host) {
    this.#host = host;
  }

  get lost() {
    return this.#failures >= LOST_AFTER;
  }

  /** A batch has arrived by itself; `outcome` is what `applyBatch` made of it. */
  heard(now, {fresh, applied, gap}) {
    if (fresh) {
      this.#call = null;
      this.#failures = this.#callsAfterStop = 0;
      this.#due = now + FIRST_WAIT;
    }
    if (applied) {
      this.#wait = FIRST_WAIT;
      if (this.#failures) {
        this.#failures = 0;
        this.#host.changed();
      }
    }
    if (gap) this.#due = this.#failures ? this.#due : Math.min(this.#due, now + GAP_WAIT);
    else if (applied) this.#due = now + FIRST_WAIT;
  }

  /** Asks, if it is time to; the promise of the answer's arrival then, else null. */
  poke(now) {
    const {log} = this.#host;
    if (this.#call && now - this.#call.since > GIVE_UP) this.#fail(now);
    if (!log.run || log.end || this.#call || now < this.#due) return null;
    if (log.stopped && this.#callsAfterStop++ >= CALLS_AFTER_STOP) return null;
    this.#call = {since: now, run: log.run};
    return this.#ask(this.#call, performance.now());
  }

  async #ask(call, started) {
    const {log, resend, receive} = this.#host;
    const now = () => call.since + performance.now() - started;
    try {
      const batch = await resend(call.run, log.received);
      if (log.run !== call.run) return;
      const outcome = batch ? receive(batch) : null;
      if (this.#call !== call) return;
      this.#call = null;
      if (outcome) this.#mended(now(), outcome);
      else this.#fail(now());
    } catch {
      if (this.#call === call) this.#fail(now());
    }
  }

  #mended(now, {applied, gap}) {
    const wasLost = this.lost;
    this.#failures = 0;
    this.#wait = applied ? FIRST_WAIT : Math.min(LONGEST_WAIT, this.#wait * 2);
    this.#due = now + (gap && applied ? 0 : this.#wait);
    if (wasLost) this.#host.changed();
  }

  #fail(now) {
    this.#call = null;
    this.#failures += 1;
    this.#wait = Math.min(LONGEST_WAIT, this.#wait * 2);
    this.#due = now + this.#wait;
    this.#host.changed();
  }
}
