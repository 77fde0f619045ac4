/* component.js: a timeline as a Gradio component, which provides `element`, `props`, `watch` and server functions.
   Only the page's main timeline has files, recordings, the tour and keys that work anywhere. */

import * as timeline from "../timeline/timeline.js";
import * as announce from "./announce.js";
import * as chips from "./chips.js";
import * as embed from "./embed.js";
import * as fields from "./fields.js";
import * as load from "./load.js";

// A race in the address replaces the recording that the page shows first.
const isOfLink = () => /[?&](prompt=|recording=(?!story))/.test(location.search);

let stage = null; // of the page's main timeline

/** Called when the reader has changed the form. */
export const edited = () => {
  fields.clearError();
  if (stage?.edited()) chips.unmark();
};

export function mount({element, props, watch, server}, main) {
  const first = props.value;
  const host = {
    element,
    first,
    main,
    name: element.closest("[id^='la-lesson-race-']")?.id ?? "",
    read: () => (main && isOfLink() && props.value === first ? "" : props.value),
    watch: fn => watch("value", fn),
    resend: (run, from) => server.resend([run, from]),
    make: (kind, trace) => server.make([kind, trace, location.origin + location.pathname]),
    open: text => server.open_(text),
  };
  if (!main) {
    timeline.mount(host);
    return;
  }
  if (!stage) announce.connect();
  if (!stage) document.addEventListener("input", ({target}) => target.closest("#la-prompt, #la-more") && edited());
  stage = timeline.mount({
    ...host,
    recording: id => server.recorded(id),
    session: name => server.session(name),
    refused: fields.showError,
    begun: fields.clearError,
    run: () => document.getElementById("la-race").click(),
    next: run => chips.after(run.replace(/^recording-/, "")),
    press: chips.press,
  });
  for (const part of [load, embed]) part.connect(stage);
}
