/* replay.js: the entry of a saved replay: one recorded race in one file.

   What it is.  The page contains the log as JSON, compressed by gzip and written in base64. It is unpacked, and the
   timeline is mounted as in the app.

   Why it is so.  A file that is mailed around should be small, open from a disk and ask nothing of any network.

   What it does not know.  Servers. Nothing is ever sent or asked for; the timeline's host has one thing to read. */

import {mount} from "../timeline/timeline.js";
import "./theme.js";

const element = document.getElementById("replay");

function unpack(base64) {
  const bytes = Uint8Array.from(atob(base64), character => character.charCodeAt(0));
  const json = new Blob([bytes]).stream().pipeThrough(new DecompressionStream("gzip"));
  return new Response(json).text();
}

function fail() {
  element.textContent = "The recording in this file cannot be read: the file is damaged, or this browser is too old.";
}

async function start() {
  const batch = await unpack(document.getElementById("replay-log").textContent);
  mount({element, read: () => batch, watch: () => {}});
}

start().catch(fail);
