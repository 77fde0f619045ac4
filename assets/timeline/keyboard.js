/* keyboard.js: what keys do to a timeline.

   What it is.  `listen` acts on keys: inside the timeline always, and for the page's main one wherever no other control
   has the focus.

   What it does not know.  What the acts do. Keys inside a lane's text and inside the inspector are theirs. */

const TYPED_IN = "input, textarea, select";
const PRESSED_BY_SPACE = "button, summary, a";

/** Whether a key pressed at `target` is meant for the timeline at `root`. */
function isMeant(event, {root, scrub, main}) {
  const {target} = event;
  if (event.defaultPrevented || event.ctrlKey || event.metaKey || event.altKey) return false;
  if (!root.getClientRects().length) return false; // in a tab that is not shown
  if (!root.contains(target) && !(main && target === document.body)) return false;
  if (event.key === " " && target.matches(PRESSED_BY_SPACE)) return false;
  return target === scrub || !(target.isContentEditable || target.matches(TYPED_IN));
}

/** `place` is {root, scrub, main}; `on(node, type, handler)` listens for as long as the timeline lives. */
export function listen({place, playhead, help, on}) {
  const acts = {
    " ": () => playhead.toggle(),
    ArrowLeft: () => playhead.step(-1),
    ArrowRight: () => playhead.step(1),
    Home: () => playhead.seek(0),
    End: () => playhead.seek(Infinity),
    "[": () => playhead.shift(-1),
    "]": () => playhead.shift(1),
    "?": help,
  };
  on(document, "keydown", event => {
    const act = isMeant(event, place) && acts[event.key];
    if (!act) return;
    event.preventDefault();
    act();
  });
}
