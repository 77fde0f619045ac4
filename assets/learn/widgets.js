/* widgets.js: the entry script of a lesson's widgets. It comes with each widget, because a page with races only does
   not need it. */

import * as games from "./games.js";

window.lookaheadPage.games = games;
