/* models.js: scripts of the Models tab. */

/* Put a suggested pair into the field for pairs. */
export function fill(spec) {
  document.querySelector("#la-pair input, #la-pair textarea").focus();
  return spec;
}

/* Reload the page with the family that has been loaded, if one has. */
export function reload() {
  const arrived = document.querySelector("#la-models [data-arrived]");
  if (arrived) location.replace(`?tab=models&family=${encodeURIComponent(arrived.dataset.arrived)}`);
}
