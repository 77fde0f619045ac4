/* numbers.js: every number that the page shows, as text.

   What it is.  Plain functions from a number to a string; a number that is not known (null) is a dash. A style that
   needs a length takes `percent` too.

   Why it is so.  One rule for each kind of number, so that the same measurement reads the same in a lane, in the
   inspector and in a lesson. Three significant digits are what a race on a busy machine can vouch for.

   What it does not know.  Units of its arguments beyond what a function's name says; where the text is shown. */

const UNKNOWN = "—";
const known = format => x => (x == null ? UNKNOWN : format(x));

/** Three significant digits at most: 0.42, 5.12, 38.4, 412. For ratios and for times in a given unit. */
export const digits = x => x.toFixed(x < 9.995 ? 2 : x < 99.95 ? 1 : 0);
export const tenths = known(x => x.toFixed(1));
export const hundredths = x => x.toFixed(2);

export const seconds = known(s => `${digits(s)} s`);
/** A duration in seconds, in the unit that suits it. */
export const duration = known(s =>
  s >= 0.9995 ? seconds(s) : s > 0 && s < 5e-6 ? "under 0.01 ms" : `${digits(1000 * s)} ms`,
);
export const perSecond = known(rate => `${rate < 9.95 ? tenths(rate) : rate.toFixed(0)} tok/s`);

/** Probabilities: 1.00, 0.785, 0.0042, 0. */
export const probability = known(p =>
  p === 0 ? "0" : p >= 0.9995 ? "1.00" : p >= 0.00995 ? p.toFixed(3) : p.toFixed(4),
);
export const bits = nats => (nats == null ? null : `${digits(nats / Math.LN2)} bits`);

/** A share as a percentage, also for style sheets: two decimals unless fewer are asked for. */
export const percent = (share, decimals = 2) => `${(100 * share).toFixed(decimals)}%`;

/** As many significant digits as given at most, and no idle zeros: numbers of an exercise, which are exact. */
export const exact = (x, most = 6) => String(Number(x.toPrecision(most)));

/** "1 pass", "2 passes". */
export const count = (n, noun) => `${n} ${noun}${n === 1 ? "" : noun.endsWith("s") ? "es" : "s"}`;
