/* pass.js: one pass, or one token, as plain data to be shown.

   What it is.  `passOf(log, lane, step)` turns the record of a pass into what the inspector draws: the words before it,
   the drafted rows as an outline, the place of every emitted token with the target's favourites, the time with its
   arithmetic. `tokenOf(log, lane, step, part)` does the same for the card of one token.

   Why it is so.  Everything that could be wrong (who was tested against whom, how far the residual is known, what a
   pass cost) is decided by functions of the log alone, and tested by value.

   What it does not know.  The DOM, and the lookahead window (jacobi.js). */

import {bits} from "../page/numbers.js";
import {describePass} from "../timeline/words.js";
import {FATES, fateOf, outline, tested} from "./draft.js";
import {favourites, placesOf, residualOf} from "./places.js";
import {contextOf, quote, rootOf, shown} from "./text.js";
import {timeOf} from "./time.js";

function kindOf(lane, step) {
  if (step.kind === "prefill") return "prefill";
  if (lane.opaque) return "opaque";
  return tested(step.draft) ? "drafted" : "plain";
}

/** Everything the inspector shows of a pass; null where there is none. */
export function passOf(log, laneIndex, stepIndex) {
  const lane = log.lanes[laneIndex];
  const step = lane?.steps[stepIndex];
  if (!step) return null;
  const {rule} = log.header.settings;
  const kind = kindOf(lane, step);
  const {title, deed, said, tail} = describePass(log, laneIndex, stepIndex);
  const {rows} = outline(step.draft);
  const places = placesOf(step);
  const root = rootOf(log, laneIndex, stepIndex);
  return {
    ...{kind, rule, method: shown(lane.name)},
    ...{title: kind === "prefill" ? "the prompt" : title, lead: deed, said: quote(said), tail},
    context: contextOf(log, laneIndex, stepIndex),
    window: step.draft.window || 0,
    pooled: Boolean(step.draft.births?.length),
    rows: rows.map(entry => ({...entry, ...rowOf(step, entry.row, places)})),
    own: ownOf(step, places),
    emitted: step.pieces.map((piece, i) => ({text: shown(piece), origin: step.origins[i]})),
    places: places.map(place => placeOf(step, place, rule, root)),
    time: timeOf(log, lane, step),
    previous: stepIndex > 0,
    next: stepIndex + 1 < lane.steps.length,
  };
}

function placeOf(step, place, rule, root) {
  const list = favourites(step, place, rule);
  return {
    ...place,
    after: shown(place.at ? step.pieces[place.at - 1] : root),
    text: shown(step.pieces[place.at] || ""),
    origin: step.origins[place.at],
    list,
    entropy: bits(place.settled.entropy),
    residual: residualOf(place, list, rule),
  };
}

/** A drafted row: its fate, and the test it had, if any. */
function rowOf(step, row, places) {
  const {draft} = step;
  const place = places.find(({rejected, settled}) => [...rejected, settled].some(test => test.row === row));
  const tests = place ? [...place.rejected, place.settled] : [];
  const order = tests.findIndex(test => test.row === row);
  const fate = fateOf(step, row);
  return {
    text: shown(draft.pieces[row]),
    source: draft.sources[row] ? shown(draft.sources[row]) : null,
    confidence: draft.chances?.length ? draft.chances[row] : null,
    ...{fate, ...FATES[fate]},
    emitted: step.path.indexOf(row),
    place: place ? place.at : -1,
    ...numbersOf(tests[order]),
    later: order > 0, // its p is of what earlier rejections left
    wanted: place ? shown(step.pieces[place.at] || "") : null,
  };
}

/** The numbers of a test, and up to which draw it would have accepted. */
function numbersOf(test) {
  const {p = null, q = null, draw = null} = test || {};
  return {p, q, draw, until: p == null || q == null ? null : q > 0 ? Math.min(1, p / q) : p > 0 ? 1 : 0};
}

/** The target's own token at the end of a pass, if the text did not end before it. */
function ownOf(step, places) {
  const at = step.origins.findIndex(origin => origin !== "accepted");
  if (at < 0) return null;
  const {p, draw} = numbersOf(places[at]?.settled);
  const later = Boolean(places[at]?.rejected.length);
  return {text: shown(step.pieces[at]), origin: step.origins[at], p, draw, later};
}

/** What the card of a token shows. `part` is {kind, row, emitted}, as of `passParts`; a ghost awaits the target. */
export function tokenOf(log, laneIndex, stepIndex, part) {
  const pass = passOf(log, laneIndex, stepIndex);
  if (!pass) return null;
  const lane = log.lanes[laneIndex];
  const step = lane.steps[stepIndex];
  const {row, emitted} = locate(step, part);
  const drafted = pass.rows.find(entry => entry.row === row && row >= 0) || null;
  const isGhost = part.kind === "ghost";
  const isOwn = emitted >= 0 && step.origins[emitted] !== "accepted";
  const place = isGhost ? null : pass.places[emitted >= 0 ? emitted : drafted ? drafted.place : -1];
  const numbers = (!isGhost && (drafted || (isOwn && pass.own))) || {};
  const {p = null, q = null, draw = null, until = null, later = false} = numbers;
  return {
    title: step.kind === "prefill" ? "the prompt" : `pass ${lane.passes[stepIndex]}`,
    ...{method: pass.method, rule: pass.rule},
    text: emitted >= 0 ? shown(step.pieces[emitted]) : drafted ? drafted.text : null,
    source: drafted ? drafted.source : null,
    confidence: drafted ? drafted.confidence : null,
    ...{p, q, draw, until, later},
    ...becameOf({pass, step, lane, drafted, emitted, isGhost, isOwn}),
    list: place?.list || [],
    entropy: place?.entropy || null,
  };
}

/** Which drafted row and which emitted token a part of the text is; -1 where it is none. */
function locate(step, {row, emitted}) {
  if (row < 0) return {row: emitted >= 0 && emitted < step.path.length ? step.path[emitted] : -1, emitted};
  return {row, emitted: emitted >= 0 ? emitted : step.path.indexOf(row)};
}

/** {fate, outcome}: the outcome of a token, in a word and as {words, said, tail}. */
function becameOf({pass, step, lane, drafted, emitted, isGhost, isOwn}) {
  const say = (words, said = null) => ({words, said, tail: ""});
  if (isGhost) return {fate: "ghost", outcome: say("drafted; not verified yet")};
  if (drafted) return {fate: drafted.fate, outcome: say(...draftedWords(drafted, pass))};
  if (isOwn) return {fate: step.origins[emitted], outcome: say(ownWords(pass, lane))};
  if (emitted >= 0)
    return {fate: "accepted", outcome: say("accepted; this lane does not report its other drafted tokens")};
  return {fate: "none", outcome: {words: pass.lead, said: pass.said, tail: pass.tail}};
}

function draftedWords({fate, words, wanted}, {rule}) {
  if (fate !== "accepted" && fate !== "rejected") return [words];
  if (rule === "rejection") return [`${fate} by the draw`];
  if (fate === "accepted") return ["accepted: the target’s choice too"];
  return ["rejected: the target’s choice is ", quote(wanted)];
}

function ownWords({rule, kind, own}, lane) {
  if (own.origin === "correction") {
    if (rule === "rejection") return "the target’s own, drawn from the residual";
    return "the target’s own, instead of the rejected token";
  }
  if (lane.naive || kind === "plain") return "the target’s own: nothing was drafted";
  return "the target’s own, after an accepted draft";
}
