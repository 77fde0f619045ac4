/* app.js: the entry of the app's page. Gradio runs the scripts of its components and events as text, which cannot
   import modules; they call the modules in `lookaheadPage`. */

import * as learn from "../learn/learn.js";
import * as address from "./address.js";
import * as buttons from "./buttons.js";
import * as chips from "./chips.js";
import * as component from "./component.js";
import * as files from "./files.js";
import * as load from "./load.js";
import * as models from "./models.js";

const drawn = {}; // by section of the Lab: the models for which it was drawn

window.lookaheadPage = {address, buttons, chips, component, drawn, files, learn, load, models};
