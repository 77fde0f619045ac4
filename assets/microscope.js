/* microscope.js: the window of lookahead decoding on the page: the grid, the n-grams that were tried, the mask.

   What it is.  `view(log, lane, step, go)` makes the part of the inspector that a pass with a window, or with n-grams of
   one, has. Birthplaces are buttons: `go(lane, step)` opens the pass an n-gram was born in. The mask is one picture that a
   pointer or the arrow keys walk over; a line of text says what the row there is and whom it may see.

   Why it is so.  The mask is drawn as three paths, not as a cell each, and read by one line of text, so that it costs
   little and says to the keyboard and to a screen reader what it shows to the eye.

   What it does not know.  How levels, columns and births follow from a draft: that is jacobi.js's business. */

const lookaheadMicroscope = (() => {
  "use strict";
  const I = lookaheadInspect, J = lookaheadJacobi, {make} = lookaheadLane, {token, sign, unseen, heading, table} = lookaheadInspector;
  const MOST = 60, TEXT = 2;               // rows of the mask drawn; columns that stand for the cached text

  // ---------------------------------------------------------------- the grid

  const HOW = {
    opened: "The window opens: one level of tokens picked at random from the text.",
    restarted: "The window rested and opens again with its oldest level.",
    grew: "The window is filling: what the target said in the pass before became its newest level.",
    moved: "Since the pass before every level moved up one: the oldest left, what the target said then became the newest.",
  };

  function grid(view) {
    const cells = level => level.map(cell => make("td", cell.settled ? "la-m-settled" : "", {}, token(cell.text), ...(cell.settled ? [sign("="), unseen(" unchanged")] : [])));
    const last = view.levels.length - 1, lines = view.levels.map((level, l) => {
      const age = last === 0 ? "" : l === 0 ? "oldest" : l === last ? "newest" : "";
      return make("tr", "", {}, make("th", "", {scope: "row"}, `level ${l + 1}`, ...(age ? [make("span", "la-i-word", {}, age)] : [])), ...cells(level));
    });
    if (view.said) lines.push(make("tr", "la-m-said", {}, make("th", "", {scope: "row"}, "said now"), ...cells(view.said)));
    const columns = Array.from({length: view.columns}, (_, c) => `column ${c + 1}`);
    const said = view.said === null ? "What the target said at the newest level is not known: no pass with a window follows."
      : view.full ? "“Said now” is the target’s answer under the newest level. Each column, read down to it, went into the pool as one n-gram."
      : "“Said now” is the target’s answer under the newest level; it becomes the next one.";
    return make("div", "la-m-part la-m-gridpart", {}, heading(`The window: ${I.many(view.columns, "column")}, ${I.many(view.levels.length, "level")}`),
      make("p", "la-i-small", {}, HOW[view.moved]),
      make("div", "la-i-scroll", {role: "region", tabindex: "0", "aria-label": "Window of guesses"}, table("la-m-grid", "Window: levels down, columns across", [unseen("level"), ...columns], lines)),
      make("p", "la-i-small", {}, "Level l, column c guesses the token l + c − 1 places ahead. ", make("b", "", {}, "="), " marks a guess that the iteration before had made for the same place (one level up, one column right): it is settling."),
      make("p", "la-i-small", {}, said));
  }

  // ---------------------------------------------------------------- the n-grams

  function birthplace(birth, lane, go) {
    if (birth.kind === "unknown") return ["not recorded"];
    if (birth.kind === "prompt") return ["from the prompt"];
    const words = `pass ${birth.pass}, column ${birth.column}`;
    if (birth.step < 0) return [words];
    const link = make("button", "la-button la-m-birth", {type: "button", "aria-label": `Open ${words}, where this n-gram was born`}, words);
    link.addEventListener("click", () => go(lane, birth.step));
    return [link];
  }

  function tried(view, lane, go) {
    const box = make("div", "la-m-part", {}, heading("N-grams tried from the pool"));
    if (!view.tried.length) { box.append(make("p", "la-i-small", {}, "None: the pool held nothing that begins with the text’s last token, or trying did not pay.")); return box; }
    box.append(table("la-m-tried", "N-grams tried in this pass", [unseen("number"), "n-gram", "born", "outcome"], view.tried.map((gram, i) =>
      make("tr", gram.stood ? "la-m-stood" : "", {}, make("td", "", {}, String(i + 1)),
        make("th", "", {scope: "row"}, token(gram.root, "root"), ...gram.tokens.map(({text, fate}) => token(text, fate))),
        make("td", "", {}, ...birthplace(gram.birth, lane, go)),
        make("td", "", {}, sign(gram.stood ? "✓" : gram.outcome === "refused" ? "✕" : "–"), gram.outcome)))));
    for (const gram of view.tried.filter(({whole}) => whole)) {
      const {kind, pass, column} = gram.birth, n = gram.of + 1;
      if (kind !== "unknown") box.append(make("p", "la-m-told", {}, kind === "prompt" ? `This accepted ${n}-gram came from the prompt.` : `This accepted ${n}-gram was born at pass ${pass}, column ${column}.`));
    }
    return box;
  }

  // ---------------------------------------------------------------- the mask

  function svg(tag, attributes, ...children) {
    const node = document.createElementNS("http://www.w3.org/2000/svg", tag);
    for (const [name, value] of Object.entries(attributes)) node.setAttribute(name, value);
    node.append(...children);
    return node;
  }

  function mask(log, laneIndex, stepIndex) {
    const all = J.maskOf(log, laneIndex, stepIndex), rows = all.slice(0, MOST), n = rows.length, side = n <= 20 ? 16 : n <= 36 ? 10 : 7;
    const at = {row: n - 1, column: -1}, square = (x, y) => `M${(x + TEXT) * side + 0.5} ${y * side + 0.5}h${side - 1}v${side - 1}h${1 - side}z`;
    const paths = {itself: "", tried: "", window: "", text: ""};
    rows.forEach(({sees, group}, y) => {
      paths.text += `M0.5 ${y * side + 0.5}h${TEXT * side - 2}v${side - 1}h${2 - TEXT * side}z`;
      for (const x of sees) if (x < n) paths[x === y ? "itself" : group === "window" ? "window" : "tried"] += square(x, y);
    });
    const breaks = rows.map(({group}, y) => y && group !== rows[y - 1].group ? `M0 ${y * side}H${(n + TEXT) * side}M${(y + TEXT) * side} 0V${n * side}` : "").join("");
    const across = svg("rect", {class: "la-m-band", x: 0, width: (n + TEXT) * side, height: side}), down = svg("rect", {class: "la-m-band", y: 0, height: n * side});
    const picture = svg("svg", {viewBox: `-1 -1 ${(n + TEXT) * side + 2} ${n * side + 2}`, "aria-hidden": "true", class: "la-m-mask"},
      svg("rect", {class: "la-m-ground", x: 0, y: 0, width: (n + TEXT) * side, height: n * side}),
      ...Object.entries(paths).map(([name, d]) => svg("path", {class: `la-m-${name}`, d})), svg("path", {class: "la-m-breaks", d: `${breaks}M${TEXT * side} 0V${n * side}`}), across, down);
    picture.style.width = `${(n + TEXT) * side + 2}px`;
    const line = make("p", "la-m-line", {"aria-live": "polite"});

    function say() {
      const row = rows[at.row], other = at.column < 0 ? null : rows[at.column], visible = !other || row.sees.includes(at.column);
      line.replaceChildren(make("b", "", {}, `row ${at.row}`), `: ${row.name}, `, token(I.quote(row.text), "said"), `; may see: ${J.seesWords(at.row, row.sees)}. `,
        ...(other ? [`Column ${at.column}: ${other.name}, `, token(I.quote(other.text), "said")] : ["The text before it"]), `: ${visible ? "seen" : "hidden"}.`);
      across.setAttribute("y", at.row * side);
      down.setAttribute("x", at.column < 0 ? 0 : (at.column + TEXT) * side);
      down.setAttribute("width", at.column < 0 ? TEXT * side : side);
    }
    function put(row, column) {
      at.row = Math.max(0, Math.min(n - 1, row));
      at.column = Math.max(-1, Math.min(n - 1, column));
      say();
    }

    const field = make("div", "la-m-field", {tabindex: "0", role: "application", "aria-label": `Attention mask, ${I.many(all.length, "row")}: arrow keys choose a row and a column`}, picture);
    field.addEventListener("keydown", event => {
      const move = {ArrowUp: [-1, 0], ArrowDown: [1, 0], ArrowLeft: [0, -1], ArrowRight: [0, 1], Home: [0, -n - 1], End: [0, n + 1]}[event.key];
      if (!move || event.ctrlKey || event.metaKey || event.altKey) return;
      event.preventDefault();
      event.stopPropagation();                              // the arrows step through passes everywhere else
      put(at.row + move[0], at.column + move[1]);
    });
    const point = event => {
      const box = picture.getBoundingClientRect(), scale = (n + TEXT) * side / box.width;
      put(Math.floor((event.clientY - box.top) * scale / side), Math.max(-1, Math.floor((event.clientX - box.left) * scale / side) - TEXT));
    };
    field.addEventListener("pointermove", point);
    field.addEventListener("pointerdown", point);
    say();

    const count = group => all.filter(row => row.group === group).length, grams = count("tried");
    const parts = ["row 0 is the text’s last token", grams && `${grams === 1 ? "row 1 is" : `rows 1 to ${grams} are`} the n-grams`, `rows ${grams + 1} to ${all.length - 1} are the window`].filter(Boolean);
    return make("div", "la-m-part", {}, heading("Who may look at whom"),
      make("p", "la-i-small", {}, `A line is a row of this pass; a filled square is a row it may see; the band at the left is the text before it. ${parts.join(", ")}.`.replace(". row", ". Row"),
           ...(all.length > n ? [` Drawn: the first ${n} of ${all.length} rows.`] : [])),
      field, line);
  }

  /** The microscope of one pass; of a pass whose window rested, the n-grams alone. */
  function view(log, laneIndex, stepIndex, go) {
    const data = J.windowOf(log, laneIndex, stepIndex);
    if (!data) return make("section", "la-microscope", {"aria-label": "N-grams from the pool"}, make("div", "la-m-column", {},
      tried({tried: J.triedOf(log, laneIndex, stepIndex)}, laneIndex, go), make("p", "la-i-small", {}, "The window rests: it cost more than it found. What it left in the pool is still tried.")));
    return make("section", "la-microscope", {"aria-label": "Lookahead window"}, make("div", "la-m-column", {}, grid(data), tried(data, laneIndex, go)), mask(log, laneIndex, stepIndex));
  }

  return {view};
})();
