/* exercise.js: the reader writes two functions, and the tests of lesson 9 grade them. The code is JavaScript, because
   every browser runs it at once. Python in a browser is a download of several megabytes, and a server must not run the
   code of visitors. `sandbox.js` keeps the code away from the page. */

import {HIDDEN, make, setText} from "../page/dom.js";
import * as stored from "../timeline/stored.js";
import {casesOf, grade, TASKS} from "./checks.js";
import {run} from "./sandbox.js";
import {button, newId, part, text} from "./widget.js";

const STORE = "lookahead-exercise-";
const ATTEMPTS = 2; // failed ones, after which a solution can be shown
const LATE = "The code did not end within 2 seconds. Check the conditions of its loops.";
const unread = error => `The code cannot be read: ${error}.`;

const line = ([name, value]) => [make("dt", name), make("dd", value)];

/** One test with its outcome, and the first failing case. */
function outcome({name, failed}) {
  const sign = make("span.la-g-sign", HIDDEN, failed ? "✕" : "✓");
  const title = text("la-x-name", sign, make("span", make("b", failed ? "fails: " : "passes: "), name));
  if (!failed) return make("li.la-x-passes", title);
  const details = [make("dl.la-x-case", ...failed.lines.flatMap(line))];
  if (failed.hint) details.push(text("la-x-hint", failed.hint));
  return make("li.la-x-fails", title, ...details);
}

class Editor {
  #task;
  #failures = 0;
  #area;
  #summary = text("la-x-summary");
  #outcomes = make("ul.la-x-outcomes", {role: "list"});
  #run = button("Run the tests", () => this.#grade());
  #reveal = button("Show a solution", () => this.#show());
  #solution = part("la-x-solution");

  constructor(task) {
    this.#task = task;
    const {id, title, about, names, starter} = task;
    const field = newId();
    const attributes = {
      id: field,
      rows: String(starter.split("\n").length + 3),
      spellcheck: "false",
      autocapitalize: "off",
      autocomplete: "off",
      wrap: "off",
    };
    this.#area = make("textarea.la-x-area", attributes);
    this.#area.value = stored.get(STORE + id) ?? starter;
    this.#area.addEventListener("input", () => stored.put(STORE + id, this.#area.value));
    this.#area.addEventListener("keydown", event => {
      if (event.key === "Enter" && (event.ctrlKey || event.metaKey)) this.#grade();
    });
    this.#summary.setAttribute("role", "status");
    this.#reveal.hidden = true;
    const label = make("label.la-x-label", {for: field}, `function ${id}(${names.join(", ")}) {`);
    const facts = make("dl.la-x-about", ...about.flatMap(line));
    const again = button("Start again", () => this.#restore());
    const buttons = part("la-g-buttons", this.#run, again, this.#reveal);
    const code = part("la-x-code", label, this.#area, make("span.la-x-label", HIDDEN, "}"));
    const parts = [text("la-g-title", title), facts, code, buttons, this.#summary, this.#outcomes, this.#solution];
    this.node = make("section.la-x-task", {"aria-label": title}, ...parts);
  }

  async #grade() {
    if (this.#run.disabled) return;
    this.#run.disabled = true;
    setText(this.#summary, "Running.");
    const cases = casesOf(this.#task);
    const {names} = this.#task;
    this.#draw(await run({names, body: this.#area.value, cases}));
    this.#run.disabled = false;
  }

  #draw({late, error, values}) {
    const tests = values ? grade(this.#task, values) : [];
    const passed = tests.filter(({failed}) => !failed).length;
    const isDone = tests.length > 0 && passed === tests.length;
    const summary = `Tests passed: ${passed} of ${tests.length}.`;
    setText(this.#summary, late ? LATE : error ? unread(JSON.parse(error)) : summary);
    this.#outcomes.replaceChildren(...tests.map(outcome));
    this.#failures += Number(!isDone);
    this.#reveal.hidden = this.#failures < ATTEMPTS;
  }

  #show() {
    const listing = make("pre", {tabindex: "0", role: "group", "aria-label": "A solution"}, this.#task.solution);
    this.#solution.replaceChildren(text("la-g-title", "A solution"), listing);
  }

  #restore() {
    this.#area.value = this.#task.starter;
    stored.put(STORE + this.#task.id, this.#task.starter);
    this.#area.focus();
  }
}

export const exercise = () => TASKS.map(task => new Editor(task).node);
