/* fields.js: the error message of a race under the field of the form that it is about, in the words of the label. */

import {make} from "./dom.js";

const BOXES = {
  prompt: "la-prompt",
  method: "la-method",
  methods: "la-method",
  lanes: "la-also",
  option: "la-field-options",
};
let clear = () => {};

/** Show a message under its field, and mark the field. Returns whether the form has the field. */
export function showError(field, message) {
  clearError();
  const box = document.getElementById(BOXES[field] || `la-field-${field}`);
  const input = box?.querySelector("input, textarea");
  if (!input) return false;
  if (box.closest("#la-more:not(.la-open)")) document.getElementById("la-more-button").click();
  const label = box.querySelector("[data-testid=block-info], label")?.textContent.trim() || field;
  const text = message.startsWith(`${field} `) ? label + message.slice(field.length) : message;
  const node = make("p.la-field-error", {id: "la-field-error", role: "alert"}, text);
  box.append(node);
  input.setAttribute("aria-invalid", "true");
  input.setAttribute("aria-describedby", node.id);
  clear = () => {
    node.remove();
    for (const name of ["aria-invalid", "aria-describedby"]) input.removeAttribute(name);
  };
  return true;
}

/** Remove the message. */
export function clearError() {
  clear();
  clear = () => {};
}
