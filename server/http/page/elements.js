// Elements by their ids, and new ones. Text is only ever text: it comes from prompts and servers.
export const $ = (id) => document.getElementById(id);

// An element with these properties, and with texts and elements in it.
export function element(name, properties, ...children) {
  const made = Object.assign(document.createElement(name), properties);
  made.append(...children);
  return made;
}

export function fillSelect(select, options, chosen) {
  select.replaceChildren(...options.map(([value, text]) => element("option", {value, textContent: text})));
  if (options.some(([value]) => value === chosen)) select.value = chosen;
}

// A table of rows of texts, numbers (to the right) and elements.
export function fillTable(table, heads, rows) {
  const cell = (value) => element("td", {className: typeof value === "number" ? "number" : ""}, value ?? "");
  table.replaceChildren(element("tr", {}, ...heads.map((head) => element("th", {textContent: head}))),
    ...rows.map((row) => element("tr", {}, ...row.map(cell))));
}

export const sizeText = (size) =>
  `${size?.width ?? 0}x${size?.height ?? 0}${size?.num_frames ? `x${size.num_frames}` : ""}`;

export function blobOf(base64, type) {
  return new Blob([Uint8Array.from(atob(base64), (character) => character.charCodeAt(0))], {type});
}
