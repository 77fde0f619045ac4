/* clocks.js: limits Gradio's progress clocks to ten ticks per second. The clock of the loading notice is hidden but
   never stops, and used a tenth of a core during timed races. This script runs before Gradio's own scripts. */

const TICK_MS = 100; // the clocks show tenths of seconds
const CLOCK = /^\(\) ?=> ?\{[\w$]+\([\w$]+,\(performance\.now\(\)-/; // a clock in Gradio's statustracker
const requestFrame = window.requestAnimationFrame.bind(window);
window.requestAnimationFrame = step => (CLOCK.test(step) ? setTimeout(step, TICK_MS) : requestFrame(step));
