/* flow.js: a table of one pass from left to right: draft, the drafter's probability, the target's p, test, emitted
   token. Each drafted row is a line; a tree has an outline in the first column. */

import {HIDDEN, make} from "../page/dom.js";
import {probability} from "../page/numbers.js";
import {isSampled} from "../timeline/log.js";
import {draws, sign, small, table, token, unseen} from "./parts.js";

const TESTS = {rejection: "draw below p/q?", "block-verification": "draw below the limit?"};
const cell = (column, ...children) => make(`td.la-i-col-${column}`, ...children);

function drawSentence({status, draw, threshold, limit}) {
  if (draw === null || threshold === null) return status;
  if (limit !== null && status === "accepted" && draw >= limit) return "accepted with a later token";
  const looksEqual = probability(draw) === probability(threshold);
  const ratio = limit === null ? `p/q ${probability(threshold)}` : `the limit ${probability(limit)}`;
  const most = threshold < 1 ? ratio : limit === null ? "1 (p is at least q)" : "1";
  const side = status === "accepted" ? (looksEqual ? "just under" : "below") : looksEqual ? "just above" : "not below";
  return `draw ${probability(draw)}, ${side} ${most}: ${status}`;
}

function testOf(row, rule) {
  if (row.status !== "accepted" && row.status !== "rejected") return [sign(row.sign), row.label];
  if (isSampled(rule)) {
    const figure = row.threshold === null || row.draw === null ? [] : [draws(row.threshold, row.draw)];
    return [...figure, make("span.la-i-words", sign(row.sign), drawSentence(row))];
  }
  if (row.change) return [sign("≠"), "accepted; naive writes ", token(row.change.piece)];
  if (row.status === "accepted") {
    return [sign("="), row.source === "forced" ? "forced: the only allowed token" : "equal: accepted"];
  }
  const reason = row.choice === null ? ["rejected"] : ["the target predicts ", token(row.choice)];
  return [sign("≠"), "not equal: ", ...reason];
}

function targetTest(targetToken, rule) {
  if (isSampled(rule) && targetToken.draw !== null) {
    return [
      targetToken.isResidual ? "drawn from the residual" : "drawn from p",
      ` (draw ${probability(targetToken.draw)})`,
    ];
  }
  return [targetToken.origin === "correction" ? "the target’s own, a correction" : "the target’s own, a bonus"];
}

/** The column between draft and p: {head, value(row)}; null if the drafter reports no probability. */
function drafterColumn(pass) {
  if (isSampled(pass.rule)) return {head: "drafter’s q", value: row => row.q};
  const hasConfidence = pass.rows.some(row => row.confidence !== null);
  return hasConfidence ? {head: "confidence", value: row => row.confidence} : null;
}

function draftedLine(row, pass, column) {
  const guide = make("span.la-i-guide", HIDDEN, row.guide);
  const depth = row.guide ? [unseen(`depth ${row.depth}: `)] : [];
  const emitted = row.emitted >= 0 ? token(pass.emitted[row.emitted].text, "accepted") : unseen("nothing");
  return make(
    `tr.la-i-row.la-i-is-${row.status}`,
    make("th.la-i-drafted", {scope: "row"}, guide, ...depth, sign(row.sign), token(row.text, row.status)),
    ...(column ? [cell("q", probability(column.value(row)))] : []),
    cell("p", probability(row.p), ...star(row, pass)),
    cell("test", ...testOf(row, pass.rule)),
    cell("emitted", emitted),
  );
}

function targetLine(targetToken, pass, column) {
  return make(
    "tr.la-i-row.la-i-is-own",
    make("th.la-i-drafted", {scope: "row"}, unseen("not drafted")),
    ...(column ? [cell("q", "")] : []),
    cell("p", probability(targetToken.p), ...star(targetToken, pass)),
    cell("test", ...targetTest(targetToken, pass.rule)),
    cell("emitted", token(targetToken.text, "own")),
  );
}

/** A mark for a p that is a residual probability after earlier rejections. */
const star = ({isResidual}, {rule}) => (isSampled(rule) && isResidual ? [make("span.la-i-star", "*")] : []);

function notesOf(pass, column) {
  const isStarred = row => isSampled(pass.rule) && row?.isResidual && row.p !== null;
  return [
    [...pass.rows, pass.targetToken].some(isStarred) && "* in the residual after the earlier rejection",
    !column && "This drafter reports no confidence.",
    pass.rule === "coupled" &&
      "The choice uses the shared noise of each position, so it is not always the likeliest token.",
  ].filter(Boolean);
}

export function flow(pass) {
  const column = drafterColumn(pass);
  const lines = pass.rows.map(row => draftedLine(row, pass, column));
  if (pass.targetToken) lines.push(targetLine(pass.targetToken, pass, column));
  const test = TESTS[pass.rule] || "the target’s choice";
  const heads = ["drafted", ...(column ? [column.head] : []), "target’s p", test, "emitted"];
  const className = column ? "la-i-table" : "la-i-table.la-i-no-confidence";
  const figure = table(className, "Drafted rows, their tests, and the emitted tokens", heads, lines);
  const scroll = {role: "group", tabindex: "0", "aria-label": "Draft, test and result, left to right"};
  const notes = notesOf(pass, column).map(note => small(note));
  return make("div.la-i-flow", context(pass), make("div.la-i-scroll", scroll, figure, ...notes));
}

function context({context: {text, cut}}) {
  const paragraph = make("p", {dir: "auto"}, cut ? "…" : "", make("bdi", text || "nothing yet"));
  return make("div.la-i-context", make("span.la-i-label", "the text so far"), paragraph);
}

/** The short form of a pass with no draft, or with an unknown draft. */
export function plain(pass) {
  const isOpaque = pass.kind === "opaque";
  const kinds = {accepted: "accepted", correction: "own", bonus: isOpaque ? "own" : "plain"};
  const labels = {accepted: "accepted", correction: "the target’s own", bonus: "the target’s own"};
  const items = pass.emitted.map(({text, origin}) =>
    make("li", token(text, kinds[origin]), make("span.la-i-small", labels[origin])),
  );
  const emitted = make("div.la-i-emitted", make("span.la-i-label", "emitted"), make("ul", ...items));
  const note = "This method reports its emitted tokens, but not its drafts or tests.";
  if (isOpaque) emitted.append(small(note));
  return make("div.la-i-flow", context(pass), emitted);
}
