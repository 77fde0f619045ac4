/* widgets.js: the entry of a lesson's widgets.

   It comes with each widget, because a page that shows only races needs none. The page's own entry is app.js. */

import * as games from "./games.js";

window.lookaheadPage.games = games;
