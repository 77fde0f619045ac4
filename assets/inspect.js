/* inspect.js: one pass, or one token, as plain data to be shown.

   What it is.  `passOf(log, lane, step)` turns the record of a pass into what the inspector draws: the words before it,
   the drafted rows as an outline, the place of every emitted token with the target's favourites, the time with its
   arithmetic. `tokenOf(log, lane, step, part)` does the same for the card of one token.

   Why it is so.  Everything that could be wrong (who was tested against whom, how far the residual is known, what a
   pass cost) is decided here, by functions of the log alone, and tested by value.

   What it does not know.  The DOM, and the lookahead window (jacobi.js). Nothing is estimated: what was not recorded
   is null. Outcomes are read, never computed again from p, q and draw, which the record rounds. */

const lookaheadInspect = (() => {
  "use strict";
  const P = lookaheadPlayer, {signs} = lookaheadLane;
  const LONGEST = 40, CONTEXT = 90;        // letters shown of one token, and of the words before a pass

  // ---------------------------------------------------------------- text and numbers

  /** At most `most` letters of untrusted text, whole code points, line breaks as signs. */
  function shown(text, most = LONGEST) {
    const letters = Array.from(String(text).slice(0, 4 * most));
    return signs(letters.length > most ? `${letters.slice(0, most).join("")}…` : letters.join(""));
  }

  /** The same for a quotation inside a sentence, where the space before a word would only be in the way. */
  const quote = text => text == null ? null : shown(String(text).trim() || text);

  /** Probabilities: 1.00, 0.785, 0.0042, 0; three significant digits at most. */
  function chance(p) {
    if (p == null) return "—";
    return p === 0 ? "0" : p >= 0.9995 ? "1.00" : p >= 0.00995 ? p.toFixed(3) : p.toFixed(4);
  }
  const three = x => x >= 99.95 ? x.toFixed(0) : x >= 9.995 ? x.toFixed(1) : x.toFixed(2);
  function ms(s) {
    if (s == null) return "—";
    return s >= 0.9995 ? `${three(s)} s` : s > 0 && s < 5e-6 ? "under 0.01 ms" : `${three(s * 1000)} ms`;
  }
  const many = (n, word) => `${n} ${word}${n === 1 ? "" : word.endsWith("s") ? "es" : "s"}`;
  const bits = nats => nats == null ? null : `${three(nats / Math.LN2)} bits`;

  // ---------------------------------------------------------------- the words before a pass

  /** The text before a pass, its end only: {text, cut}. */
  function contextOf(log, laneIndex, stepIndex, most = CONTEXT) {
    let text = "";
    const {steps} = log.lanes[laneIndex];
    for (let i = stepIndex - 1; i >= 0 && text.length <= 4 * most; i--) text = steps[i].pieces.join("") + text;
    if (text.length <= 4 * most) text = String(log.header.prompt.text).slice(-4 * most - 1) + text;
    const letters = Array.from(text.slice(-4 * most - 1)), cut = letters.length > most;
    const tail = letters.slice(-most).join(""), space = tail.search(/\s/);
    return {text: cut && space >= 0 && space < most / 3 ? tail.slice(space + 1) : tail, cut};
  }

  /** The last token of the text before a pass: its first row. */
  function rootOf(log, laneIndex, stepIndex) {
    for (let i = stepIndex - 1; i >= 0; i--) {
      const {pieces} = log.lanes[laneIndex].steps[i];
      if (pieces.length) return pieces[pieces.length - 1];
    }
    const {pieces, text} = log.header.prompt;
    return pieces && pieces.length ? pieces[pieces.length - 1] : (String(text).match(/\s?\S*$/) || [""])[0];
  }

  // ---------------------------------------------------------------- the draft as an outline

  const branches = draft => new Set(draft.parents).size < draft.parents.length;
  const tested = draft => draft.tokens.length - (draft.window || 0);

  /** The rows that were there to be tested, elder branches first and whole: [{row, depth, guide}]. `guide` draws the tree. */
  function outline(draft) {
    const below = new Map();
    for (let row = 0; row < tested(draft); row++) {
      const parent = draft.parents[row];
      if (!below.has(parent)) below.set(parent, []);
      below.get(parent).push(row);
    }
    const forks = [...below.values()].some(rows => rows.length > 1), list = [], stack = [];
    const push = (parent, depth, before) => {
      const rows = below.get(parent) || [];
      rows.map((row, i) => ({row, depth, before, last: i === rows.length - 1})).reverse().forEach(entry => stack.push(entry));
    };
    push(-1, 1, "");
    while (stack.length) {
      const {row, depth, before, last} = stack.pop();
      list.push({row, depth, guide: forks ? `${before}${last ? "└ " : "├ "}` : ""});
      push(row, depth + 1, before + (last ? "  " : "│ "));
    }
    return {rows: list, branches: forks};
  }

  /** What became of a row: accepted, rejected, passed (a sibling stood), ended (the text did), unreached. */
  function fateOf(step, row) {
    const {parents} = step.draft, status = step.statuses[row], parent = parents[row];
    if (status === "accepted" || status === "rejected") return status;
    if (parent >= 0 && step.statuses[parent] !== "accepted") return "unreached";
    return step.path.some(other => parents[other] === parent) ? "passed" : "ended";
  }
  const FATES = {accepted: {sign: "✓", words: "accepted"}, rejected: {sign: "✕", words: "rejected"},
                 passed: {sign: "–", words: "not tested: another branch stood"}, ended: {sign: "–", words: "not tested: the text ended"},
                 unreached: {sign: "○", words: "never reached: the token before it fell"}};

  // ---------------------------------------------------------------- the places where a token was settled

  /** One entry per emitted token that was settled by a test: the refusals there, then the test that settled it. */
  function placesOf(step) {
    const places = [];
    let refused = [];
    for (const test of step.tests) {
      if (test.outcome === "rejected") { refused.push(test); continue; }
      places.push({at: places.length, node: places.length ? step.path[places.length - 1] : -1, refused, settled: test});
      refused = [];
    }
    return places;
  }

  /** The target's favourites at a place, and after them what was drafted or emitted there without being one. */
  function favourites(step, place, rule) {
    const {settled, refused, at, node} = place, own = step.emitted[at], fallen = new Set(refused.map(test => test.token));
    const offered = new Set(step.draft.tokens.filter((_, row) => row < tested(step.draft) && step.draft.parents[row] === node));
    const list = settled.top.map(([id, text, p]) => ({id, text: shown(text), p, favourite: true}));
    const add = (id, text, p) => { if (!list.some(entry => entry.id === id)) list.push({id, text: shown(text), p, favourite: false}); };
    // Under the rejection rule p of a second refusal, and of a correction, belongs to the residual, not to the target.
    refused.forEach((test, i) => add(test.token, step.draft.pieces[test.row], rule === "rejection" && i ? null : test.p));
    if (own !== undefined) add(own, step.pieces[at], rule === "rejection" && refused.length ? null : settled.p);
    return list.map(entry => ({...entry, drafted: offered.has(entry.id), refused: fallen.has(entry.id), emitted: entry.id === own}));
  }

  /** What max(0, p - q) leaves of the favourites, as far as it was recorded: q is known for the tested token only, so for
      the others it is known to lie between `low` and `high`. Null where nothing was refused by a draw. */
  function residualOf(place, list, rule) {
    const {refused, settled} = place;
    if (rule !== "rejection" || !refused.length || refused.some(test => test.p == null || test.q == null)) return null;
    const exact = refused.every(test => test.q === 1), single = refused.length === 1;
    const bound = entry => entry.refused ? {low: 0, high: 0} : entry.p == null || !(exact || single) ? null
      : {low: exact ? entry.p : Math.max(0, entry.p - (1 - refused[0].q)), high: entry.p};
    const left = exact ? refused.reduce((rest, test) => rest * (1 - test.p), 1) : null;
    const known = exact ? `The drafter put all of q on what was refused, so the others keep their p: ${chance(left)} in all.`
      : single ? `q was recorded for the refused token only, ${chance(refused[0].q)}. Of any other at least p − ${chance(1 - refused[0].q)} is left (solid) and at most p (dashed).`
      : "After more than one refusal the rest was not recorded.";
    return {exact, left, share: settled.outcome === "correction" ? settled.p : null, known, rows: list.map(bound)};
  }

  // ---------------------------------------------------------------- time

  /** Seconds of a pass of so many rows: straight lines between the measured points and past the last. */
  function costOf(costs, rows) {
    if (!costs || !costs.rows || !costs.rows.length || costs.rows.length !== costs.seconds.length) return null;
    const {rows: xs, seconds: ys} = costs;
    if (xs.length === 1 || rows <= xs[0]) return ys[0];
    let i = xs.findIndex((x, j) => j > 0 && rows <= x);
    if (i < 0) i = xs.length - 1;
    return ys[i - 1] + (rows - xs[i - 1]) / (xs[i] - xs[i - 1]) * (ys[i] - ys[i - 1]);
  }

  /** What this log calls an ordinary pass: the median target pass of the naive lane, else the measured pass of one row. */
  function ordinaryOf(log) {
    const naive = log.lanes.find(lane => lane.naive), times = (naive ? naive.steps : []).filter(step => step.kind === "verify").map(step => step.verify_s);
    if (times.length) {
      times.sort((a, b) => a - b);
      const half = times.length >> 1, seconds = times.length % 2 ? times[half] : (times[half - 1] + times[half]) / 2;
      if (seconds > 0) return {seconds, words: `the median target pass of the naive lane (${many(times.length, "pass")})`};
    }
    const seconds = costOf(log.header.costs, 1);
    return seconds > 0 ? {seconds, words: "a pass of 1 row, as measured before the race"} : null;
  }

  function timeOf(log, lane, step) {
    const {propose_s, verify_s, other_s} = step, total = propose_s + verify_s + other_s, prefill = step.kind === "prefill";
    const draft = {kind: "draft", name: prefill ? "drafter reads" : "draft", seconds: propose_s};
    const verify = {kind: "verify", name: prefill ? "target reads" : "verify", seconds: verify_s};
    const other = {kind: "other", name: "sample + engine", seconds: other_s};
    const parts = lane.opaque && !prefill ? [{...verify, name: "the pass with its drafting", seconds: total}]
      : lane.naive ? [verify, {...other, seconds: propose_s + other_s}] : prefill ? [draft, verify] : [draft, verify, other];
    if (prefill) return {parts, total, ordinary: null, ratio: null, sentence: "", sum: "", basis: "", rows: ""};
    const ordinary = ordinaryOf(log), ratio = ordinary && total / ordinary.seconds;
    const emitted = many(step.emitted.length, "token");
    const sentence = ratio === null ? `This pass took ${ms(total)} and emitted ${emitted}.`
      : `This pass cost ${three(ratio)} ordinary ${three(ratio) === "1.00" ? "pass" : "passes"} and emitted ${emitted}.`;
    const terms = parts.map(part => three(part.seconds * 1000));
    const sum = ratio === null ? "" : `${terms.length > 1 ? `(${terms.join(" + ")})` : terms[0]} ms / ${ms(ordinary.seconds)} = ${three(ratio)}`;
    return {parts, total, ordinary, ratio, sentence, sum, basis: ordinary ? `An ordinary pass is ${ordinary.words}: ${ms(ordinary.seconds)}.` : "",
            rows: lane.opaque ? "" : rowsWords(log, step)};
  }

  function rowsWords(log, step) {
    const {draft} = step, rows = 1 + draft.tokens.length, cost = costOf(log.header.costs, rows), one = costOf(log.header.costs, 1);
    const made = [draft.tokens.length && "1", tested(draft) && `${tested(draft)} drafted`, draft.window && `${draft.window} in the window`].filter(Boolean);
    const count = `${many(rows, "row")}${made.length ? ` (${made.join(" + ")})` : ""}`;
    if (!(one > 0)) return `The pass had ${count}.`;
    const times = rows > 1 ? `, ${three(cost / one)} times ${ms(one)} for 1 row${branches(draft) ? ", before what branching adds" : ""}` : "";
    return `${count} in the target’s pass; the cost curve measured before the race puts ${rows === 1 ? "that" : "so many"} at ${ms(cost)}${times}.`;
  }

  // ---------------------------------------------------------------- a pass

  const KIND = (lane, step) => step.kind === "prefill" ? "prefill" : lane.opaque ? "opaque" : tested(step.draft) ? "drafted" : "plain";

  /** Everything the inspector shows of a pass; null where there is none. */
  function passOf(log, laneIndex, stepIndex) {
    const lane = log.lanes[laneIndex], step = lane && lane.steps[stepIndex];
    if (!step) return null;
    const rule = log.header.settings.rule, kind = KIND(lane, step), says = P.describePass(log, laneIndex, stepIndex);
    const cut = kind === "prefill" ? lane.name.length : says.lead.indexOf(":");
    const draft = outline(step.draft), places = placesOf(step);
    const root = rootOf(log, laneIndex, stepIndex);
    return {
      kind, rule, method: shown(lane.name), title: kind === "prefill" ? "the prompt" : says.lead.slice(0, cut), lead: says.lead.slice(cut + 2), said: quote(says.said), tail: says.tail,
      naive: lane.naive, context: contextOf(log, laneIndex, stepIndex), branches: draft.branches, window: step.draft.window || 0, pooled: Boolean(step.draft.births && step.draft.births.length),
      rows: draft.rows.map(entry => ({...entry, ...rowOf(step, entry.row, places)})), own: ownOf(step, places),
      emitted: step.pieces.map((piece, i) => ({text: shown(piece), origin: step.origins[i]})),
      places: places.map(place => {
        const list = favourites(step, place, rule);
        return {...place, after: shown(place.at ? step.pieces[place.at - 1] : root), text: shown(step.pieces[place.at] || ""),
                origin: step.origins[place.at], list, entropy: bits(place.settled.entropy), residual: residualOf(place, list, rule)};
      }),
      time: timeOf(log, lane, step), previous: stepIndex > 0, next: stepIndex + 1 < lane.steps.length,
    };
  }

  function rowOf(step, row, places) {
    const {draft} = step, place = places.find(({refused, settled}) => settled.row === row || refused.some(test => test.row === row));
    const test = place ? [...place.refused, place.settled].find(one => one.row === row) : null, fate = fateOf(step, row);
    const claim = draft.chances && draft.chances.length ? draft.chances[row] : null;
    const before = !test ? 0 : test === place.settled ? place.refused.length : place.refused.indexOf(test);
    return {text: shown(draft.pieces[row]), source: draft.sources[row] ? shown(draft.sources[row]) : null, claim, fate, ...FATES[fate],
            emitted: step.path.indexOf(row), place: place ? place.at : -1, ...numbersOf(test), later: before > 0,
            wanted: place ? shown(step.pieces[place.at] || "") : null};
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
    const place = places[at], {p, draw} = numbersOf(place && place.settled);
    return {at, text: shown(step.pieces[at]), origin: step.origins[at], p, draw, later: Boolean(place && place.refused.length)};
  }

  // ---------------------------------------------------------------- a token

  /** What the card of one token shows. `part` is {kind, row, emitted}; a ghost is still waiting for the target. */
  function tokenOf(log, laneIndex, stepIndex, part) {
    const pass = passOf(log, laneIndex, stepIndex), lane = log.lanes[laneIndex], step = lane && lane.steps[stepIndex];
    if (!pass) return null;
    const {kind} = part, row = part.row >= 0 ? part.row : part.emitted >= 0 && part.emitted < step.path.length ? step.path[part.emitted] : -1;
    const emitted = part.emitted >= 0 ? part.emitted : row >= 0 ? step.path.indexOf(row) : -1;
    const found = row >= 0 ? pass.rows.find(entry => entry.row === row) : null, ghost = kind === "ghost";
    const own = emitted >= 0 && step.origins[emitted] !== "accepted", at = ghost ? -1 : emitted >= 0 ? emitted : found ? found.place : -1;
    const place = at >= 0 ? pass.places[at] || null : null, named = emitted >= 0 || row >= 0;
    const numbers = ghost ? {} : found || (own && pass.own) || {}, or = (value, other) => value == null ? other : value;
    return {
      title: step.kind === "prefill" ? "the prompt" : `pass ${lane.passes[stepIndex]}`, method: pass.method, rule: pass.rule,
      text: emitted >= 0 ? shown(step.pieces[emitted]) : found ? found.text : null, source: found ? found.source : null,
      claim: found ? found.claim : null, p: or(numbers.p, null), q: or(numbers.q, null), draw: or(numbers.draw, null),
      until: or(numbers.until, null), later: Boolean(numbers.later),
      fate: ghost ? "ghost" : found ? found.fate : own ? step.origins[emitted] : named ? "accepted" : "none",
      outcome: ghost ? {words: "drafted; the target has not looked at it yet", said: null, tail: ""}
        : named ? outcomeOf(found, own, pass, emitted, lane) : {words: pass.lead, said: pass.said, tail: pass.tail},
      list: place ? place.list : [], entropy: place ? place.entropy : null,
    };
  }

  /** What became of a token: {words, said, tail}; `said` is model text and must be shown as a quotation. */
  function outcomeOf(found, own, pass, emitted, lane) {
    const drew = pass.rule === "rejection", say = (words, said = null) => ({words, said, tail: ""});
    if (found && found.fate === "rejected") return drew ? say("rejected by the draw") : say("rejected: the target’s choice is ", quote(found.wanted));
    if (found) return say(found.fate !== "accepted" ? found.words : drew ? "accepted by the draw" : "accepted: the target’s choice too");
    if (!own) return say("accepted; what else was drafted this lane does not tell");
    if (pass.own.origin === "correction") return say(drew ? "the target’s own, drawn from what the refusal left" : "the target’s own, in place of what was refused");
    return say(lane.naive || pass.kind === "plain" ? "the target’s own: nothing was drafted" : "the target’s own, one more after all that stood");
  }

  return {shown, quote, chance, three, ms, many, contextOf, rootOf, tested, outline, fateOf, FATES, placesOf, costOf, ordinaryOf, timeOf, passOf, tokenOf};
})();
