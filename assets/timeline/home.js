/* home.js: saves and opens races: recording, table, replay page, picture, film and link. The recording is built from
   the page's events, so it can be saved even after the server restarted. */

import {setText} from "../page/dom.js";
import {save} from "../page/files.js";
import * as share from "./share.js";

const NO_REPLY = "The server did not reply. Try again.";
const COPIED = "Copied.";
const SHOWN_MS = 4000; // how long the confirmation is shown
const MB = 2 ** 20;
const MAX_MB = 32;
const MAX_LINK = 6000;

/** The shown race as a recording: the header with the steps of every lane. */
export const traceOf = log => ({
  ...log.header,
  lanes: log.header.lanes.map((lane, i) => ({...lane, steps: log.lanes[i].steps})),
});

function nameOf(log, extension) {
  const methods = log.lanes.map(lane => lane.method).join("-");
  const date = String(log.header.created || "").slice(0, 19);
  return `lookahead-${methods}-${date}`.replace(/[^A-Za-z0-9-]+/g, "") + extension;
}

/** The address of the shown race. A recording's address has the position of the playhead in seconds. */
function linkTo(log, time) {
  const address = new URL(location.pathname, location.href);
  address.search = log.link + (log.live || !time ? "" : `&time=${Number(time.toFixed(6))}`);
  return address.href;
}

/** The time in the address of this page, if it is the link of the shown recording; else null. */
export function linkedTime({link, live}) {
  const [address, shown] = [location.search, link || ""].map(query => new URLSearchParams(query));
  const isLinked = !live && shown.has("recording") && shown.get("recording") === address.get("recording");
  return isLinked && address.has("time") ? Number(address.get("time")) || 0 : null;
}

/** The exports by button. Each returns a message for the reader, or nothing. */
const EXPORTS = {
  json: ({log}) => save(nameOf(log, ".json"), JSON.stringify(traceOf(log)), "application/json"),
  csv: home => fromHost(home, "csv", ".csv", "text/csv"),
  replay: home => fromHost(home, "replay", ".html", "text/html"),
  async link({log, timeNow}) {
    const address = linkTo(log, timeNow());
    if (address.length > MAX_LINK) return "This prompt is too long for a link; save the recording instead.";
    try {
      await navigator.clipboard.writeText(address);
      return COPIED;
    } catch {
      return address; // no permission: show the address, so that the reader can copy it
    }
  },
  async card({log}) {
    const canvas = share.card(log);
    const picture = await new Promise(resolve => canvas.toBlob(resolve, "image/png"));
    save(nameOf(log, ".png"), picture, "image/png");
  },
  async clip({log, ui}) {
    setText(ui.exportStatus, "Filming the race: eight seconds.");
    save(nameOf(log, ".webm"), await share.clip(log), "video/webm");
  },
  open: ({ui}) => ui.file.click(),
};
const HOST_FUNCTION = {csv: "make", replay: "make", open: "open"};

async function fromHost({log, ui, host}, kind, extension, type) {
  setText(ui.exportStatus, "Creating the file.");
  const reply = await host.make(kind, JSON.stringify(traceOf(log)));
  if (!reply || reply.error) return reply?.error || NO_REPLY;
  return save(nameOf(log, extension), reply.text, type);
}

async function openFile({ui, host, receive}, file) {
  const size = Math.round(file.size / MB);
  if (file.size > MAX_MB * MB) return `${file.name} has ${size} MB; a recording has at most ${MAX_MB}.`;
  setText(ui.exportStatus, "Reading the file.");
  const data = await file.arrayBuffer();
  let text;
  try {
    text = new TextDecoder("utf-8", {fatal: true}).decode(data); // without a byte-order mark
  } catch {
    return `${file.name} is not UTF-8 text; save it as UTF-8.`;
  }
  const reply = await host.open(text);
  if (reply) receive(reply);
  return reply ? "" : `${NO_REPLY} A file with millions of values is refused.`;
}

/** Connect the export buttons. `home` is {log, ui, host, receive, timeNow}; buttons without a host function are
    removed. */
export function connect(home) {
  const {ui, host} = home;
  const report = async (result, failure) => {
    const message = (await result.catch(() => failure)) ?? "";
    setText(ui.exportStatus, message);
    if (message === COPIED)
      setTimeout(() => ui.exportStatus.textContent === COPIED && setText(ui.exportStatus, ""), SHOWN_MS);
  };
  for (const [name, button] of Object.entries(ui.exports)) {
    if (HOST_FUNCTION[name] && !host[HOST_FUNCTION[name]]) button.remove();
    else {
      const run = async () => EXPORTS[name](home);
      button.addEventListener("click", () => report(run(), "The server cannot be reached."));
    }
  }
  ui.file.addEventListener("change", () => {
    const [file] = ui.file.files;
    ui.file.value = "";
    if (file) report(openFile(home, file), "The file cannot be read.");
  });
}

/** Enable the exports that the log allows. */
export function draw(log, ui) {
  const isComplete = Boolean(log.header && log.end && log.lanes.length);
  for (const name of ["json", "csv", "replay"]) ui.exports[name].disabled = !isComplete;
  for (const name of ["card", "clip"]) ui.exports[name].disabled = !isComplete || !share.canShare(log);
  ui.exports.link.hidden = !log.link;
}
