/* sentences.js: the sentences of the timeline, as pure functions of the log. Model text is returned separately, as
   `quotation`. */

import {digits, duration} from "../page/numbers.js";
import {differenceOf, isDone, OTHER_TEXT, passesOf, tokensOf} from "./log.js";
import {mostTokens, textRows} from "./player.js";

const FINISH = {
  length: "length reached",
  eos: "the model ended the text",
  stop: "stop string reached",
  context: "context full",
};
export const finish = reason => FINISH[reason] || reason;
export const prefill = lane => `prompt read in ${duration(lane.prefill_s)}, not on the clock`;

/** Describe a pass in one sentence: {title, action, lead, quotation, tail}. `lead` is the text before the quotation,
    `tail` the text after it. */
export function describePass(log, laneIndex, stepIndex) {
  const lane = log.lanes[laneIndex];
  const step = lane?.steps[stepIndex];
  if (!step) return sentence("", "", null, "");
  if (step.kind === "prefill") return sentence(lane.name, prefill(lane), null, "");
  const total = isDone(log) ? ` of ${passesOf(lane)}` : "";
  const targetIndex = step.origins.findIndex(origin => origin !== "accepted");
  // A server may not report which token is the target's own: then all text of the pass is quoted.
  const quotation = targetIndex < 0 ? null : step.pieces[targetIndex] || (step.drafted ? step.pieces.join("") : "");
  const tail = step.finish ? `; ${finish(step.finish)}` : "";
  return sentence(
    `pass ${lane.passes[stepIndex]}${total}`,
    actionOf(lane, step, step.origins[targetIndex]),
    quotation,
    tail,
  );
}

const sentence = (title, action, quotation, tail) => ({
  title,
  action,
  lead: title && `${title}: ${action}`,
  quotation,
  tail,
});

