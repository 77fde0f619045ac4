/* keyboard.js: keys of a timeline: inside it always, and for the page's main timeline wherever no other control has
   the focus. */

const TYPED_IN = "input, textarea, select";
const PRESSED_BY_SPACE = "button, summary, a";

/** Whether a key event is for the timeline at `root`. */
function isForTimeline(event, {root, scrub, main}) {
  const {target} = event;
  if (event.defaultPrevented || event.ctrlKey || event.metaKey || event.altKey) return false;
  if (!root.getClientRects().length) return false; // in a tab that is not shown
  const isOnPage = target === document.body || target.matches(".la-chip"); // a clicked chip keeps the focus
  if (!root.contains(target) && !(main && isOnPage)) return false;
  if (event.key === " " && target.matches(PRESSED_BY_SPACE)) return false;
  return target === scrub || !(target.isContentEditable || target.matches(TYPED_IN));
}

/** `parts` is {root, scrub, main}; `step(direction, isOfAll)` seeks the next pass; `on(node, type, handler)` listens
    until the timeline is destroyed. While the `question` is shown, digits answer it and Escape skips it. */
export function listen({parts, playhead, question, step, help, on}) {
  const actions = {
    " ": () => playhead.toggle(),
    ArrowLeft: ({shiftKey}) => step(-1, shiftKey),
    ArrowRight: ({shiftKey}) => step(1, shiftKey),
    Home: () => playhead.seek(0),
    End: () => playhead.seek(Infinity),
    "[": () => playhead.shift(-1),
    "]": () => playhead.shift(1),
    "?": help,
  };
  on(document, "keydown", event => {
    if (!isForTimeline(event, parts)) return;
    const isQuestion = playhead.question !== null;
    const isAnswer = isQuestion && /^\d$/.test(event.key) && question.press(Number(event.key));
    const action = isQuestion && event.key === "Escape" ? () => playhead.predict(null) : actions[event.key];
    if (!isAnswer && !action) return;
    event.preventDefault();
    if (!isAnswer) action(event);
  });
}
