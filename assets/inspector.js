/* inspector.js: the pass inspector, and the card of one token, on the page.

   What it is.  `create({close, go})` makes the panel; `show(log, lane, step)` fills it with one pass, left to right as it
   happened: the last words, the draft, the target's p, the test, what was emitted; under it the target's favourites at
   each place and the time. `card(log, lane, step, part)` makes the small card of one token.

   Why it is so.  A pass is a table: one line a drafted row, one column a stage. A tree is the same table with an outline
   in its first column. Every state has a sign and a word beside its colour. The buttons stay while the pass under them
   changes, so that the keyboard keeps its place.

   What it does not know.  How a pass came to be what it is: all it shows comes from inspect.js. Model text is untrusted:
   it enters the page through text nodes, each isolated in a bdi. */

const lookaheadInspector = (() => {
  "use strict";
  const I = lookaheadInspect, {make} = lookaheadLane;

  // ---------------------------------------------------------------- small parts

  /** A token as text: its spaces kept, its direction its own. */
  const token = (text, kind = "") => make("bdi", `la-i-token${kind ? ` la-i-${kind}` : ""}`, {}, text);
  const sign = name => make("span", "la-i-sign", {"aria-hidden": "true"}, name);
  const unseen = text => make("span", "la-i-unseen", {}, text);
  const heading = text => make("h4", "la-i-heading", {}, text);
  const quoted = ({words, said, tail}) => said === null ? [words + tail] : [words, "“", token(said, "said"), "”", tail];

  /** A bar from 0 to 1; `dashed` goes on to where it might reach. Its number stands beside it in words. */
  function bar(share, kind, dashed) {
    const box = make("span", "la-i-bar", {"aria-hidden": "true"}), part = (width, name) => {
      const inner = make("span", name);
      inner.style.width = `${(Math.max(0, Math.min(1, width)) * 100).toFixed(2)}%`;
      return inner;
    };
    box.append(part(share, `la-i-fill la-i-${kind}`));
    if (dashed > share) box.append(part(dashed - share, "la-i-maybe"));
    return box;
  }

  const cell = (name, ...children) => make("td", `la-i-col-${name}`, {}, ...children);
  const ROLES = [["thead, tbody", "rowgroup"], ["tr", "row"], ["td", "cell"], ["th[scope=col]", "columnheader"], ["th[scope=row]", "rowheader"]];
  function table(className, label, heads, rows) {
    const head = make("tr", "", {}, ...heads.map(text => make("th", "", {scope: "col"}, text)));
    const node = make("table", className, {"aria-label": label}, make("thead", "", {}, head), make("tbody", "", {}, ...rows));
    // The style sheet lays tables out anew on a phone; said outright, their roles survive that.
    for (const [part, role] of ROLES) for (const each of node.querySelectorAll(part)) each.setAttribute("role", role);
    node.setAttribute("role", "table");
    return node;
  }

  // ---------------------------------------------------------------- the test of a row

  /** The draws that accept, 0 to min(1, p/q), and the draw as a dot. */
  function draws(until, draw) {
    const box = make("span", "la-i-draws", {"aria-hidden": "true"}), zone = make("span", "la-i-zone"), dot = make("span", "la-i-dot");
    zone.style.width = `${(until * 100).toFixed(2)}%`;
    dot.style.left = `${(Math.max(0, Math.min(1, draw)) * 100).toFixed(2)}%`;
    box.append(zone, dot);
    return box;
  }

  function drawWords({fate, draw, until}) {
    if (draw === null || until === null) return fate;
    const same = I.chance(draw) === I.chance(until), limit = until < 1 ? `p/q ${I.chance(until)}` : "1 (p is at least q)";
    return fate === "accepted" ? `draw ${I.chance(draw)}, ${same ? "just under" : "below"} ${limit}: accepted`
      : `draw ${I.chance(draw)}, ${same ? "just above" : "not below"} ${limit}: rejected`;
  }

  function testOf(row, rule) {
    if (row.fate !== "accepted" && row.fate !== "rejected") return [sign(row.sign), row.words];
    if (rule === "rejection") {
      const bars = row.until === null || row.draw === null ? [] : [draws(row.until, row.draw)];
      return [...bars, make("span", "la-i-words", {}, sign(row.sign), drawWords(row))];
    }
    if (row.fate === "accepted") return [sign("="), "equal: accepted"];
    return [sign("≠"), "not equal: ", ...(row.wanted === null ? ["rejected"] : ["the target wants ", token(row.wanted)])];
  }

  function ownTest(own, rule) {
    if (rule === "rejection" && own.draw !== null) {
      return [own.later ? "drawn from what is left" : "drawn from p", ` (draw ${I.chance(own.draw)})`];
    }
    return [own.origin === "correction" ? "the target’s own, a correction" : "the target’s own, a bonus"];
  }

  // ---------------------------------------------------------------- the figure: left to right

  function flow(pass) {
    const drawn = pass.rule === "rejection", claims = pass.rows.some(row => row.claim !== null);
    const numbered = (value, text) => drawn || claims ? [cell("q", text === undefined ? I.chance(value) : text)] : [];   // no column for what no drafter said
    const lines = pass.rows.map(row => make("tr", `la-i-row la-i-is-${row.fate}`, {},
      make("th", "la-i-drafted", {scope: "row"}, make("span", "la-i-guide", {"aria-hidden": "true"}, row.guide), ...(row.guide ? [unseen(`depth ${row.depth}: `)] : []), sign(row.sign), token(row.text, row.fate)),
      ...numbered(drawn ? row.q : row.claim),
      cell("p", I.chance(row.p), ...(drawn && row.later ? [make("span", "la-i-star", {}, "*")] : [])),
      cell("test", ...testOf(row, pass.rule)),
      cell("emitted", ...(row.emitted >= 0 ? [token(pass.emitted[row.emitted].text, "accepted")] : [unseen("nothing")]))));
    if (pass.own) {
      const {own} = pass;
      lines.push(make("tr", "la-i-row la-i-is-own", {}, make("th", "la-i-drafted", {scope: "row"}, unseen("not drafted")), ...numbered(null, ""),
        cell("p", I.chance(own.p), ...(drawn && own.later ? [make("span", "la-i-star", {}, "*")] : [])), cell("test", ...ownTest(own, pass.rule)), cell("emitted", token(own.text, "own"))));
    }
    const heads = ["drafted", ...(drawn ? ["drafter’s q"] : claims ? ["drafter’s claim"] : []), "target’s p", drawn ? "draw below p/q?" : "the target’s choice", "emitted"];
    const notes = [
      drawn && [...pass.rows, pass.own || {}].some(one => one.later && one.p !== null) && "* in what the refusal before it left",
      !drawn && !claims && "This drafter makes no claim about how sure it is.",
      pass.rule === "coupled" && "The choice is made with the noise shared at each place, so it need not be the likeliest token.",
    ].filter(Boolean);
    return make("div", "la-i-flow", {}, context(pass),
      make("div", "la-i-scroll", {role: "region", tabindex: "0", "aria-label": "Draft, test and result, left to right"}, table(`la-i-table${drawn || claims ? "" : " la-i-unclaimed"}`, "Drafted rows, their tests, and what was emitted", heads, lines),
           ...notes.map(note => make("p", "la-i-small", {}, note))));
  }

  function context(pass) {
    const {text, cut} = pass.context;
    return make("div", "la-i-context", {}, make("span", "la-i-label", {}, "the text so far"),
                make("p", "", {dir: "auto"}, cut ? "…" : "", make("bdi", "", {}, text || "nothing yet")));
  }

  /** The short form: the words before, and what was added. */
  function plain(pass) {
    const kinds = {accepted: "accepted", correction: "own", bonus: pass.kind === "opaque" ? "own" : "plain"};
    const words = {accepted: "accepted", correction: "the target’s own", bonus: "the target’s own"};
    const items = pass.emitted.map(({text, origin}) => make("li", "", {}, token(text, kinds[origin]), make("span", "la-i-small", {}, words[origin])));
    return make("div", "la-i-flow", {}, context(pass), make("div", "la-i-emitted", {}, make("span", "la-i-label", {}, "emitted"), make("ul", "", {}, ...items),
      ...(pass.kind === "opaque" ? [make("p", "la-i-small", {}, "This way of decoding tells what it emitted, and nothing of what it drafted or tested.")] : [])));
  }

  // ---------------------------------------------------------------- the target's favourites

  function place(spot, pass) {
    const {residual} = spot, own = pass.kind === "plain" ? "plain" : "own", rows = spot.list.map((entry, i) => {
      const kind = entry.emitted ? spot.origin === "accepted" ? "accepted" : own : entry.refused ? "rejected" : entry.drafted ? "ghost" : "";
      const word = entry.emitted ? "emitted" : entry.refused ? "refused" : entry.drafted ? "drafted" : "";
      const left = residual && residual.rows[i];
      const shown = left && left.low !== left.high ? `${I.chance(left.low)} to ${I.chance(left.high)}` : left ? I.chance(left.low) : "—";
      return make("tr", entry.emitted ? "la-i-chosen" : "", {},
        make("th", "", {scope: "row"}, token(entry.text, kind)), make("td", "", {}, bar(entry.p || 0, "p"), I.chance(entry.p)),
        ...(residual ? [make("td", "", {}, bar(left ? left.low : 0, "left", left ? left.high : 0), shown)] : []), make("td", "la-i-word", {}, word));
    });
    const box = make("div", `la-i-place${residual ? " la-i-wide" : ""}`, {}, make("p", "la-i-after", {}, make("span", "la-i-small", {}, `${spot.at + 1}. after `), token(spot.after)));
    if (rows.length) box.append(table("la-i-favourites", `The target’s favourites at place ${spot.at + 1}`, ["token", "p", ...(residual ? ["left: max(0, p − q)"] : []), unseen("what it was")], rows));
    const notes = [spot.list.some(entry => entry.favourite) ? null : "Its favourites were not recorded.", spot.entropy && `entropy ${spot.entropy}`, residual && residual.known];
    box.append(...notes.filter(Boolean).map(note => make("p", "la-i-small", {}, note)));
    if (residual && residual.share !== null) box.append(make("p", "la-i-small", {}, token(I.quote(spot.text), "said"), ` was drawn with ${I.chance(residual.share)} of what is left.`));
    return box;
  }

  // ---------------------------------------------------------------- time

  function timeBar(time) {
    const longest = Math.max(time.total, time.ordinary ? time.ordinary.seconds : 0) || 1;
    const piece = (kind, seconds) => { const span = make("span", `la-i-span la-i-${kind}`); span.style.width = `${(seconds / longest * 100).toFixed(3)}%`; return span; };
    const words = time.parts.map(({name, seconds}) => `${name} ${I.ms(seconds)}`);
    const line = (label, text, ...pieces) => make("div", "la-i-timeline", {role: "img", "aria-label": text}, make("span", "la-i-label", {}, label), make("span", "la-i-time", {}, ...pieces));
    const box = make("div", "la-i-timebox", {}, line("this pass", `This pass: ${words.join(", ")}`, ...time.parts.map(({kind, seconds}) => piece(kind, seconds))));
    if (time.ordinary) box.append(line("ordinary", `An ordinary pass: ${I.ms(time.ordinary.seconds)}`, piece("ordinary", time.ordinary.seconds)));
    box.append(make("ul", "la-i-key", {}, ...time.parts.map(({kind, name, seconds}) => make("li", "", {}, make("span", `la-i-swatch la-i-${kind}`, {"aria-hidden": "true"}), `${name} ${I.ms(seconds)}`))));
    if (time.sentence) box.append(make("p", "la-i-cost", {}, time.sentence, ...(time.sum ? [" ", make("span", "la-i-sum", {}, time.sum)] : [])));
    for (const note of [time.basis, time.rows]) if (note) box.append(make("p", "la-i-small", {}, note));
    return box;
  }

  // ---------------------------------------------------------------- the panel

  function body(pass, log, laneIndex, stepIndex, go) {
    const parts = [];
    if (pass.kind === "prefill") parts.push(make("p", "la-i-note", {}, "The target read all of the prompt but its last token into its cache, and emitted nothing. The race does not put this on the clock."));
    else parts.push(pass.kind === "drafted" ? flow(pass) : plain(pass));
    if (pass.places.length) parts.push(heading("What the target thought"), make("div", "la-i-places", {}, ...pass.places.map(spot => place(spot, pass))));
    if (pass.window || pass.pooled) parts.push(lookaheadMicroscope.view(log, laneIndex, stepIndex, go));
    return [...parts, heading("Time"), timeBar(pass.time)];
  }

  /** The panel. `close()` is called when the reader closes it, `go(lane, step)` when another pass is wanted. */
  function create({close, go}) {
    const title = make("h3", "la-i-title", {tabindex: "-1"}), says = make("p", "la-i-says"), inside = make("div", "la-i-body");
    const button = (label, text) => make("button", "la-button", {type: "button", "aria-label": label}, text);
    const back = button("Previous pass of this lane", "← previous"), next = button("Next pass of this lane", "next →"), shut = button("Close the inspector", "close");
    const node = make("section", "la-inspector la-i", {"aria-label": "Pass inspector", hidden: ""},
      make("div", "la-i-head", {}, make("div", "la-i-says-box", {}, title, says), make("div", "la-i-buttons", {role: "group", "aria-label": "Passes"}, back, next, shut)), inside);
    let at = null, drawn = "", from = null;

    function show(log, laneIndex, stepIndex) {
      const pass = I.passOf(log, laneIndex, stepIndex);
      if (!pass) { hide(); return; }
      at = {laneIndex, stepIndex, pass};
      // The pass after this one tells what the target said at the window; the end tells how many passes there are.
      const key = [log.run, laneIndex, stepIndex, pass.next, pass.title].join("/");
      if (key !== drawn) {
        drawn = key;
        title.replaceChildren(make("bdi", "", {}, pass.method), `: ${pass.title}`);
        says.replaceChildren(...quoted({words: pass.lead, said: pass.said, tail: pass.tail}));
        inside.replaceChildren(...body(pass, log, laneIndex, stepIndex, go));
        // Not `disabled`: a button that turns disabled under the reader's finger throws the focus away.
        back.setAttribute("aria-disabled", String(!pass.previous));
        next.setAttribute("aria-disabled", String(!pass.next));
      }
      if (!node.hidden) return;
      from = document.activeElement;
      node.hidden = false;
      node.scrollIntoView({block: "nearest"});
      title.focus({preventScroll: true});
    }

    function hide() {
      if (node.hidden) return;
      const held = node.contains(document.activeElement);
      node.hidden = true;
      at = null;
      drawn = "";
      if (held && from && from.isConnected) from.focus();
      from = null;
    }

    const step = direction => { if (at && at.pass[direction > 0 ? "next" : "previous"]) go(at.laneIndex, at.stepIndex + direction); };
    const leave = () => { hide(); close(); };
    back.addEventListener("click", () => step(-1));
    next.addEventListener("click", () => step(1));
    shut.addEventListener("click", leave);
    node.addEventListener("keydown", event => {
      if (event.key !== "Escape" || event.defaultPrevented) return;
      event.preventDefault();
      event.stopPropagation();
      leave();
    });
    return {node, show, hide};
  }

  // ---------------------------------------------------------------- the card of one token

  const SIGNS = {accepted: "✓", rejected: "✕", correction: "→", bonus: "+", ghost: "…", unreached: "○", passed: "–", ended: "–"};

  /** What pointing at one token shows: a detached element. */
  function card(log, laneIndex, stepIndex, part) {
    const one = I.tokenOf(log, laneIndex, stepIndex, part), node = make("div", "la-card la-i");
    if (!one) return node;
    const plain = log.lanes[laneIndex].naive;
    const kind = one.fate === "correction" || one.fate === "bonus" ? plain ? "plain" : "own" : one.fate;
    node.append(make("p", "la-i-cardhead", {}, ...(one.text === null ? [] : [token(one.text, kind)]), make("span", "la-i-small", {}, `${one.title}, `, make("bdi", "", {}, one.method))),
                make("p", "la-i-outcome", {}, ...(SIGNS[one.fate] ? [sign(SIGNS[one.fate])] : []), ...quoted(one.outcome)));
    const facts = [["drafted by", one.source], ["its claim", one.claim], [one.later && one.rule === "rejection" ? "p in what was left" : "target’s p", one.p], ["drafter’s q", one.q], ["p/q", one.q === null ? null : one.until], ["draw", one.draw]]
      .filter(([, value]) => value !== null).map(([name, value]) => [name, typeof value === "number" ? I.chance(value) : value]);
    if (facts.length) node.append(make("dl", "la-i-facts", {}, ...facts.map(([name, value]) => make("div", "", {}, make("dt", "", {}, name), make("dd", "", {}, make("bdi", "", {}, value))))));
    const list = one.list.filter(entry => entry.favourite);
    if (list.length) {
      node.append(table("la-i-favourites", "The target’s favourites here", ["target’s favourites", "p"], list.map(entry => make("tr", entry.emitted ? "la-i-chosen" : "", {},
        make("th", "", {scope: "row"}, token(entry.text), ...(entry.emitted ? [unseen(" (emitted)")] : [])), make("td", "", {}, bar(entry.p, "p"), I.chance(entry.p))))));
    }
    if (one.entropy) node.append(make("p", "la-i-small", {}, `entropy ${one.entropy}`));
    return node;
  }

  return {create, card, token, sign, unseen, heading, table};
})();