/** What happened in a pass, up to the target's own token; `origin` is that token's origin, undefined for none. */
function actionOf(lane, step, origin) {
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

/** The headline: the speedup as {number, label}. */
export function headline(speedup) {
  if (!Number.isFinite(speedup)) return {number: "", label: ""};
  const number = `${digits(speedup)}x`;
  if (number === "1.00x") return {number: "1.00x,", label: "no faster"};
  return speedup > 1 ? {number, label: "faster"} : {number: `${number}:`, label: "slower"};
}

/** The headline of a frame. A text that differs from naive's has no speedup: its label names the error instead. Texts
    of servers are exempt, because engines round differently. */
export function headlineAt(log, frame) {
  const {text, kind} = matchOf(log, frame);
  if (kind !== "differs" || log.lanes.at(-1).options.server) return headline(frame.speedup);
  const isWrong = log.header.exactness === "bit-exact" || text.includes("a bug");
  return {number: "", label: isWrong ? "the text is wrong" : "the texts differ"};
}

/** The prompt as it was typed, without the text of a chat template. */
export const promptOf = ({header}) => header.prompt.typed ?? header.prompt.text;

/** A description of each of two lanes, shown before the method's name; "" for more lanes and for servers. */
export const plainName = (lane, {lanes}) =>
  lanes.length !== 2 || lane.opaque || !lanes[0].naive ? "" : lane.naive ? "one token per pass" : "draft and verify";

/** The passes of the last lane at the playhead, and the number that naive needs for the same tokens, which is one per
    token: {number, words}. A wrong text is not compared. */
export function passCount(log, frame) {
  const last = frame.lanes.at(-1);
  if (!last) return {number: "", words: ""};
  const word = last.passes === 1 ? "pass" : "passes";
  if (headlineAt(log, frame).label.startsWith("the text")) return {number: String(last.passes), words: word};
  return {number: String(last.passes), words: log.lanes.at(-1).naive ? word : `${word} instead of ${last.tokens}`};
}

/** Whether the last lane's text equals naive's at the playhead: {text, note, kind}; `kind` is "same", "differs", "". */
export function matchOf(log, frame) {
  const [naive, last] = [log.lanes.find(lane => lane.naive), log.lanes.at(-1)];
  const badge = frame.atEnd ? log.end?.agreement?.at(-1) : null;
  if (badge?.identical && !log.stopped) {
    return {text: `${badge.badge}, ${frame.lanes.at(-1).tokens} of ${tokensOf(naive)} tokens`, note: "", kind: "same"};
  }
  if (badge && !badge.identical)
    return {text: badge.badge, note: badge.detail || "", kind: badge.identical === false ? "differs" : ""};
  if (!naive || naive === last || last.options.server) return {text: "", note: "", kind: ""};
  const other = OTHER_TEXT[log.header.settings.rule];
  if (other) return {text: other, note: "", kind: ""};
  const difference = differenceOf(naive, last);
  const compared = Math.min(...[log.lanes.indexOf(naive), log.lanes.length - 1].map(i => frame.lanes[i].tokens));
  if (difference >= 0 && difference < compared) {
    return {text: `differs at token ${difference + 1}`, note: "", kind: "differs"};
  }
  const total = isDone(log) && !log.stopped ? tokensOf(last) : log.header.settings.max_new_tokens;
  return {text: compared ? `identical so far: ${compared} of ${total} tokens` : "", note: "", kind: "same"};
}

export const rateLabel = rate => (rate < 1 ? `1/${Math.round(1 / rate)}x` : `${rate}x`);
export const rateText = rate =>
  rate < 1 ? `played ${Math.round(1 / rate)}x slower` : rate > 1 ? `played ${rate}x faster` : "real time";

/** The state of a run in one word; `lost` is true if the server does not reply. */
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
const tokensSoFar = log => Math.min(mostTokens(log), Math.max(0, ...log.lanes.map(tokensOf)));

/** The server also stops a race when its page is closed or loaded again. */
const stopperOf = ({stopPressed}, restored) =>
  stopPressed ? "Stopped by you" : restored ? "The reload ended the race" : "Stopped";

const STATUS_LINES = {
  empty: () => "Nothing to show yet. Press Race to run the prompt.",
  waiting: log => log.status?.text ?? "Waiting for the first tokens.",
  lost: () => "Connection lost: the received part is shown. Still trying.",
  running: log => `Running: ${tokensSoFar(log)} of at most ${log.header.settings.max_new_tokens} tokens.`,
  stopped: (log, restored) => `${stopperOf(log, restored)} after ${tokensSoFar(log)} tokens.`,
  error: () => "The run ended early.",
  asked: log => log.end.message,
  finished: log => `Finished.${acceptedNothing(log) ? " No drafted token was accepted." : ""}`,
  recording: log => log.caption,
};

const QUOTED = 40; // characters of the prompt

const staleLine = log => {
  const prompt = promptOf(log).replace(/\s+/g, " ");
  const quotation = prompt.length > QUOTED ? `${prompt.slice(0, QUOTED).trimEnd()}…` : prompt;
  return `${log.live ? "Run" : "Recorded"} for “${quotation}”; press Race for the new settings.`;
};

/** The line about a run's state. `isStale` is true if the form has changed since. */
export function statusLine(log, state, restored, isStale = false) {
  if (isStale) return staleLine(log);
  const isRestored = restored && !["asked", "empty", "waiting", "lost"].includes(state);
  return (isRestored ? "Restored after a reload. " : "") + STATUS_LINES[state](log, restored);
}

/** The announcement for screen readers, at the start and at the end of a run; `frame` is that of the end, with its
    headline. */
export function announcement(log, state, restored, frame, {number, label}) {
  if (state === "empty" || state === "waiting") return "";
  if (state === "running") return `Race started: ${log.lanes.map(lane => lane.name).join(" and ")}.`;
  const line = statusLine(log, state, restored);
  if (state === "error") return `${line} ${log.end.message || ""}`;
  if (!label) return `${line} `;
  const passes = passCount(log, frame);
  return `${line} ${passes.number} ${passes.words}; ${matchOf(log, frame).text}; ${`${number} ${label}`.trim()}.`;
}
