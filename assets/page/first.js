/* first.js: the entry of what runs before Gradio's own scripts. */

import "./clocks.js";
import "./place.js";
