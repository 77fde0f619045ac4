/* stored.js: what a tab remembers across a reload.

   What it is.  `save` and `saved` keep a live race; `leave` and `left` hand the playhead from the page that is shown
   while the app loads to the app; `get` and `put` keep anything.

   Why it is so.  A reload, or a server that was restarted, should cost nobody their race. Session storage ends with the
   tab; where it is full or forbidden, a reload starts afresh.

   What it does not know.  The DOM, what is in a batch. */

const RUN = "lookahead-timeline";
const LONGEST = 3e6; // characters of a run worth keeping
const PLAYHEAD = "lookahead-left";
const FRESH_MS = 30000;

/** `storage` is a name: where storage is forbidden, the property itself throws. */
export function get(key, storage = "sessionStorage") {
  try {
    return JSON.parse(window[storage].getItem(key));
  } catch {
    return null;
  }
}

export function put(key, value, storage = "sessionStorage") {
  try {
    const text = JSON.stringify(value);
    if (text.length < LONGEST) window[storage].setItem(key, text);
    else window[storage].removeItem(key);
  } catch {
    // full or forbidden
  }
}

/** Keeps a live run, as it is on show. */
export function save(log, {t, playing}) {
  const batch = {run: log.run, i0: 0, ev: log.events};
  put(RUN, {path: location.pathname + location.search, t, playing, stopped: log.stopped, batch});
}

/** What `save` kept at this address: {t, playing, stopped, batch}, or null. */
export function saved() {
  const run = get(RUN);
  return run?.batch && run.path === location.pathname + location.search ? run : null;
}

export const leave = (run, {t, playing}) => put(PLAYHEAD, {run, t, playing, when: Date.now()});

/** The playhead that `leave` left for this run a moment ago, once: {t, playing}, or null. */
export function left(run) {
  const playhead = get(PLAYHEAD);
  if (playhead?.run !== run) return null; // the run it belongs to may still come
  sessionStorage.removeItem(PLAYHEAD);
  return Date.now() - playhead.when < FRESH_MS ? playhead : null;
}
