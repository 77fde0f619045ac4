/* waiting.js: the entry of the page that is shown while the app loads: the bundled recording and a Race button.
   It polls `/loading`; when the app is ready, it stores the playhead and reloads the page. If Race is pressed, the
   app then starts the race. */

import {storePlayhead, storeRace} from "../timeline/stored.js";
import {mount} from "../timeline/timeline.js";
import {setText} from "./dom.js";
import {percent} from "./numbers.js";
import "./theme.js";

const POLL_MS = 600;
const REPLY_TIMEOUT_MS = 8000;
// A proxy may serve the app below a path, and the address may have no slash at its end.
const LOADING = `${location.origin}${location.pathname.replace(/\/+$/, "")}/loading`;
const NO_REPLY = "The server does not answer. Its terminal shows the reason. Still trying.";
const part = id => document.getElementById(id);
const element = part("la-race-timeline");
const race = part("la-race");
const isWanted = () => race.getAttribute("aria-pressed") === "true";
let lastReply = performance.now();
let last = {text: "starting", share: 0}; // the newest progress

function show({text, share}) {
  const then = isWanted() ? " Your race then starts by itself." : "";
  setText(part("la-status-line"), `Getting ready: ${text}.${then}`);
  setText(part("la-share"), percent(share, 0).replace("%", " %"));
  part("la-done").style.width = percent(share, 0);
}

async function poll() {
  try {
    const loading = await (await fetch(LOADING, {cache: "no-store"})).json();
    if (loading.ready) {
      storeRace(isWanted());
      storePlayhead(window.lookahead.state().run, element.laTimeline.view());
      location.reload();
      return;
    }
    lastReply = performance.now();
    last = loading;
    show(loading);
  } catch {
    if (performance.now() - lastReply > REPLY_TIMEOUT_MS) setText(part("la-status-line"), NO_REPLY);
  }
  setTimeout(poll, POLL_MS);
}

part("la-done").style.width = "0";
race.addEventListener("click", () => {
  race.setAttribute("aria-pressed", String(!isWanted()));
  show(last);
});
const batch = part("waiting-batch").textContent;
mount({element, read: () => batch, watch: () => {}});
poll();
