/* playhead.js: which instant is shown, and how fast it moves.

   What it is.  A `Playhead` has `t` (seconds on the lanes' clocks), `playing`, `rate` and whether the rate is the
   `teaching` pace: real time, unless every lane is too quick to be followed; then the largest rate at which the
   fastest can still be read.
   `moved()` is called after every act of the reader's, `ticked()` while it plays.

   Why it is so.  Measured time is stretched by the rate, never changed: what is shown stays what happened.

   What it does not know.  The DOM; what an instant looks like. */

globalThis.lookaheadPlayhead = (() => {
  const {EPSILON, isDone, liveEdge, neighbour, tokensOf} = lookaheadLog;
  const RATES = [1 / 16, 1 / 8, 1 / 4, 1 / 2, 1, 2, 4];
  const READABLE = 33; // tokens a second that a reader can still follow
  const REAL = 100; // tokens a second of the slowest lane up to which a race is shown as fast as it was
  const LONGEST_FRAME_S = 0.25; // a tab that was hidden does not jump

  /** {rate: the teaching pace by what has arrived, settled: whether enough has arrived to keep it}. */
  function teachingRate(log) {
    const speeds = log.lanes.map(lane => (lane.clock > 0 ? tokensOf(lane) / lane.clock : 0));
    const fastest = Math.max(0, ...speeds);
    if (!fastest) return {rate: 1 / 8, settled: false};
    const slow = Math.min(...speeds.filter(speed => speed > 0)) <= REAL;
    const readable = RATES.filter(rate => rate <= 1 && (slow || rate * fastest <= READABLE));
    const settled = isDone(log) || log.lanes.some(lane => lane.clock >= 0.15 || tokensOf(lane) >= 12);
    return {rate: readable.at(-1) || RATES[0], settled};
  }

  class Playhead {
    t = 0;
    playing = false;
    rate = 1 / 8;
    teaching = true;
    #rateSettled = false;
    #generation = 0; // retires the loop of frames before: starting twice leaves one
    #log;
    #moved;
    #ticked;

    constructor(log, {moved, ticked}) {
      this.#log = log;
      this.#moved = moved;
      this.#ticked = ticked;
    }

    /** Back to the beginning, for another run. */
    rewind() {
      this.t = 0;
      this.#rateSettled = false;
    }

    play(on) {
      if (on === this.playing) return;
      this.playing = on;
      this.#generation += 1;
      if (on) this.#loop(this.#generation);
      this.#moved();
    }

    #loop(generation) {
      let before = null;
      const frame = now => {
        if (generation !== this.#generation) return;
        const elapsed = before === null ? 0 : Math.min(LONGEST_FRAME_S, Math.max(0, (now - before) / 1000));
        before = now;
        this.#advance(elapsed);
        requestAnimationFrame(frame);
      };
      requestAnimationFrame(frame);
    }

    #advance(elapsed) {
      const edge = liveEdge(this.#log);
      this.t = Math.min(this.t + elapsed * this.rate, edge);
      if (isDone(this.#log) && this.t >= edge) this.play(false);
      this.#ticked();
    }

    seek(t, {keepPlaying = false} = {}) {
      this.t = Math.max(0, Math.min(liveEdge(this.#log), t));
      if (!keepPlaying) this.play(false);
      this.#moved();
    }

    /** To the nearest end of a pass after (1) or before (-1) this instant. */
    step(direction) {
      this.seek(neighbour(this.#log, this.t, direction));
    }

    toggle() {
      if (!this.playing && isDone(this.#log) && this.t >= liveEdge(this.#log) - EPSILON) this.t = 0;
      this.play(!this.playing && this.#log.lanes.length > 0);
    }

    /** The next faster (1) or slower (-1) rate. */
    shift(direction) {
      const rate = RATES[RATES.indexOf(this.rate) + direction];
      if (!rate) return;
      this.rate = rate;
      this.teaching = false;
      this.#moved();
    }

    teach() {
      this.teaching = true;
      this.#rateSettled = false;
      this.adapt();
      this.#moved();
    }

    /** Takes what has arrived into account, until the teaching pace is settled. */
    adapt() {
      if (!this.teaching || this.#rateSettled) return;
      const {rate, settled} = teachingRate(this.#log);
      this.rate = rate;
      this.#rateSettled = settled;
    }
  }

  return {RATES, Playhead, teachingRate};
})();
