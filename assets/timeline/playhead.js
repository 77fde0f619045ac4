/* playhead.js: the shown time `t`, in seconds on the lanes' clocks, and its rate. Measured times are never changed,
   only played slower or faster. */

import {countUpTo, EPSILON, isDone, liveEdge, neighbor, tokensOf} from "./log.js";

export const RATES = [1 / 64, 1 / 32, 1 / 16, 1 / 8, 1 / 4, 1 / 2, 1, 2, 4];
const READABLE = 33; // tokens per second that a reader can follow
const REAL = 100; // tokens per second: a race is shown in real time if its slowest lane is not faster
const SLOWEST = 1 / 16; // rate of the teaching pace
const SLOW_S = 2; // of the reader's time, for a pass in slow motion
const SLOW_PASSES = 3;
const EASING = 0.65; // factor of the next passes' seconds
const PAUSE = 0.45; // share of a slow pass in which its outcome is shown without motion
const READ_S = 3; // of the reader's time: how long an outcome is shown after a prediction
const ASKED = 0.999; // share of a pass after which the reader predicts its outcome
const LONGEST_FRAME_S = 0.25; // so that a tab that was hidden does not jump

/** The teaching pace: real time, or the largest rate at which the fastest lane can be read. Returns {rate, settled};
    `settled` is true if enough events have arrived to keep the rate. */
export function teachingRate(log) {
  const speeds = log.lanes.map(lane => (lane.clock > 0 ? tokensOf(lane) / lane.clock : 0));
  const fastest = Math.max(0, ...speeds);
  if (!fastest) return {rate: 1 / 8, settled: false};
  const slow = Math.min(...speeds.filter(speed => speed > 0)) <= REAL;
  const readable = RATES.filter(rate => rate >= SLOWEST && rate <= 1 && (slow || rate * fastest <= READABLE));
  const settled = isDone(log) || log.lanes.some(lane => lane.clock >= 0.15 || tokensOf(lane) >= 12);
  return {rate: readable.at(-1) || SLOWEST, settled};
}

/** A moment before the end of a pass, at which its outcome is not shown yet. */
const timeOfQuestion = ({start, end}) => start + ASKED * (end - start);

const hasDraft = ({draft, drafted: counted}) => Boolean(draft.tokens.length || counted);

export class Playhead {
  t = 0;
  playing = false;
  rate = 1 / 8;
  teaching = true;
  onePass = false;
  question = null; // the index of the pass whose outcome the reader predicts
  answer = null; // the last prediction: {index, count}
  #pause = 0; // seconds left of the pause after a slow pass
  #rateSettled = false;
  #generation = 0; // ends the previous loop of frames, so that only one runs
  #asked = -1; // the last pass with a question
  #log;
  #moved;
  #ticked;
  #asks;

  /** `moved()` is called after every action of the reader, `ticked()` on every frame while it plays. `asks()` returns
      whether the reader predicts outcomes. */
  constructor(log, {moved, ticked, asks = () => false}) {
    this.#log = log;
    this.#moved = moved;
    this.#ticked = ticked;
    this.#asks = asks;
  }

  /** Return to the start, for a new run. */
  rewind() {
    this.t = 0;
    this.#forget();
    this.#rateSettled = false;
  }

