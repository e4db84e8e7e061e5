// The picture that a request starts from: chosen, dropped, pasted, or one that was drawn here.
import {$} from "./elements.js";

const TYPES = ["image/png", "image/jpeg", "image/webp"];
let picture = null;

const showStrength = () => { $("strength-value").textContent = $("strength").value; };

// A Blob, or null.
export function setInitImage(blob) {
  if (picture) URL.revokeObjectURL($("init-image").src);
  picture = blob;
  $("init").hidden = !blob;
  if (blob) $("init-image").src = URL.createObjectURL(blob);
  else $("file").value = "";
}

export const initImage = () => picture;

// As a request has it: a data: URL.
export function dataUrl(blob) {
  return new Promise((tell, fail) => {
    const reader = new FileReader();
    reader.onload = () => tell(reader.result);
    reader.onerror = () => fail(reader.error);
    reader.readAsDataURL(blob);
  });
}

function take(event, files) {
  const file = [...files].find(({type}) => TYPES.includes(type));
  if (!file) return;
  event.preventDefault();
  setInitImage(file);
}

export function watchInitImage() {
  const over = (is) => $("drop").classList.toggle("over", is);
  document.addEventListener("dragover", (event) => {
    if (!event.dataTransfer.types.includes("Files")) return;
    event.preventDefault();
    over(true);
  });
  document.addEventListener("dragleave", (event) => { if (!event.relatedTarget) over(false); });
  document.addEventListener("drop", (event) => {
    over(false);
    // Else the browser would open a file of another type in the page's place.
    if (event.dataTransfer.types.includes("Files")) event.preventDefault();
    take(event, event.dataTransfer.files);
  });
  document.addEventListener("paste", (event) => take(event, event.clipboardData.files));
  $("file").addEventListener("change", (event) => take(event, event.target.files));
  $("init-remove").addEventListener("click", () => setInitImage(null));
  $("strength").addEventListener("input", showStrength);
  showStrength();
}
