/* measured.js: the numbers of lesson 6 for a finished race: acceptance, draft length, draft cost, cost of a pass. */

import {duration, isDone, passesOf, tokensOf} from "./log.js";
import {frameAt} from "./player.js";

const sum = (list, of) => list.reduce((total, entry) => total + of(entry), 0);
const counted = (step, status) => step.statuses.filter(other => other === status).length;

/** The last lane of a finished race against naive: {method, k: drafted tokens per pass, alpha: accepted of tested,
    share: accepted of drafted, tokens: per pass, speedup, live: false for a recording}, and in one-row passes of naive
    {c: cost of a drafted token, cost: of a pass}. Null if the race has no such lane, or no recorded drafts. */
export function measuredOf(log) {
  const lane = log.lanes.at(-1);
  const naive = log.lanes.find(other => other.naive);
  const {speedup, lanes} = frameAt(log, duration(log));
  const steps = lane?.steps.filter(({kind}) => kind === "verify") || [];
  const drafted = sum(steps, step => step.draft.tokens.length - counted(step, "window"));
  if (!isDone(log) || !speedup || lane === naive || !drafted) return null;
  const passS = 1 / lanes[log.lanes.indexOf(naive)].rate;
  const accepted = sum(steps, step => counted(step, "accepted"));
  const rejections = steps.filter(step => counted(step, "rejected")).length;
  const tokens = tokensOf(lane) / passesOf(lane);
  return {
    ...{method: lane.name, k: drafted / steps.length, alpha: accepted / (accepted + rejections)},
    ...{share: accepted / drafted, tokens, speedup, cost: tokens / speedup},
    live: log.live,
    c: sum(steps, step => step.propose_s) / drafted / passS,
  };
}
