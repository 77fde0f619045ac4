/* words.js: what the timeline says in sentences.

   What it is.  Pure functions from a log to words: one pass, the headline, the state of a run, an announcement.

   Why it is so.  A sentence is tested by value and is the same on the page and for a screen reader.

   What it does not know.  The DOM. Model text is returned apart, as `said`, to be shown as a quotation. */

import {count, digits, duration} from "../page/numbers.js";
import {isDone, passesOf, tokensOf} from "./log.js";
import {textRows} from "./player.js";

const FINISH = {
  length: "length reached",
  eos: "the model ended the text",
  stop: "stop string reached",
  context: "context full",
};
export const finish = reason => FINISH[reason] || reason;
export const prefill = lane => `prompt read in ${duration(lane.prefill_s)}, not on the clock`;

/** One sentence about a pass: its `title`, what it did (`deed`), the quotation `said`, and what comes after (`tail`);
    `lead` is all that comes before the quotation. */
export function describePass(log, laneIndex, stepIndex) {
  const lane = log.lanes[laneIndex];
  const step = lane?.steps[stepIndex];
  if (!step) return sentence("", "", null, "");
  if (step.kind === "prefill") return sentence(lane.name, prefill(lane), null, "");
  const total = isDone(log) ? ` of ${passesOf(lane)}` : "";
  const own = step.origins.findIndex(origin => origin !== "accepted");
  // A server may not tell which words are the target's own: then the whole run is quoted.
  const said = own < 0 ? null : step.pieces[own] || (step.drafted ? step.pieces.join("") : "");
  const tail = step.finish ? `; ${finish(step.finish)}` : "";
  return sentence(`pass ${lane.passes[stepIndex]}${total}`, deedOf(lane, step, step.origins[own]), said, tail);
}

const sentence = (title, deed, said, tail) => ({title, deed, lead: title && `${title}: ${deed}`, said, tail});

/** What a pass did, up to the target's own token; `origin` is that token's, undefined where there is none. */
function deedOf(lane, step, origin) {
  const rows = textRows(step);
  const accepted = step.origins.filter(other => other === "accepted").length;
  if (step.drafted) return `drafted ${step.drafted}, accepted ${accepted}, wrote `;
  if (lane.opaque) return `accepted ${accepted} (drafts are not reported), then `;
  if (lane.naive || !rows) {
    return (lane.naive ? "no draft" : "drafted nothing") + (origin ? ", the target wrote " : "");
  }
  const share = accepted === 0 ? "none" : accepted === rows ? `all ${rows}` : accepted;
  const link = !origin ? "" : origin === "bonus" ? ", and the target added " : ", then the target wrote ";
  return `drafted ${rows}, accepted ${share}${link}`;
}

/** The headline: a number, and the words that go with it, in the same size whether it won or lost. */
export function headline(speedup) {
  if (!Number.isFinite(speedup)) return {number: "", words: ""};
  const number = `${digits(speedup)}x`;
  if (number === "1.00x") return {number: "1.00x,", words: "no faster"};
  return speedup > 1 ? {number, words: "faster"} : {number: `${number}:`, words: "slower"};
}

/** The prompt as somebody typed it: a chat template's words around it are the inspector's. */
export const promptOf = ({header}) => header.prompt.typed ?? header.prompt.text;

/** What a lane of two is called before its method's name: what it does. "" where there are more, or servers. */
export const plainName = (lane, {lanes}) =>
  lanes.length !== 2 || lane.opaque || !lanes[0].naive ? "" : lane.naive ? "one token per pass" : "draft and verify";

/** What a finished race comes to without any clock; "" before its end, or where there is nothing to compare. */
export function outcome(log, frame) {
  const naive = frame.lanes[log.lanes.findIndex(lane => lane.naive)];
  const last = frame.lanes.at(-1);
  if (!frame.atEnd || !isDone(log) || !naive?.passes || !last.passes || naive === last) return "";
  const [tokens, passes] = [count(last.tokens, "token"), count(last.passes, "pass")];
  const isSame = log.end?.agreement?.at(-1)?.identical && naive.tokens === last.tokens;
  return isSame
    ? `The same ${tokens}. ${passes} instead of ${naive.passes}.`
    : `${tokens} in ${passes}; naive ${count(naive.tokens, "token")} in ${naive.passes}.`;
}

export const rateLabel = rate => (rate < 1 ? `1/${Math.round(1 / rate)}x` : `${rate}x`);
export const rateWords = rate =>
  rate < 1 ? `${Math.round(1 / rate)}x slower than real` : rate > 1 ? `${rate}x faster than real` : "real time";

/** The state of a run in one word; `lost` says that the server does not answer. */
export function stateOf(log, lost) {
  if (!log.run) return "empty";
  if (["asked", "error"].includes(log.end?.reason)) return log.end.reason;
  if (log.stopped) return "stopped";
  if (log.end) return log.caption && !log.live ? "recording" : "finished";
  if (lost) return "lost";
  return log.header && !log.status ? "running" : "waiting";
}

const acceptedNothing = log =>
  log.lanes.length > 1 && log.lanes.every(lane => lane.steps.every(step => !step.origins.includes("accepted")));
const tokensSoFar = log => Math.max(0, ...log.lanes.map(tokensOf));

const STATUS_LINES = {
  empty: () => "Nothing to show yet. Press Race to run the prompt.",
  waiting: log => log.status?.text ?? "Waiting for the first tokens.",
  lost: () => "Connection lost: showing what arrived. Still trying.",
  running: log => `Running: ${tokensSoFar(log)} of at most ${log.header.settings.max_new_tokens} tokens.`,
  stopped: log => `Stopped by you after ${tokensSoFar(log)} tokens.`,
  error: () => "The run ended early.",
  asked: log => log.end.message,
  finished: log => `Finished.${acceptedNothing(log) ? " No drafted token was accepted." : ""}`,
  recording: log => log.caption,
};

export function statusLine(log, state, restored) {
  const isRestored = restored && !["asked", "empty", "waiting", "lost"].includes(state);
  return (isRestored ? "Restored after a reload. " : "") + STATUS_LINES[state](log);
}

/** For screen readers: the start and the outcome of a run, nothing in between. */
export function announcement(log, state, restored, speedup) {
  if (state === "empty" || state === "waiting") return "";
  if (state === "running") return `Race started: ${log.lanes.map(lane => lane.name).join(" and ")}.`;
  const line = statusLine(log, state, restored);
  if (state === "error") return `${line} ${log.end.message || ""}`;
  const {number, words} = headline(speedup);
  return speedup == null ? `${line} ` : `${line} ${number} ${words}.`;
}
