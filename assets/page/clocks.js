/* clocks.js: Gradio's clocks of progress tick ten times a second, not at every frame.

    Why it is so.  The notice that the page loads is never told that it has: out of sight its clock runs as long as
   the page is open, and took a tenth of a core during timed races.

    What it does not know.  Who shows a clock. It runs before Gradio's own scripts, which keep what they find. */

const TICK_MS = 100; // they show tenths of seconds
const CLOCK = /^\(\) ?=> ?\{[\w$]+\([\w$]+,\(performance\.now\(\)-/; // in statustracker
const ask = window.requestAnimationFrame.bind(window);
window.requestAnimationFrame = step => (CLOCK.test(step) ? setTimeout(step, TICK_MS) : ask(step));
