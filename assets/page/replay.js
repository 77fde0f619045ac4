/* replay.js: the entry of a saved replay: one recorded race in one file, as JSON compressed with gzip and encoded in
   base64. It needs no server and no network. */

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
