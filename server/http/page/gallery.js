// The pictures that were drawn in this tab: nothing of them is kept beyond it.
import {$, element} from "./elements.js";

const MOST = 50;
const pictures = [];
let shown = null;

export const shownPicture = () => shown;

function showFacts({facts}) {
  const rows = Object.entries(facts).filter(([, value]) => value !== undefined && value !== "");
  $("facts").replaceChildren(...rows.flatMap(([name, value]) =>
    [element("dt", {textContent: name}), element("dd", {textContent: value})]));
}

export function show(picture) {
  shown = picture;
  $("picture").className = "";
  $("picture").hidden = false;
  $("picture").src = picture.url;
  $("picture").alt = picture.values.prompt;
  $("download").href = picture.url;
  $("download").download = `latentd-${picture.values.seed}.${picture.blob.type.split("/")[1]}`;
  $("shown").hidden = false;
  showFacts(picture);
  for (const other of pictures) other.button.setAttribute("aria-pressed", other === picture);
}

// `values` are the form's, with the seed of this picture; `facts` are texts by their names.
export function addPicture(blob, values, facts) {
  const url = URL.createObjectURL(blob);
  const picture = {blob, url, values, facts};
  picture.button = element("button", {type: "button", title: values.prompt, onclick: () => show(picture)},
    element("img", {src: url, alt: values.prompt}));
  pictures.unshift(picture);
  $("gallery").prepend(picture.button);
  for (const old of pictures.splice(MOST)) {
    old.button.remove();
    URL.revokeObjectURL(old.url);
  }
  show(picture);
  return picture;
}

// What is known once all pictures of a request are there.
export function addFacts(added, facts) {
  for (const picture of added) Object.assign(picture.facts, facts);
  if (added.includes(shown)) showFacts(shown);
}

export function showPreview(blob) {
  shown = null;
  URL.revokeObjectURL($("picture").dataset.preview);
  $("picture").src = $("picture").dataset.preview = URL.createObjectURL(blob);
  $("picture").className = "preview";
  $("picture").alt = "So far";
  $("picture").hidden = false;
  $("shown").hidden = true;
}
