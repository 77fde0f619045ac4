/* widgets.js: the entry script of a lesson's widgets. Each widget includes the script, because a page without lessons
   does not need it. */

import * as games from "./games.js";

window.lookaheadPage.games = games;
