// A request from its submission to its last picture.
import {ask, readEvents, ServerError} from "./api.js";
import {$, blobOf, sizeText} from "./elements.js";
import {markFields, requestOf, valuesOf} from "./form.js";
import {addFacts, addPicture, show, showPreview, shownPicture} from "./gallery.js";

let running = null;

const seconds = (duration) => `${parseFloat(duration).toFixed(1)} s`;
const say = (text) => { $("activity").textContent = text; };

function showError(error) {
  markFields(error.violations ?? []);
  $("error").textContent = error.message;
  $("error").hidden = false;
}

// Facts of the whole request, of Completed.
function factsOf({parameters = {}, timings, warnings, executed_size: executed, request_id: id}) {
  return {
    Steps: parameters.num_inference_steps, Guidance: parameters.guidance_scale, Scheduler: parameters.scheduler,
    Strength: parameters.strength, Bucket: executed, Time: timings && seconds(timings.total),
    Warnings: warnings?.join("; "), Request: id,
  };
}

class Drawing {
  constructor(values) {
    this.values = values;
    this.count = Number(values.n) || 1;
    this.steps = new Map();
    this.pictures = [];
  }

  take(name, text) {
    const event = name.replace(/^(latentd|image_generation)\./, "");
    this[event]?.(JSON.parse(text), text);
  }

  queued({position = 0, estimated_wait: wait}) {
    say(`Waiting, ${position} before it${wait ? `; begins in about ${seconds(wait)}` : ""}.`);
  }

  started({executed_size: size}) {
    say(`Drawing at ${sizeText(size)}.`);
  }

  progress({image_index: image = 0, stage, step = 0, total_steps: total}) {
    if (stage !== "STAGE_STEPS") return;
    this.steps.set(image, step / total);
    $("progress").value = [...this.steps.values()].reduce((sum, part) => sum + part, 0) / this.count;
    say(`${this.count > 1 ? `Picture ${image + 1} of ${this.count}, step` : "Step"} ${step} of ${total}.`);
  }

  preview({data, mime_type: type}) {
    showPreview(blobOf(data, type));
  }

  completed(event, text) {
    // Seeds have 64 bits, numbers here 53.
    const seed = /"seed":(\d+)/.exec(text)[1];
    const blob = blobOf(event.b64_json, `image/${event.output_format}`);
    this.pictures.push(addPicture(blob, {...this.values, seed, n: "1"}, {Prompt: this.values.prompt, Seed: seed, Size: event.size}));
    if (event.latentd) addFacts(this.pictures, factsOf(event.latentd));
  }

  error({error}) {
    throw new ServerError(0, error);
  }

  async run(signal) {
    const body = JSON.stringify(await requestOf(this.values));
    const answer = await ask("v1/images/generations", {method: "POST", body, signal, headers: {"Content-Type": "application/json"}});
    await readEvents(answer, (name, text) => this.take(name, text));
    if (this.pictures.length < this.count) throw new Error("The connection broke.");
  }
}

function setRunning(controller) {
  running = controller;
  $("draw").disabled = !!controller;
  $("stop").disabled = !controller;
  $("progress").hidden = !controller;
  $("progress").value = 0;
}

// Draws what is in the form; one request at a time.
export async function draw() {
  if (running) return;
  const controller = new AbortController();
  const before = shownPicture();
  setRunning(controller);
  $("error").hidden = true;
  markFields([]);
  say("Sending.");
  const drawing = new Drawing(valuesOf());
  try {
    await drawing.run(controller.signal);
    say("Done.");
  } catch (error) {
    const stopped = controller.signal.aborted;
    say(stopped ? "Stopped." : "");
    controller.abort();  // nothing reads the rest
    if (!stopped) showError(error);
    if (!shownPicture() && before) show(before);
  }
  setRunning(null);
}

export const stop = () => running?.abort();
