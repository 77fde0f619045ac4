/* waiting.js: the entry of the page that is shown while the app loads.

   What it is.  The bundled recording, mounted as in the app, with a disabled Race button.
   `/loading` is asked again and again how far the server is; once it says that the app is there, the playhead is left
   where the app's timeline looks for it, and the page reloads itself: same address, same query.

   Why it is so.  Importing and measuring take seconds, and something should play meanwhile. A question that is not
   answered is asked again: the server may be busy, or restarted.

   What it does not know.  What is being loaded, and by whom. */

import {leave} from "../timeline/stored.js";
import {mount} from "../timeline/timeline.js";
import {setText} from "./dom.js";
import {percent} from "./numbers.js";
import "./theme.js";

const EVERY_MS = 600;
const GONE_AFTER_MS = 8000;
// A proxy may serve the app below a path, and a visitor may have left out the slash at its end.
const LOADING = `${location.origin}${location.pathname.replace(/\/+$/, "")}/loading`;
const GONE = "The server does not answer. Its terminal shows the reason. Still trying.";
const part = id => document.getElementById(id);
const element = part("la-race-timeline");
let answered = performance.now();

function show({text, share}) {
  setText(part("la-says"), `Getting ready: ${text}.`);
  setText(part("la-share"), percent(share, 0).replace("%", " %"));
  part("la-done").style.width = percent(share, 0);
}

async function ask() {
  try {
    const loading = await (await fetch(LOADING, {cache: "no-store"})).json();
    if (loading.ready) {
      leave(window.lookahead.state().run, element.laTimeline.view());
      location.reload();
      return;
    }
    answered = performance.now();
    show(loading);
  } catch {
    if (performance.now() - answered > GONE_AFTER_MS) setText(part("la-says"), GONE);
  }
  setTimeout(ask, EVERY_MS);
}

const batch = part("waiting-batch").textContent;
mount({element, read: () => batch, watch: () => {}});
ask();
