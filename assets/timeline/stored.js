/* stored.js: values that the browser stores. With them, a live race and its playhead survive a reload or a restarted
   server. If storage is full or forbidden, nothing is stored. */

const RUN = "lookahead-timeline";
const MAX_LENGTH = 3e6; // characters of a stored run
const PLAYHEAD = "lookahead-playhead";
const RACE = "lookahead-race";
const MAX_AGE_MS = 30000;

/** Return a stored value, or null. `storage` is a name, because the property throws if storage is forbidden. */
export function get(key, storage = "sessionStorage") {
  try {
    return JSON.parse(window[storage].getItem(key));
  } catch {
    return null;
  }
}

/** Store a value if storage allows it. */
export function put(key, value, storage = "sessionStorage") {
  try {
    const text = JSON.stringify(value);
    if (text.length < MAX_LENGTH) window[storage].setItem(key, text);
    else window[storage].removeItem(key);
  } catch {
    // full or forbidden
  }
}

/** Store the shown live run of the timeline with this name. */
export function save(log, {t, playing}, name) {
  const batch = {run: log.run, i0: 0, ev: log.events};
  put(RUN + name, {path: location.pathname + location.search, t, playing, stopped: log.stopPressed, batch});
}

/** Return the run that `save` stored at this address: {t, playing, stopped, batch}, or null. */
export function saved(name) {
  const run = get(RUN + name);
  return run?.batch && run.path === location.pathname + location.search ? run : null;
}

/** Store the playhead for the page after the next reload. */
export const storePlayhead = (run, {t, playing}) => put(PLAYHEAD, {run, t, playing, time: Date.now()});

/** Return and remove the playhead that `storePlayhead` recently stored for this run: {t, playing}, or null. */
export function takePlayhead(run) {
  const playhead = get(PLAYHEAD);
  if (playhead?.run !== run) return null; // its run may still be shown
  sessionStorage.removeItem(PLAYHEAD);
  return Date.now() - playhead.time < MAX_AGE_MS ? playhead : null;
}

/** Store whether the app starts a race after the next reload. */
export const storeRace = wanted => put(RACE, wanted);

/** Return and remove what `storeRace` stored. */
export function takeRace() {
  const wanted = get(RACE);
  if (wanted) sessionStorage.removeItem(RACE);
  return wanted;
}
