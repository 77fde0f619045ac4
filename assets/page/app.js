/* app.js: the entry of the app's page.

   Gradio runs the scripts of its components as text, and text cannot import. So `lookaheadPage` has the modules that
   they call. It is the only global, with `lookahead`, which timeline.js publishes for tests. */

import * as classroom from "../lab/class.js";
import * as learn from "../learn/learn.js";
import * as timeline from "../timeline/timeline.js";
import * as chips from "./chips.js";
import * as embed from "./embed.js";
import * as present from "./present.js";
import * as tour from "./tour.js";

const drawn = {}; // for which models each section of the Lab was drawn

window.lookaheadPage = {chips, classroom, drawn, embed, learn, present, timeline, tour};
