/* numbers.js: formats every number that the page shows, with one rule per kind of number. An unknown number (null) is
   a dash. */

const UNKNOWN = "—";
const orDash = format => x => (x == null ? UNKNOWN : format(x));

/** At most three significant digits: 0.42, 5.12, 38.4, 412. For ratios and for times in a given unit. */
export const digits = x => x.toFixed(x < 9.995 ? 2 : x < 99.95 ? 1 : 0);
export const tenths = orDash(x => x.toFixed(1));
export const hundredths = x => x.toFixed(2);

export const seconds = orDash(s => `${digits(s)} s`);
/** A duration in seconds, as s or ms. */
export const duration = orDash(s =>
  s >= 0.9995 ? seconds(s) : s > 0 && s < 5e-6 ? "under 0.01 ms" : `${digits(1000 * s)} ms`,
);
export const perSecond = orDash(rate => `${rate < 9.95 ? tenths(rate) : rate.toFixed(0)} tok/s`);

/** Probabilities: 1.00, 0.785, 0.0042, 0. */
export const probability = orDash(p =>
  p === 0 ? "0" : p >= 0.9995 ? "1.00" : p >= 0.00995 ? p.toFixed(3) : p.toFixed(4),
);
export const bits = nats => (nats == null ? null : `${digits(nats / Math.LN2)} bits`);

/** A share as a percentage, also for style sheets. */
export const percent = (share, decimals = 2) => `${(100 * share).toFixed(decimals)}%`;

/** At most `maxDigits` significant digits without trailing zeros, for the exact numbers of an exercise. */
export const exact = (x, maxDigits = 6) => String(Number(x.toPrecision(maxDigits)));

/** "1 pass", "2 passes". */
export const count = (n, noun) => `${n} ${noun}${n === 1 ? "" : noun.endsWith("s") ? "es" : "s"}`;
