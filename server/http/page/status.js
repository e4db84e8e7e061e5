// What the server says of itself: to all its state, to who runs it also sizes, memory and graphs.
import {get} from "./api.js";
import {$, element, fillTable, sizeText} from "./elements.js";
import {setCapabilities} from "./form.js";

const KINDS = {
  weights_bytes: "weights", arena_bytes: "intermediates", state_bytes: "pictures at work", executables_bytes: "loaded graphs",
  results_bytes: "finished pictures", waiting_images_bytes: "pictures of requests", artifacts_bytes: "compiled graphs",
  graph_definitions_bytes: "declared graphs",
};
const OF_THE_DEVICE = 4;  // the first of them, where a device has memory of its own
const SERVES = ["SERVER_STATE_READY", "SERVER_STATE_DEGRADED"];  // in others capabilities are refused
const OFTEN = 1000, SELDOM = 5000;
let known = "";

const colour = (i) => `k${i % 4}${i < 4 ? "" : " light"}`;
const mebibytes = (bytes) => Math.round(Number(bytes ?? 0) / 2 ** 20);
const short = (name) => (name ?? "").replace(/^[A-Z]+_STATE_/, "").toLowerCase();
const secondsOf = (duration) => duration ? Number(parseFloat(duration).toFixed(2)) : "";

function showState({state, reason, graphs_done: done = 0, graphs_total: total = 0}) {
  const warming = state === "SERVER_STATE_WARMING";
  $("state").textContent = warming ? `preparing ${done} of ${total}` : short(state);
  $("state").title = reason ?? "";
  $("state").className = state === "SERVER_STATE_READY" ? "" : "bad";
}

function showMemory(report) {
  const all = Object.entries(KINDS);
  const kinds = report.devices?.length ? all.slice(0, OF_THE_DEVICE) : all;
  const budget = Number(report.budget_bytes ?? 0);
  $("bar").replaceChildren(...kinds.map(([field, name], i) => {
    const part = element("span", {title: name, className: colour(i)});
    part.style.width = `${budget ? 100 * Number(report[field] ?? 0) / budget : 0}%`;
    return part;
  }));
  const rows = all.map(([field, name], i) => [element("span", {}, element("i", {className: i < kinds.length ? colour(i) : ""}), name), mebibytes(report[field])]);
  const held = kinds.reduce((sum, [field]) => sum + Number(report[field] ?? 0), 0);
  rows.push(["held of the budget", mebibytes(held)], ["budget", mebibytes(budget)], ["process, resident", mebibytes(report.resident_bytes)]);
  fillTable($("memory"), ["kind", "MiB"], rows);
}

function showGraphs({graphs = []}) {
  fillTable($("graphs"), ["graph", "size", "rows", "precision", "models", "state", "compiled in s", "loaded in s", "MiB", "hits"],
    graphs.map((graph) => [
      [graph.component, graph.part].filter(Boolean).join(" "), graph.bucket ? sizeText(graph.bucket) : "all", graph.rows ?? 0,
      graph.precision, (graph.users ?? []).join(", "), [short(graph.state), graph.reason].filter(Boolean).join(": "),
      secondsOf(graph.compile_time), secondsOf(graph.load_time), mebibytes(graph.device_bytes), Number(graph.hits ?? 0)]));
}

export async function showOperators() {
  if (!$("server").open) return;
  try {
    showMemory(await get("latent/v1/memory", {quiet: true}));
    showGraphs(await get("latent/v1/graphs", {quiet: true}));
  } catch (error) {
    for (const id of ["bar", "memory", "graphs"]) $(id).replaceChildren();
    $("graphs").append(element("caption", {className: "quiet", textContent: error.message}));
  }
}

// Capabilities change with the buckets that are ready.
async function follow(status) {
  showState(status);
  $("version").textContent = `latentd ${status.version ?? ""}`;
  fillTable($("buckets"), ["size", "model", "state"], (status.buckets ?? []).map(({size, model, ready, reason}) =>
    [sizeText(size), model, ready ? "ready" : reason || "not ready"]));
  const now = JSON.stringify([status.state, status.buckets]);
  if (now === known || !SERVES.includes(status.state)) return;
  setCapabilities(await get("latent/v1/capabilities"));
  known = now;
}

export async function watchServer() {
  let pause = SELDOM;
  try {
    const status = await get("latent/v1/status", {quiet: known !== ""});
    if (status.state !== "SERVER_STATE_READY") pause = OFTEN;
    await follow(status);
    await showOperators();
  } catch (error) {
    $("state").textContent = "not there";
    $("state").title = error.message;
    $("state").className = "bad";
    // Who has no key is not asked over and over.
    if (error.status === 401) return document.addEventListener("key", watchServer, {once: true});
  }
  setTimeout(watchServer, document.hidden ? SELDOM * 4 : pause);
}
