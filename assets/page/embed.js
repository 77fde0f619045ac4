/* embed.js: with `?embed` in the address, the page shows only the race, for a frame in another page, and a link to
   the whole page. */

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
