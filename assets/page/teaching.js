/* teaching.js: the entry of the scripts that only some visitors need: the widgets of lessons, class votes, the class of
   texts in the Lab, the tour and the teacher's plan. `load.js` requests them from the server. */

import * as classroom from "../lab/class.js";
import * as games from "../learn/games.js";
import * as terms from "../learn/terms.js";
import * as votes from "../learn/votes.js";
import * as present from "./present.js";
import * as tour from "./tour.js";

window.lookaheadTeaching = {classroom, games, present, terms, tour, votes};
