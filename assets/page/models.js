/* models.js: scripts of the Models tab. */

/** Put a suggested pair into the field for pairs. */
export function fill(spec) {
  document.querySelector("#la-pair input, #la-pair textarea").focus();
  return spec;
}

/** Reload the page with the family that has been loaded, if one has. */
export function reload() {
  const loaded = document.querySelector("#la-models [data-arrived]");
  if (loaded) location.replace(`?tab=models&family=${encodeURIComponent(loaded.dataset.arrived)}`);
}
