/* skeleton.js: the parts of the timeline before anything is in them: controls, legend, boxes. Made once, by name.

   What it is.  `skeleton(root)` fills the component's element and returns its parts. What is shown, hidden or said in
   them later is timeline.js's business. It knows neither races nor time. */

const lookaheadSkeleton = (() => {
  "use strict";
  const {make} = lookaheadLane;

  function icon(path) {
    const svg = document.createElementNS("http://www.w3.org/2000/svg", "svg"), shape = document.createElementNS(svg.namespaceURI, "path");
    svg.setAttribute("viewBox", "0 0 16 16");
    svg.setAttribute("aria-hidden", "true");
    shape.setAttribute("d", path);
    svg.append(shape);
    return svg;
  }
  const PLAY = "M4 2.5v11l9.5-5.5z", PAUSE = "M3.5 2.5h3v11h-3zM9.5 2.5h3v11h-3z";
  const BACK = "M3 3h1.6v10H3zM13 3v10L5.6 8z", NEXT = "M11.4 3H13v10h-1.6zM3 3v10l7.4-5z";

  function button(className, label, content) {
    return make("button", `la-button ${className}`, {type: "button", "aria-label": label, title: label}, content);
  }

  const TAKE = [["json", "recording", "The whole race as JSON: open it here again, or read it with a program"],
                ["csv", "table", "One line a pass, as CSV"],
                ["replay", "replay.html", "One file that plays this race anywhere, without a server"],
                ["link", "copy link", "An address that brings back this prompt, these lanes and these settings"],
                ["open", "open a recording", "Show a recording that was saved here or elsewhere"]];
  const KEYS = [["Space", "play or pause"], ["← →", "the pass before, the pass after"], ["Home, End", "the beginning, the end"],
                ["[ ]", "slower, faster"], ["Enter", "in a lane: ask about its tokens; ← → then go from token to token, Enter opens the pass, Escape leaves"],
                ["?", "this list"]];

  function help() {
    const rows = KEYS.map(([key, what]) => make("tr", "", {}, make("th", "", {scope: "row"}, make("kbd", "", {}, key)), make("td", "", {}, what)));
    const close = make("button", "la-button", {type: "button", autofocus: ""}, "close");
    const box = make("dialog", "la-help", {"aria-label": "Keys"}, make("h3", "", {}, "Keys"), make("table", "", {}, make("tbody", "", {}, ...rows)),
                     make("p", "", {}, "Point at a token, or tap it, to see who drafted it and what the target thought. The clock counts only a lane’s own work; playback stretches it to reading speed."), close);
    close.addEventListener("click", () => box.close());
    box.addEventListener("click", event => { if (event.target === box) box.close(); });
    return box;
  }

  /** The legends of the two heat views; the style sheet shows the one that is on. */
  function heatLegend() {
    const sample = (data, word) => { const box = make("span", "la-tok la-sample", {}, "abc"); Object.assign(box.dataset, data); return make("li", "", {}, box, " ", word); };
    return make("div", "la-classes", {},
      make("ul", "la-legend la-of-failures", {"aria-label": "Legend: failures"}, sample({fails: "true"}, "a draft was refused here"), sample({fails: "false"}, "a draft stood"), sample({}, "no draft")),
      make("ul", "la-legend la-of-entropy", {"aria-label": "Legend: entropy of the target"}, ...lookaheadHeat.CLASSES.map((word, level) => sample({bits: level}, word))));
  }

  function skeleton(root) {
    const ui = {};
    ui.say = make("div", "la-unseen", {"aria-live": "polite", role: "status"});
    ui.statusText = make("span", "la-statustext");
    ui.bar = make("span", "la-bar", {}, make("span"));
    ui.number = make("span", "la-number");
    ui.words = make("span", "la-words");
    ui.note = make("p", "la-sub");
    ui.scores = make("div", "la-scores", {role: "table", "aria-label": "Lanes at the playhead"});
    ui.error = make("div", "la-error", {hidden: ""});
    ui.lanes = make("div", "la-lanes");
    ui.play = button("la-play", "Play", icon(PLAY));
    ui.back = button("", "Previous pass", icon(BACK));
    ui.next = button("", "Next pass", icon(NEXT));
    ui.scrub = make("input", "la-scrub", {type: "range", min: "0", max: "1", step: "any", value: "0", "aria-label": "Time on the lanes' clock"});
    ui.time = make("span", "la-time");
    ui.slower = button("", "Slower playback", "−");
    ui.faster = button("", "Faster playback", "+");
    ui.rate = make("span", "la-rate");
    ui.teach = make("button", "la-button la-teach", {type: "button", "aria-pressed": "true"}, "teaching pace");
    ui.pace = make("span", "la-pace");
    ui.fade = make("button", "la-button", {type: "button", "aria-pressed": "true"}, "fade");
    ui.keep = make("button", "la-button", {type: "button", "aria-pressed": "false"}, "keep");
    ui.chartbox = make("div", "la-chart");
    ui.pass = make("p", "la-passline");
    ui.open = make("button", "la-button la-open", {type: "button"}, "open the pass");
    ui.heat = ["drafts", "failures", "entropy"].map((view, i) => make("button", "la-button", {type: "button", "aria-pressed": String(!i), "data-view": view}, view));
    ui.cardbox = make("div", "la-cardbox", {hidden: "", role: "status"});
    ui.ask = button("la-ask", "Keys and help", "?");
    ui.help = help();
    ui.take = {};
    for (const [name, word, title] of TAKE) ui.take[name] = make("button", "la-button", {type: "button", title}, word);
    ui.file = make("input", "", {type: "file", accept: ".json,application/json", hidden: "", "aria-label": "A recording to open"});
    ui.taken = make("span", "la-taken", {role: "status"});
    ui.home = make("div", "la-home", {role: "group", "aria-label": "Take it home"}, make("span", "la-homeword", {}, "take home:"), ...Object.values(ui.take), ui.file, ui.taken);
    ui.verdict = make("summary", "");
    ui.sums = make("div", "la-sums");
    ui.details = make("details", "la-verdict", {hidden: ""}, ui.verdict, ui.sums);
    const sample = (kind, word) => make("li", "", {}, make("span", `la-tok la-${kind}`, kind === "tick" ? {"aria-hidden": "true"} : {}, kind === "tick" ? "" : word), ...(kind === "tick" ? [word] : []));
    const legend = make("ul", "la-legend", {"aria-label": "Legend"}, sample("ghost", "drafted"), sample("accepted", "accepted"),
                        sample("rejected", "rejected"), sample("unvisited", "never reached"), sample("own", "target’s own"), sample("plain", "no draft"), sample("tick", "a rejected run, folded"));
    root.replaceChildren(
      make("div", "la-status", {}, ui.statusText, ui.bar), ui.say,
      make("div", "la-head", {}, make("div", "la-headline", {}, make("p", "la-big", {}, ui.number, " ", ui.words), ui.note), ui.scores),
      ui.error, ui.lanes,
      make("div", "la-transport", {role: "group", "aria-label": "Playback"},
           make("div", "la-buttons", {}, ui.play, ui.back, make("span", "la-word", {"aria-hidden": "true"}, "pass"), ui.next),
           make("div", "la-track", {}, make("div", "la-rail", {}, ui.marks = make("div", "la-marks", {"aria-hidden": "true"}), ui.scrub), ui.time),
           make("div", "la-speed", {}, ui.slower, ui.rate, ui.faster, ui.teach, ui.pace, ui.ask)),
      ui.chartbox,
      make("div", "la-key", {}, legend, ui.classes = heatLegend(),
           make("div", "la-choice", {role: "group", "aria-label": "What the text shows"}, "show:", ...ui.heat),
           make("div", "la-choice la-rejects", {role: "group", "aria-label": "Rejected runs"}, "rejected:", ui.fade, ui.keep)),
      make("div", "la-foot", {}, ui.pass, ui.open), ui.panel = make("div", "la-panel"), ui.details, ui.home, ui.cardbox, ui.help);
    return ui;
  }

  return {skeleton, icon, PLAY, PAUSE};
})();
