/* flow.js: a pass from left to right as it happened: last words, draft, the target's p, the test, what was emitted.

   What it is.  `flow(pass)` is a table, one line a drafted row, one column a stage; a tree is the same table with an
   outline in its first column. `plain(pass)` is the short form of a pass whose draft is none, or not known.

   What it does not know.  How a pass came to be what it is: all it shows comes from pass.js. */

import {HIDDEN, make} from "../page/dom.js";
import {percent, probability} from "../page/numbers.js";
import {drawn, sign, small, table, token, unseen, withinOne} from "./parts.js";

const cell = (column, ...children) => make(`td.la-i-col-${column}`, ...children);

/** The draws that accept, 0 to min(1, p/q), and the draw as a dot. */
function draws(until, draw) {
  const zone = drawn("la-i-zone", {width: percent(until)});
  return drawn("la-i-draws", {}, zone, drawn("la-i-dot", {left: percent(withinOne(draw))}));
}

function drawWords({fate, draw, until}) {
  if (draw === null || until === null) return fate;
  const looksEqual = probability(draw) === probability(until);
  const limit = until < 1 ? `p/q ${probability(until)}` : "1 (p is at least q)";
  const side = fate === "accepted" ? (looksEqual ? "just under" : "below") : looksEqual ? "just above" : "not below";
  return `draw ${probability(draw)}, ${side} ${limit}: ${fate}`;
}

function testOf(row, rule) {
  if (row.fate !== "accepted" && row.fate !== "rejected") return [sign(row.sign), row.words];
  if (rule === "rejection") {
    const figure = row.until === null || row.draw === null ? [] : [draws(row.until, row.draw)];
    return [...figure, make("span.la-i-words", sign(row.sign), drawWords(row))];
  }
  if (row.fate === "accepted") return [sign("="), "equal: accepted"];
  const wanted = row.wanted === null ? ["rejected"] : ["the target predicts ", token(row.wanted)];
  return [sign("≠"), "not equal: ", ...wanted];
}

function ownTest(own, rule) {
  if (rule === "rejection" && own.draw !== null) {
    return [own.later ? "drawn from the residual" : "drawn from p", ` (draw ${probability(own.draw)})`];
  }
  return [own.origin === "correction" ? "the target’s own, a correction" : "the target’s own, a bonus"];
}

/** The column between draft and p: {head, value(row)}; null where the drafter says nothing of itself. */
function drafterColumn(pass) {
  if (pass.rule === "rejection") return {head: "drafter’s q", value: row => row.q};
  const isSure = pass.rows.some(row => row.confidence !== null);
  return isSure ? {head: "confidence", value: row => row.confidence} : null;
}

function draftedLine(row, pass, column) {
  const guide = make("span.la-i-guide", HIDDEN, row.guide);
  const depth = row.guide ? [unseen(`depth ${row.depth}: `)] : [];
  const emitted = row.emitted >= 0 ? token(pass.emitted[row.emitted].text, "accepted") : unseen("nothing");
  return make(
    `tr.la-i-row.la-i-is-${row.fate}`,
    make("th.la-i-drafted", {scope: "row"}, guide, ...depth, sign(row.sign), token(row.text, row.fate)),
    ...(column ? [cell("q", probability(column.value(row)))] : []),
    cell("p", probability(row.p), ...star(row, pass)),
    cell("test", ...testOf(row, pass.rule)),
    cell("emitted", emitted),
  );
}

function ownLine(own, pass, column) {
  return make(
    "tr.la-i-row.la-i-is-own",
    make("th.la-i-drafted", {scope: "row"}, unseen("not drafted")),
    ...(column ? [cell("q", "")] : []),
    cell("p", probability(own.p), ...star(own, pass)),
    cell("test", ...ownTest(own, pass.rule)),
    cell("emitted", token(own.text, "own")),
  );
}

/** Marks a p that is of what earlier rejections left. */
const star = ({later}, {rule}) => (rule === "rejection" && later ? [make("span.la-i-star", "*")] : []);

function notesOf(pass, column) {
  const isStarred = one => pass.rule === "rejection" && one?.later && one.p !== null;
  return [
    [...pass.rows, pass.own].some(isStarred) && "* in what the rejection before it left",
    !column && "This drafter reports no confidence.",
    pass.rule === "coupled" &&
      "The choice uses the shared noise of each position, so it is not always the likeliest token.",
  ].filter(Boolean);
}

export function flow(pass) {
  const column = drafterColumn(pass);
  const lines = pass.rows.map(row => draftedLine(row, pass, column));
  if (pass.own) lines.push(ownLine(pass.own, pass, column));
  const test = pass.rule === "rejection" ? "draw below p/q?" : "the target’s choice";
  const heads = ["drafted", ...(column ? [column.head] : []), "target’s p", test, "emitted"];
  const className = column ? "la-i-table" : "la-i-table.la-i-no-confidence";
  const figure = table(className, "Drafted rows, their tests, and what was emitted", heads, lines);
  const scroll = {role: "region", tabindex: "0", "aria-label": "Draft, test and result, left to right"};
  const notes = notesOf(pass, column).map(note => small(note));
  return make("div.la-i-flow", context(pass), make("div.la-i-scroll", scroll, figure, ...notes));
}

function context({context: {text, cut}}) {
  const words = make("p", {dir: "auto"}, cut ? "…" : "", make("bdi", text || "nothing yet"));
  return make("div.la-i-context", make("span.la-i-label", "the text so far"), words);
}

export function plain(pass) {
  const isOpaque = pass.kind === "opaque";
  const kinds = {accepted: "accepted", correction: "own", bonus: isOpaque ? "own" : "plain"};
  const words = {accepted: "accepted", correction: "the target’s own", bonus: "the target’s own"};
  const items = pass.emitted.map(({text, origin}) =>
    make("li", token(text, kinds[origin]), make("span.la-i-small", words[origin])),
  );
  const emitted = make("div.la-i-emitted", make("span.la-i-label", "emitted"), make("ul", ...items));
  const note = "This method reports its emitted tokens, but not its drafts or tests.";
  if (isOpaque) emitted.append(small(note));
  return make("div.la-i-flow", context(pass), emitted);
}
