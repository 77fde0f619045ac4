/* app.js: the entry of the app's page.

   Gradio runs the scripts of its components and events as text, which cannot import. They call the modules in
   `lookaheadPage`. The only other global is `lookahead`, through which they and tests read the main timeline. */

import * as classroom from "../lab/class.js";
import * as learn from "../learn/learn.js";
import * as timeline from "../timeline/timeline.js";
import * as chips from "./chips.js";
import * as embed from "./embed.js";
import * as present from "./present.js";
import * as tour from "./tour.js";

const drawn = {}; // for which models each section of the Lab was drawn

window.lookaheadPage = {chips, classroom, drawn, embed, learn, present, timeline, tour};
