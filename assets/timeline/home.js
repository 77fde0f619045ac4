/* home.js: what a reader takes home, and brings back: recording, table, replay page, link.

   What it is.  `connect({log, ui, host, receive, passNow})` puts the take-home buttons to work; `draw` enables them.
   The recording is put together here, from the events the page holds; the table and the replay page are made of it by
   the host, and a file that is opened goes to the host to be checked.

   Why it is so.  A live race, a bundled recording and an opened file are treated alike, and a page that reloads, or a
   server that was restarted, loses nothing: what is on show can be saved.

   What it does not know.  Gradio, the network, time. In a replay page, without a host, it offers what needs none. */

import {setText} from "../page/dom.js";
import * as share from "./share.js";

const NO_ANSWER = "The server gave no answer. Try again.";
const COPIED = "Copied.";
const SAID_MS = 4000; // what was true a while ago need not be said any longer
const MB = 2 ** 20;
const MOST_MB = 32;
const LONGEST_LINK = 6000;

/** The trace on show, as data: the header with every lane's steps. */
export const traceOf = log => ({
  ...log.header,
  lanes: log.header.lanes.map((lane, i) => ({...lane, steps: log.lanes[i].steps})),
});

function nameOf(log, ending) {
  const methods = log.lanes.map(lane => lane.method).join("-");
  const when = String(log.header.created || "").slice(0, 19);
  return `lookahead-${methods}-${when}`.replace(/[^A-Za-z0-9-]+/g, "") + ending;
}

function save(name, content, type) {
  const url = URL.createObjectURL(new Blob([content], {type}));
  const anchor = document.createElement("a");
  anchor.href = url;
  anchor.download = name;
  anchor.click();
  setTimeout(() => URL.revokeObjectURL(url), 10000);
}

/** The address that brings back what is on show; `pass` is the position of the playhead. */
function linkTo(log, pass) {
  const address = new URL(location.pathname, location.href);
  address.search = log.link + (log.live || pass < 1 ? "" : `&pass=${pass}`);
  return address.href;
}

/** Each of these gives the words that say how it went, where any are needed. */
const takes = {
  json: ({log}) => save(nameOf(log, ".json"), JSON.stringify(traceOf(log)), "application/json"),
  csv: home => fromHost(home, "csv", ".csv", "text/csv"),
  replay: home => fromHost(home, "replay", ".html", "text/html"),
  async link({log, passNow}) {
    const address = linkTo(log, passNow());
    if (address.length > LONGEST_LINK) return "This prompt is too long for a link; save the recording instead.";
    try {
      await navigator.clipboard.writeText(address);
      return COPIED;
    } catch {
      return address; // no permission: show it, so that it can be copied by hand
    }
  },
  async card({log}) {
    const canvas = share.card(log);
    const picture = await new Promise(resolve => canvas.toBlob(resolve, "image/png"));
    save(nameOf(log, ".png"), picture, "image/png");
  },
  async clip({log, ui}) {
    setText(ui.taken, "Filming the first passes: eight seconds.");
    save(nameOf(log, ".webm"), await share.clip(log), "video/webm");
  },
  open: ({ui}) => ui.file.click(),
};
const HOST_FUNCTION = {csv: "make", replay: "make", open: "open"};

async function fromHost({log, ui, host}, kind, ending, type) {
  setText(ui.taken, "Making the file.");
  const answer = await host.make(kind, JSON.stringify(traceOf(log)));
  if (!answer || answer.error) return answer?.error || NO_ANSWER;
  return save(nameOf(log, ending), answer.text, type);
}

async function openFile({ui, host, receive}, file) {
  const size = Math.round(file.size / MB);
  if (file.size > MOST_MB * MB) return `${file.name} has ${size} MB; a recording has at most ${MOST_MB}.`;
  setText(ui.taken, "Reading the file.");
  const data = await file.arrayBuffer();
  let text;
  try {
    text = new TextDecoder("utf-8", {fatal: true}).decode(data); // without a byte-order mark
  } catch {
    return `${file.name} is not UTF-8 text; save it as UTF-8.`;
  }
  const answer = await host.open(text);
  if (answer) receive(answer);
  return answer ? "" : `${NO_ANSWER} A file with millions of values is refused.`;
}

export function connect(home) {
  const {ui, host} = home;
  const tell = async (words, failure) => {
    const said = (await words.catch(() => failure)) ?? "";
    setText(ui.taken, said);
    if (said === COPIED) setTimeout(() => ui.taken.textContent === COPIED && setText(ui.taken, ""), SAID_MS);
  };
  for (const [name, button] of Object.entries(ui.take)) {
    if (HOST_FUNCTION[name] && !host[HOST_FUNCTION[name]]) button.remove();
    else {
      const take = async () => takes[name](home);
      button.addEventListener("click", () => tell(take(), "The server cannot be reached."));
    }
  }
  ui.file.addEventListener("change", () => {
    const [file] = ui.file.files;
    ui.file.value = "";
    if (file) tell(openFile(home, file), "The file cannot be read.");
  });
}

/** What can be taken depends on what is there. */
export function draw(log, ui) {
  const isWhole = Boolean(log.header && log.end && log.lanes.length);
  for (const name of ["json", "csv", "replay"]) ui.take[name].disabled = !isWhole;
  for (const name of ["card", "clip"]) ui.take[name].disabled = !isWhole || !share.canShare(log);
  ui.take.link.hidden = !log.link;
}
