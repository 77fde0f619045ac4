/* playhead.js: which instant is shown, and how fast it moves.

   What it is.  A `Playhead` has `t` (seconds on the lanes' clocks), `playing`, `rate` and whether the rate is the
   `teaching` pace: real time, unless every lane is too quick to be followed; then the largest rate at which the
   fastest can still be read. A recording begins in slow motion: the last lane's first drafting passes take `SLOW_S` of
   the reader's seconds each, with a rest on their outcome, the next ones ever less. With `onePass` all of them do.
   `moved()` is called after every act of the reader's, `ticked()` while it plays.

   Why it is so.  Measured time is stretched by the rate, never changed: what is shown stays what happened.

   What it does not know.  The DOM; what an instant looks like. */

import {countUpTo, EPSILON, isDone, liveEdge, neighbour, tokensOf} from "./log.js";

export const RATES = [1 / 64, 1 / 32, 1 / 16, 1 / 8, 1 / 4, 1 / 2, 1, 2, 4];
const READABLE = 33; // tokens a second that a reader can still follow
const REAL = 100; // tokens a second of the slowest lane up to which a race is shown as fast as it was
const SLOWEST = 1 / 16; // of the teaching pace
const SLOW_S = 2;
const SLOW_PASSES = 3;
const EASING = 0.65; // of the seconds of the pass before
const REST = 0.45; // of a slowed pass: its outcome is shown without motion
const LONGEST_FRAME_S = 0.25; // a tab that was hidden does not jump

/** {rate: the teaching pace by what has arrived, settled: whether enough has arrived to keep it}. */
export function teachingRate(log) {
  const speeds = log.lanes.map(lane => (lane.clock > 0 ? tokensOf(lane) / lane.clock : 0));
  const fastest = Math.max(0, ...speeds);
  if (!fastest) return {rate: 1 / 8, settled: false};
  const slow = Math.min(...speeds.filter(speed => speed > 0)) <= REAL;
  const readable = RATES.filter(rate => rate >= SLOWEST && rate <= 1 && (slow || rate * fastest <= READABLE));
  const settled = isDone(log) || log.lanes.some(lane => lane.clock >= 0.15 || tokensOf(lane) >= 12);
  return {rate: readable.at(-1) || SLOWEST, settled};
}

const drafted = ({draft, drafted: counted}) => Boolean(draft.tokens.length || counted);

export class Playhead {
  t = 0;
  playing = false;
  rate = 1 / 8;
  teaching = true;
  onePass = false;
  #rest = 0; // of the reader's seconds, at the end of a slowed pass
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
    this.#rest = 0;
    this.#rateSettled = false;
  }

  /** The pass that is in slow motion here, as {end, speed, wall}; null where the rate itself is slow enough. */
  get slowed() {
    const lane = this.#log.lanes.at(-1);
    if (!lane || lane.naive || !(this.onePass || (this.teaching && !this.#log.live))) return null;
    const i = countUpTo(lane.ends, this.t);
    const step = lane.steps[i];
    if (!step || !drafted(step) || (!this.onePass && lane.passes[i] > 40)) return null;
    const before = this.onePass ? 0 : lane.steps.slice(0, i).filter(drafted).length;
    const wall = SLOW_S * EASING ** Math.max(0, before + 1 - SLOW_PASSES);
    const speed = (lane.ends[i] - lane.starts[i]) / (wall * (1 - REST));
    return speed < this.rate * (1 - REST) ? {end: lane.ends[i], speed, wall} : null;
  }

  /** Lane seconds in one of the reader's. */
  get speed() {
    return this.slowed?.speed ?? this.rate;
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
    for (let left = elapsed; left > EPSILON && (this.#rest > 0 || this.t < edge); ) left = this.#move(left, edge);
    if (isDone(this.#log) && this.t >= edge && !this.#rest) this.play(false);
    this.#ticked();
  }

  /** Goes on for up to `left` of the reader's seconds; what is left at the end of a slowed pass or of a rest. */
  #move(left, edge) {
    if (this.#rest > 0) {
      const rested = Math.min(left, this.#rest);
      this.#rest -= rested;
      return left - rested;
    }
    const pass = this.slowed;
    const due = pass ? (pass.end - this.t) / pass.speed : Infinity;
    if (due > left || pass.end > edge) {
      this.t = Math.min(this.t + left * this.speed, edge);
      return 0;
    }
    this.t = pass.end;
    this.#rest = REST * pass.wall;
    return left - due;
  }

  seek(t, {keepPlaying = false} = {}) {
    this.t = Math.max(0, Math.min(liveEdge(this.#log), t));
    this.#rest = 0;
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
    this.teaching = this.onePass = false;
    this.#moved();
  }

  teach() {
    this.teaching = true;
    this.onePass = false;
    this.#rateSettled = false;
    this.adapt();
    this.#moved();
  }

  /** Every pass takes as long as the first ones, or no more. */
  passByPass() {
    this.onePass = !this.onePass;
    this.teaching = !this.onePass;
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
