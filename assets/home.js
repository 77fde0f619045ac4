/* home.js: what a reader takes home, and brings back: recording, table, replay page, link.

   What it is.  `create({log, ui, host, receive, lanePass})` puts the take-home buttons to work. The recording is put
   together here, from the events the page holds; the table and the replay page are made of it by the host, and a file
   that is opened goes to the host to be checked. So a live race, a bundled recording and an opened file are treated alike.

   Why it is so.  One path for all of them, and a page that reloads, or a server that was restarted, loses nothing: what
   is on show can be saved.

   What it does not know.  Gradio, the network, time. Without a host (in a replay page) only what needs none is offered. */

const lookaheadHome = (() => {
  "use strict";
  const {setText} = lookaheadLane;
  const MOST_BYTES = 32 * 2 ** 20, LONGEST_LINK = 6000;

  /** The trace on show, as data: the header with every lane's steps. */
  const traceOf = log => ({...log.header, lanes: log.header.lanes.map((lane, i) => ({...lane, steps: log.lanes[i].steps}))});

  function nameOf(log, ending) {
    const methods = log.lanes.map(lane => lane.method).join("-"), when = String(log.header.created || "").slice(0, 19);
    return `lookahead-${methods}-${when}`.replace(/[^A-Za-z0-9-]+/g, "") + ending;
  }

  function save(name, text, type) {
    const url = URL.createObjectURL(new Blob([text], {type})), anchor = document.createElement("a");
    anchor.href = url;
    anchor.download = name;
    anchor.click();
    setTimeout(() => URL.revokeObjectURL(url), 10000);
  }

  function create({log, ui, host, receive, passNow}) {
    const say = text => setText(ui.taken, text);

    async function made(kind, ending, type) {
      say("Making the file.");
      const answer = await host.make(kind, JSON.stringify(traceOf(log)));
      if (!answer || answer.error) { say((answer && answer.error) || "The server gave no answer. Try again."); return; }
      save(nameOf(log, ending), answer.text, type);
      say("");
    }

    async function open(file) {
      if (!file) return;
      if (file.size > MOST_BYTES) { say(`${file.name} has ${(file.size / 2 ** 20).toFixed(0)} MB; a recording has at most 32.`); return; }
      say("Reading the file.");
      const answer = await host.open(await file.text());
      say("");
      if (answer) receive(answer); else say("The server gave no answer. Try again.");
    }

    async function link() {
      const address = new URL(location.pathname, location.href);
      address.search = log.link + (log.live || passNow() < 1 ? "" : `&pass=${passNow()}`);
      if (address.href.length > LONGEST_LINK) { say("This prompt is too long for a link; save the recording instead."); return; }
      try { await navigator.clipboard.writeText(address.href); say("Copied."); }
      catch (_) { say(address.href); }                        // no permission: show it, so that it can be copied by hand
    }

    const acts = {json: () => save(nameOf(log, ".json"), JSON.stringify(traceOf(log)), "application/json"),
                  csv: () => made("csv", ".csv", "text/csv"), replay: () => made("replay", ".html", "text/html"), link, open: () => ui.file.click()};
    const needsHost = {csv: "make", replay: "make", open: "open"};
    for (const [name, button] of Object.entries(ui.take)) {
      if (needsHost[name] && !host[needsHost[name]]) button.remove();
      else button.addEventListener("click", () => Promise.resolve(acts[name]()).catch(() => say("That did not work: the server cannot be reached.")));
    }
    ui.file.addEventListener("change", () => { open(ui.file.files[0]).catch(() => say("The file cannot be read.")); ui.file.value = ""; });

    /** What can be taken depends on what is there. */
    function update() {
      const full = Boolean(log.header && log.end && log.lanes.length);
      for (const name of ["json", "csv", "replay"]) ui.take[name].disabled = !full;
      ui.take.link.hidden = !log.link;
    }
    return {update};
  }

  return {create, traceOf};
})();
