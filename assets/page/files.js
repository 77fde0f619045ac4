/* files.js: saves files on the visitor's machine. */

export function save(name, content, type) {
  const url = URL.createObjectURL(new Blob([content], {type}));
  const anchor = document.createElement("a");
  anchor.href = url;
  anchor.download = name;
  anchor.click();
  setTimeout(() => URL.revokeObjectURL(url), 10000);
}

/** Save a file that the server has sent in base64, if `text` is not empty. Returns "" for the field with that text. */
export function saveBase64(name, type, text) {
  const bytes = Uint8Array.from(atob(text), character => character.charCodeAt(0));
  if (text) save(name, bytes, type);
  return "";
}
