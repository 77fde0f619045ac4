/* first.js: the entry of the scripts that run before Gradio's own. */

import "./clocks.js";
import "./root.js";
