/* ballot.js: the entry of the page with which a student answers a vote of the class: `?class=CODE`. It shows the
   current question of that code, and the right answer after the teacher has shown it. */

import {histogram, newSecret, ROOT, send} from "../learn/vote.js";
import * as stored from "../timeline/stored.js";
import {button, make, setText} from "./dom.js";
import "./theme.js";

const VOTER = "lookahead-voter"; // a random token of this tab, with which an answer can be changed
const [POLL_MS, MAX_POLL_MS, SLOWER] = [1000, 5000, 1.3];
const code = (new URLSearchParams(location.search).get("class") || "").trim().toUpperCase();
const voter = stored.get(VOTER) || newSecret();
stored.put(VOTER, voter);

const box = make("div.la-v-box");
const status = make("p.la-v-status", {role: "status"});
document.getElementById("ballot").replaceChildren(box, status);

let drawn = "";
let choices = []; // the buttons of the current question
let waitMs = POLL_MS;
let last = "";

/** A field for the code, if the address has none or a malformed one. */
function askForCode() {
  const field = make("input.la-v-code", {name: "class", maxlength: "8", required: "", autocapitalize: "characters"});
  const attributes = {autocomplete: "off", spellcheck: "false", pattern: "[A-Za-z0-9]{4,8}"};
  for (const [name, value] of Object.entries(attributes)) field.setAttribute(name, value);
  const go = make("button.la-v-button", {type: "submit"}, "Join");
  const form = make("form.la-v-join", make("label", "The code of the class", field), go);
  form.addEventListener("submit", event => {
    event.preventDefault();
    location.assign(`${ROOT}/?class=${encodeURIComponent(field.value)}`);
  });
  box.replaceChildren(form);
}

function choose(round, i) {
  for (const [j, node] of choices.entries()) node.setAttribute("aria-pressed", String(i === j));
  setText(status, "Sending.");
  update(send("answer", {code, voter, round, choice: i}));
}

function question({round, text, options}) {
  choices = options.map((option, i) =>
    button("la-v-choice", option, () => choose(round, i), {"aria-pressed": "false"}),
  );
  return [make("h2.la-v-question", text), ...choices];
}

function result(report) {
  const right = make("b", `The right answer: ${report.options[report.right]}.`);
  return [make("h2.la-v-question", report.text), histogram(report), make("p.la-v-why", right, ` ${report.why}`)];
}

function sentence({open, shown, chosen}) {
  if (!open) return `No vote is open with the code ${code}. This page waits for the next one.`;
  if (shown) return "The next question appears here.";
  return chosen === null ? "" : "Sent. You can change it until the teacher shows the answer.";
}

function draw(report) {
  const {open, shown, round, chosen} = report;
  const state = open ? (shown ? JSON.stringify(report) : `round ${round}`) : "none";
  if (state !== drawn) box.replaceChildren(...(open ? (shown ? result(report) : question(report)) : []));
  drawn = state;
  for (const [i, node] of choices.entries()) node.setAttribute("aria-pressed", String(i === chosen));
  setText(status, sentence(report));
}

/** Show the reply to a request. After a change, the next requests come sooner. */
async function update(request) {
  try {
    const report = await request;
    const news = JSON.stringify([report.round, report.shown, report.chosen]);
    if (news !== last) waitMs = POLL_MS;
    last = news;
    draw(report);
  } catch (error) {
    setText(status, error.status ? error.message : "The server does not answer. Trying again.");
  }
}

async function poll() {
  if (!document.hidden) await update(send("read", {code, voter}));
  waitMs = Math.min(MAX_POLL_MS, SLOWER * waitMs);
  setTimeout(poll, waitMs);
}

if (/^[A-Z0-9]{4,8}$/.test(code)) poll();
else askForCode();
