/* embed.js: the race alone, for a frame in somebody's page.

   What it is.  With `?embed` in the address everything around the lanes goes, and a link leads to the whole page.

   What it does not know.  Which page embeds it. */

import {make} from "./dom.js";

export function connect({root}) {
  const address = new URL(location.href);
  if (!address.searchParams.has("embed") || root.classList.contains("la-embedded")) return;
  address.searchParams.delete("embed");
  document.body.classList.add("la-alone"); // hide everything around the timeline
  root.classList.add("la-embedded");
  root.append(
    make("a.la-whole", {href: address.href, target: "_blank", rel: "noopener"}, "Lookahead: race it yourself"),
  );
}