  #forget() {
    this.#pause = 0;
    this.#asked = -1;
    this.question = this.answer = null;
  }

  /** The pass in slow motion at `t`: {index, start, end, speed, readerSeconds}; null if there is none, or if the rate
      is slow enough. A recording starts with slow passes, each next one faster; with `onePass`, all passes are slow. */
  get slowed() {
    const lane = this.#log.lanes.at(-1);
    if (!lane || lane.naive || !(this.onePass || (this.teaching && !this.#log.live))) return null;
    const i = countUpTo(lane.ends, this.t);
    const step = lane.steps[i];
    if (!step || !hasDraft(step) || (!this.onePass && lane.passes[i] > 40)) return null;
    const earlier = this.onePass ? 0 : lane.steps.slice(0, i).filter(hasDraft).length;
    const readerSeconds = SLOW_S * EASING ** Math.max(0, earlier + 1 - SLOW_PASSES);
    const speed = (lane.ends[i] - lane.starts[i]) / (readerSeconds * (1 - PAUSE));
    const pass = {index: i, start: lane.starts[i], end: lane.ends[i], speed, readerSeconds};
    if (speed < this.rate * (1 - PAUSE)) return pass;
    return this.onePass ? {...pass, speed: this.rate} : null;
  }

  /** Lane seconds per second of the reader. */
  get speed() {
    return this.slowed?.speed ?? this.rate;
  }

  play(on) {
    if (on === this.playing) return;
    this.playing = on;
    if (on) this.question = null;
    this.#generation += 1;
    if (on) this.#loop(this.#generation);
    this.#moved();
  }

  #loop(generation) {
    let previous = null;
    const frame = now => {
      if (generation !== this.#generation) return;
      const elapsed = previous === null ? 0 : Math.min(LONGEST_FRAME_S, Math.max(0, (now - previous) / 1000));
      previous = now;
      this.#advance(elapsed);
      requestAnimationFrame(frame);
    };
    requestAnimationFrame(frame);
  }

  #advance(elapsed) {
    const edge = liveEdge(this.#log);
    for (let left = elapsed; left > EPSILON && (this.#pause > 0 || this.t < edge); ) left = this.#move(left, edge);
    if (isDone(this.#log) && this.t >= edge && !this.#pause) this.play(false);
    this.#ticked();
  }

  /** Play for at most `left` seconds of the reader. Returns the seconds left after a slow pass or a pause. */
  #move(left, edge) {
    if (this.#pause > 0) {
      const paused = Math.min(left, this.#pause);
      this.#pause -= paused;
      return left - paused;
    }
    const pass = this.slowed;
    const isAsked = this.#isAsked(pass);
    const goal = isAsked ? timeOfQuestion(pass) : pass?.end;
    const due = pass ? (goal - this.t) / pass.speed : Infinity;
    if (due > left || goal > edge) {
      this.t = Math.min(this.t + left * this.speed, edge);
      return 0;
    }
    this.t = goal;
    if (isAsked) {
      this.question = this.#asked = pass.index;
      this.play(false);
      return 0;
    }
    this.#pause = this.answer?.index === pass.index ? READ_S : PAUSE * pass.readerSeconds;
    return left - due;
  }

  /** Whether the reader predicts the outcome of the pass in slow motion. */
  #isAsked(pass) {
    if (!pass || !this.onePass || pass.index === this.#asked || !this.#asks()) return false;
    return this.t <= timeOfQuestion(pass);
  }

  /** Show the moment before the outcome of a pass of the last lane, with the question about it. */
  ask(index) {
    const {starts, ends} = this.#log.lanes.at(-1);
    this.#forget();
    this.t = timeOfQuestion({start: starts[index], end: ends[index]});
    this.onePass = true;
    this.teaching = false;
    this.question = this.#asked = index;
    this.#moved();
  }

  /** Play on after the reader's prediction: the number of accepted tokens; null to skip the question. */
  predict(count) {
    if (this.question === null) return;
    if (count !== null) this.answer = {index: this.question, count};
    this.play(true);
  }

  seek(t, {keepPlaying = false} = {}) {
    this.t = Math.max(0, Math.min(liveEdge(this.#log), t));
    this.#forget();
    if (!keepPlaying) this.play(false);
    this.#moved();
  }

  /** Seek the nearest end of a pass after (1) or before (-1) the current time, of the lane with this index or any. */
  step(direction, lane = -1) {
    const lanes = lane < 0 ? this.#log.lanes : [this.#log.lanes[lane]];
    this.seek(neighbor(this.#log, this.t, direction, lanes));
  }

  toggle() {
    if (!this.playing && isDone(this.#log) && this.t >= liveEdge(this.#log) - EPSILON) this.t = 0;
    this.play(!this.playing && this.#log.lanes.length > 0);
  }

  /** Select the next faster (1) or slower (-1) rate. */
  shift(direction) {
    const rate = RATES[RATES.indexOf(this.rate) + direction];
    if (!rate) return;
    this.rate = rate;
    this.teaching = this.onePass = false;
    if (this.question !== null) this.play(true);
    this.#moved();
  }

  teach() {
    this.teaching = true;
    this.onePass = false;
    this.#rateSettled = false;
    this.adapt();
    if (this.question !== null) this.play(true);
    this.#moved();
  }

  /** Switch slow motion for every pass on or off. */
  passByPass() {
    this.onePass = !this.onePass;
    this.teaching = !this.onePass;
    if (this.question !== null) this.play(true);
    this.#moved();
  }

  /** Update the teaching pace from the log, until it is settled. */
  adapt() {
    if (!this.teaching || this.#rateSettled) return;
    const {rate, settled} = teachingRate(this.#log);
    this.rate = rate;
    this.#rateSettled = settled;
  }
}
