/* mask.js: the attention mask of a pass as a picture that a pointer or the arrow keys explore. A line of text
   describes the chosen row and column. */

import {make, svg} from "../page/dom.js";
import {count} from "../page/numbers.js";
import {attendsToLabel} from "./jacobi.js";
import {heading, small, token} from "./parts.js";
import {quote} from "./text.js";

const MAX_ROWS = 60; // drawn
const TEXT = 2; // columns that represent the cached text
const KEY_STEPS = {
  ArrowUp: [-1, 0],
  ArrowDown: [1, 0],
  ArrowLeft: [0, -1],
  ArrowRight: [0, 1],
  Home: [0, -Infinity],
  End: [0, Infinity],
};

/** The SVG paths of a mask's squares by meaning; a square has `side` pixels. */
function pathsOf(rows, side) {
  const square = (x, y, width) => `M${x * side + 0.5} ${y * side + 0.5}h${width}v${side - 1}h${-width}z`;
  const paths = {itself: "", tried: "", window: "", text: "", breaks: `M${TEXT * side} 0V${rows.length * side}`};
  rows.forEach(({attendsTo, group}, y) => {
    paths.text += square(0, y, TEXT * side - 2);
    for (const x of attendsTo.filter(row => row < rows.length)) {
      const kind = x === y ? "itself" : group === "window" ? "window" : "tried";
      paths[kind] += square(x + TEXT, y, side - 1);
    }
    if (y && group !== rows[y - 1].group) {
      paths.breaks += `M0 ${y * side}H${(rows.length + TEXT) * side}M${(y + TEXT) * side} 0V${rows.length * side}`;
    }
  });
  return paths;
}

export class Mask {
  #rows;
  #side;
  #row;
  #column = -1; // -1 is the cached text
  #across;
  #down;
  #picture;
  #chosen;
  #line = make("p.la-m-line", {"aria-live": "polite"});

  /** `allRows` are the rows of the mask, as `maskOf` returns them; `at` is the first chosen row. `chosen(row)` is
      called when the reader chooses another row. */
  constructor(allRows, chosen, at = allRows.length - 1) {
    const rows = allRows.slice(0, MAX_ROWS);
    this.#rows = rows;
    this.#chosen = chosen;
    this.#row = Math.min(at, rows.length - 1);
    this.#side = rows.length <= 20 ? 16 : rows.length <= 36 ? 10 : 7;
    this.#picture = this.#draw();
    const label = `Attention mask, ${count(allRows.length, "row")}: arrow keys choose a row and a column`;
    const field = make("div.la-m-field", {tabindex: "0", role: "application", "aria-label": label}, this.#picture);
    field.addEventListener("keydown", event => this.#press(event));
    field.addEventListener("pointermove", event => this.#point(event));
    field.addEventListener("pointerdown", event => this.#point(event));
    this.#describe();
    this.node = make("div.la-m-part", heading("Attention mask"), small(legendOf(allRows)), field, this.#line);
  }

  #draw() {
    const side = this.#side;
    const height = this.#rows.length * side;
    const width = height + TEXT * side;
    const paths = Object.entries(pathsOf(this.#rows, side));
    this.#across = svg("rect", {class: "la-m-band", x: 0, width, height: side});
    this.#down = svg("rect", {class: "la-m-band", y: 0, height});
    const picture = svg(
      "svg",
      {viewBox: `-1 -1 ${width + 2} ${height + 2}`, "aria-hidden": "true", class: "la-m-mask"},
      svg("rect", {class: "la-m-ground", x: 0, y: 0, width, height}),
      ...paths.map(([name, d]) => svg("path", {class: `la-m-${name}`, d})),
      this.#across,
      this.#down,
    );
    picture.style.width = `${width + 2}px`;
    return picture;
  }

  #press(event) {
    const move = KEY_STEPS[event.key];
    if (!move || event.ctrlKey || event.metaKey || event.altKey) return;
    event.preventDefault();
    event.stopPropagation(); // the arrows step through passes everywhere else
    this.#put(this.#row + move[0], this.#column + move[1]);
  }

  #point(event) {
    const box = this.#picture.getBoundingClientRect();
    const square = box.width / (this.#rows.length + TEXT); // pixels on the screen
    const column = Math.floor((event.clientX - box.left) / square) - TEXT;
    this.#put(Math.floor((event.clientY - box.top) / square), column);
  }

  #put(row, column) {
    const last = this.#rows.length - 1;
    this.#row = Math.max(0, Math.min(last, row));
    this.#column = Math.max(-1, Math.min(last, column));
    this.#describe();
    this.#chosen(this.#row);
  }

  /** Describe the row and the column, and whether the row attends to the column. */
  #describe() {
    const row = this.#rows[this.#row];
    const other = this.#rows[this.#column];
    const isAttended = !other || row.attendsTo.includes(this.#column);
    const column = other ? [`Column ${this.#column}: ${other.name}, `, token(quote(other.text), "quoted")] : [];
    this.#line.replaceChildren(
      make("b", `row ${this.#row}`),
      `: ${row.name}, `,
      token(quote(row.text), "quoted"),
      `; attends to: ${attendsToLabel(this.#row, row.attendsTo)}. `,
      ...(other ? column : ["The text before it"]),
      `: ${isAttended ? "attended to" : "masked"}.`,
    );
    this.#across.setAttribute("y", this.#row * this.#side);
    this.#down.setAttribute("x", other ? (this.#column + TEXT) * this.#side : 0);
    this.#down.setAttribute("width", other ? this.#side : TEXT * this.#side);
  }
}

/** ["rows 1 to 4 are the draft"], or [] for no rows. */
function rowsAre(first, last, name) {
  if (last < first) return [];
  return [first === last ? `row ${first} is ${name}` : `rows ${first} to ${last} are ${name}`];
}

function legendOf(allRows) {
  const last = allRows.length - 1;
  const before = allRows.filter(row => row.group !== "window").length - 1; // the last row before the window
  const isWindow = before < last;
  const parts = [
    "Row 0 is the text’s last token",
    ...rowsAre(1, before, isWindow ? "the n-grams" : "the draft"),
    ...rowsAre(before + 1, last, "the window"),
  ];
  const cut = allRows.length > MAX_ROWS ? ` Drawn: the first ${MAX_ROWS} of ${allRows.length} rows.` : "";
  const reading = "Each line is a row of this pass; a filled square is a row that it attends to";
  return `${reading}; the band at the left is the text before it, in the cache. ${parts.join(", ")}.${cut}`;
}
