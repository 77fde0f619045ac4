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
           make("div", "la-track", {}, ui.scrub, ui.time),
           make("div", "la-speed", {}, ui.slower, ui.rate, ui.faster, ui.teach, ui.pace)),
      ui.chartbox,
      make("div", "la-key", {}, legend, make("div", "la-choice", {role: "group", "aria-label": "Rejected runs"}, "rejected:", ui.fade, ui.keep)),
      make("div", "la-foot", {}, ui.pass, ui.open), ui.details);
    return ui;
  }

  return {skeleton, icon, PLAY, PAUSE};
})();
