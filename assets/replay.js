/* replay.js: the entry of a saved replay: one recorded race in one file.

   What it is.  The log stands in the page as JSON, packed: fields that hold their default were left out, and words are
   places in one list. That is undone here, and the timeline is mounted as in the app. Light or dark follows the system.

   Why it is so.  A file that is mailed around should be small, open from a disk and ask nothing of any network.

   What it does not know.  Servers. Nothing is ever sent or asked for; the timeline's host has one thing to read. */

(() => {
  "use strict";

  const {defaults, texts, words, batch} = JSON.parse(document.getElementById("replay-log").textContent);

  function unpacked(kind, bare) {
    const full = {...defaults[kind], ...bare};
    for (const name of texts[kind]) full[name] = full[name].map(place => words[place]);
    return full;
  }
  for (const event of batch.ev) {
    if (event.kind !== "step") continue;
    const step = event.step = unpacked("step", event.step);
    step.draft = unpacked("draft", step.draft);
    step.tests = step.tests.map(test => ({...defaults.test, ...test}));
    for (const test of step.tests) test.top = test.top.map(([token, place, p]) => [token, words[place], p]);
  }
  const whole = JSON.stringify(batch);

  const dark = matchMedia("(prefers-color-scheme: dark)");
  const shade = () => document.body.classList.toggle("dark", dark.matches);
  dark.addEventListener("change", shade);
  shade();

  lookaheadTimeline.mount({element: document.getElementById("replay"), read: () => whole, watch: () => {}});
})();
