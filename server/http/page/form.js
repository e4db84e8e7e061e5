// The fields of a request, which have the names of the proto, and what the server says that they may be.
import {$, fillSelect, sizeText} from "./elements.js";
import {dataUrl, initImage, setInitImage} from "./init_image.js";

const TEXTS = ["prompt", "negative_prompt", "size", "n", "steps", "guidance_scale", "scheduler", "seed", "adapters", "model", "strength",
  "effort"];
const PREVIEWS = 8;
let capabilities = null;

const area = ({size}) => size.width * size.height;

function fillModel() {
  const model = capabilities.models.find(({component}) => component === $("model").value) ?? {};
  const buckets = (capabilities.buckets ?? []).filter((bucket) => !bucket.model || bucket.model === model.component);
  buckets.sort((a, b) => !!b.ready - !!a.ready || area(a) - area(b));
  const names = buckets.map(({size, ready}) => [sizeText(size), `${sizeText(size).replace("x", " × ")}${ready ? "" : " (not ready)"}`]);
  if (!names.length) names.push(["", "default"]);
  const last = $("size").value;
  const keeps = names.some(([name]) => name === last);
  fillSelect($("size"), names, keeps ? last : sizeText(model.default_size ?? capabilities.default_size));
  $("steps").placeholder = model.default_steps || model.default_timesteps?.length || "";
  $("guidance_scale").placeholder = model.default_guidance_scale ?? 0;
  const efforts = (model.efforts ?? []).map(({effort}) => effort.replace("EFFORT_", "").toLowerCase());
  fillSelect($("effort"), [["", "default"], ...efforts.map((name) => [name, name])], $("effort").value);
  const adapters = (capabilities.adapters ?? []).filter(({kind, models}) => kind === "ADAPTER_KIND_LORA" && models?.includes(model.component));
  $("adapters-label").hidden = !adapters.length;
  fillSelect($("adapter-names"), adapters.map(({name, base_model: of}) => [name, of ?? ""]));
  $("scheduler").options[0].textContent = `default (${model.default_scheduler || capabilities.default_scheduler || "none"})`;
}

// `said` is GetCapabilitiesResponse.
export function setCapabilities(said) {
  capabilities = said;
  const drawing = said.models.filter(({component}) => said.buckets?.some((bucket) => bucket.model === component));
  const models = drawing.length ? drawing : said.models;
  fillSelect($("model"), models.map(({component, name}) => [component, models.length > 1 ? component : name || component]), $("model").value);
  const karras = new Set((said.noise_schedulers ?? []).filter(({grids}) => grids?.includes("karras")).map(({name}) => name));
  const schedulers = (said.schedulers ?? []).flatMap((name) => karras.has(name) ? [name, `${name}_karras`] : [name]);
  fillSelect($("scheduler"), [["", ""], ...schedulers.map((name) => [name, name])], $("scheduler").value);
  $("steps").min = said.min_steps ?? 1;
  $("steps").max = said.max_steps ?? "";
  $("guidance_scale").max = said.max_guidance_scale ?? "";
  $("n").max = said.max_images_per_prompt || "";
  fillModel();
}

// What is in the form now, to be put back with setValues.
export function valuesOf() {
  return {...Object.fromEntries(TEXTS.map((id) => [id, $(id).value])), image: initImage()};
}

export function setValues({image, ...texts}) {
  $("model").value = texts.model;
  fillModel();
  for (const [id, text] of Object.entries(texts)) $(id).value = text;
  setInitImage(image);
  $("strength").dispatchEvent(new Event("input"));
}

// "film:0.8, ink" as a request has it.
function adaptersOf(text) {
  return text.split(",").filter((part) => part.trim()).map((part) => {
    const [name, weight, encoders] = part.trim().split(":");
    return {name, weight, text_encoder_weight: encoders};
  });
}

// The body of POST /v1/images/generations. Fields that are empty are the server's to choose.
export async function requestOf({image, strength, adapters, ...texts}) {
  const request = Object.fromEntries(Object.entries(texts).filter(([, text]) => text.trim() !== ""));
  const every = Math.max(1, Math.ceil(Number(texts.steps || $("steps").placeholder) / PREVIEWS));
  Object.assign(request, {stream: true, latentd_events: true, previews: {every_n_steps: every}});
  if (adapters.trim()) request.adapters = adaptersOf(adapters);
  if (image) Object.assign(request, {strength, image: await dataUrl(image)});
  return request;
}

// Marks fields that the server has refused, by its words for them.
export function markFields(violations) {
  for (const id of TEXTS) $(id).removeAttribute("aria-invalid");
  for (const {field} of violations) $(field)?.setAttribute("aria-invalid", "true");
}

export function watchForm() {
  $("model").addEventListener("change", fillModel);
  $("die").addEventListener("click", () => { $("seed").value = crypto.getRandomValues(new Uint32Array(1))[0]; });
  $("form").addEventListener("keydown", (event) => {
    if (event.key === "Enter" && (event.ctrlKey || event.metaKey)) $("form").requestSubmit();
  });
}
