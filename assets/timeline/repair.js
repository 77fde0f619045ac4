/* repair.js: requests events that did not arrive. At most one request is in flight. The wait between requests grows
   from 1.5 s to 10 s. All times are in milliseconds. */

const FIRST_WAIT = 1500;
const MAX_WAIT = 10000;
const TIMEOUT = 20000; // of a request without a reply
const GAP_WAIT = 40; // short, because the next batch often fills a gap
const LOST_AFTER = 3; // failures in a row
const CALLS_AFTER_STOP = 2;

export class Repair {
  #host;
  #call = null;
  #failures = 0;
  #wait = FIRST_WAIT;
  #due = Infinity;
  #callsAfterStop = 0;

  /** `host` is {log, resend, receive, changed}. `resend(run, index)` promises a batch or null; `changed()` is called
      when `lost` may have changed. */
  constructor(host) {
    this.#host = host;
  }

  get lost() {
    return this.#failures >= LOST_AFTER;
  }

  /** Called when a batch arrived without a request, with the result of `applyBatch`. */
  arrived(now, {fresh, applied, gap}) {
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

  /** Send a request if one is due. Returns a promise that resolves after the reply, else null. */
  tick(now) {
    const {log} = this.#host;
    if (this.#call && now - this.#call.since > TIMEOUT) this.#fail(now);
    if (!log.run || log.end || this.#call || now < this.#due) return null;
    if (log.stopped && this.#callsAfterStop++ >= CALLS_AFTER_STOP) return null;
    this.#call = {since: now, run: log.run};
    return this.#send(this.#call, performance.now());
  }

  async #send(call, started) {
    const {log, resend, receive} = this.#host;
    const now = () => call.since + performance.now() - started;
    try {
      const batch = await resend(call.run, log.received);
      if (log.run !== call.run) return;
      const outcome = batch ? receive(batch) : null;
      if (this.#call !== call) return;
      this.#call = null;
      if (outcome) this.#repaired(now(), outcome);
      else this.#fail(now());
    } catch {
      if (this.#call === call) this.#fail(now());
    }
  }

  #repaired(now, {applied, gap}) {
    const wasLost = this.lost;
    this.#failures = 0;
    this.#wait = applied ? FIRST_WAIT : Math.min(MAX_WAIT, this.#wait * 2);
    this.#due = now + (gap && applied ? 0 : this.#wait);
    if (wasLost) this.#host.changed();
  }

  #fail(now) {
    this.#call = null;
    this.#failures += 1;
    this.#wait = Math.min(MAX_WAIT, this.#wait * 2);
    this.#due = now + this.#wait;
    this.#host.changed();
  }
}
