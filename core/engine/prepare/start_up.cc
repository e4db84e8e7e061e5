#include "core/engine/prepare/start_up.h"

#include <memory>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "absl/algorithm/container.h"
#include "absl/strings/str_cat.h"
#include "core/base/errors/error_details.h"
#include "core/base/errors/status_macros.h"
#include "core/base/text/text.h"
#include "core/pipeline/loading.h"
#include "core/pipeline/spec/request/limits.h"
#include "core/weights/checkpoint_file.h"

namespace latentd::engine {
namespace {

using compiler::GraphStore;

}  // namespace

absl::Status StartUp::Run() {
  const absl::Time begin = parts_.clock.Monotonic();
  absl::Status loaded = LoadModels();
  if (!loaded.ok()) return FailLoading(loaded);
  const absl::Duration weights_took = parts_.clock.Monotonic() - begin;
  loaded = WarmBuckets();
  if (GetReason(loaded) == weights::kCheckpointChanged) return FailLoading(loaded);
  RETURN_IF_ERROR(loaded);
  parts_.stores.weights.StopKeeping();
  parts_.stores.writes.Flush();
  ShowPhases(weights_took, parts_.clock.Monotonic() - begin);
  if (parts_.config.forbid_compile_after_ready) parts_.stores.graphs.ForbidCompiling();
  parts_.show_buckets(/*warmed=*/true);
  return parts_.stop ? absl::CancelledError("stopped while loading") : absl::OkStatus();
}

absl::Status StartUp::FailLoading(const absl::Status& status) {
  parts_.status.Update([&](ServerStatus& shown) {
    shown.state = State::kFailed;
    shown.reason = std::string(status.message());
  });
  return parts_.stop ? absl::CancelledError("stopped while loading") : status;
}

absl::Status StartUp::LoadModels() {
  pipeline::LoadOptions options{.base = parts_.config.base,
                                .refiner = parts_.config.refiner,
                                .base_parts = parts_.config.base_parts,
                                .refiner_parts = parts_.config.refiner_parts,
                                .models = parts_.config.models,
                                .devices = parts_.devices,
                                .device = parts_.device,
                                .adapters = parts_.adapters,
                                .path_slots = parts_.config.adapter_slots,
                                .path_ranks = parts_.config.adapter_ranks,
                                .variant = parts_.config.variant,
                                .memory_bytes = parts_.config.memory_bytes,
                                .give_up = &parts_.stop,
                                .digests = parts_.stores.digests,
                                .components = parts_.config.components,
                                .precision = parts_.config.precision,
                                .f8_convolutions = parts_.config.f8_convolutions,
                                .holds_fp16_in_fp32 = parts_.config.backend == "cpu",
                                .reference = parts_.stores.reference.get(),
                                .buckets = parts_.config.buckets,
                                .row_counts = parts_.config.rows,
                                .max_shared_pixels = parts_.config.max_shared_pixels,
                                .split = parts_.config.split != batching::Split::kNever,
                                .feature_cache = parts_.config.feature_cache,
                                .prompt_chunks = parts_.config.prompt_chunks,
                                .prompt_blends = parts_.config.prompt_blends,
                                .vae_tiling_above = parts_.config.vae_tiling_above,
                                .pixels_in_parts = parts_.config.pixels_in_parts,
                                .scheduler = parts_.config.scheduler,
                                .preset = parts_.config.preset};
  if (parts_.config.warns_of_checkpoints) {
    options.warn = parts_.config.warn;
    options.note = parts_.config.note;
  }
  ASSIGN_OR_RETURN(parts_.models.pipeline,
                   pipeline::LoadPipeline(options, parts_.stores.weights, parts_.stores.graphs));
  RETURN_IF_ERROR(OpenBuckets());
  parts_.loaded();
  return absl::OkStatus();
}

absl::Status StartUp::OpenBuckets() {
  ASSIGN_OR_RETURN(const AvailableMemory available, parts_.stores.weights.device().Available());
  const pipeline::Pipeline& pipeline = *parts_.models.pipeline;
  parts_.models.buckets = std::make_unique<BucketGraphs>(pipeline, parts_.stores.graphs);
  std::vector<MemoryBudget::Bucket> buckets;  // buckets that are loaded together
  std::vector<std::string> labels;
  for (const ModelBucket& bucket : parts_.models.buckets->configured()) {
    if (!absl::c_linear_search(labels, SizeText(bucket.size))) {
      labels.push_back(SizeText(bucket.size));
    }
    if (parts_.models.buckets->IsOnDemand(bucket)) continue;
    buckets.push_back({pipeline.table()[bucket.model].name, bucket.size});
  }
  parts_.registry.Declare(metrics::Declared::kBuckets, labels);
  parts_.budget.Open({.bytes = MemoryBudget::BytesOf(parts_.config.memory_bytes, available.bytes),
                      .configured = buckets,
                      .state_bytes = [&models = parts_.models](pipeline::Size bucket, int rows) {
                        return models.pipeline->StateBytes(bucket, rows);
                      }});
  PinModels();
  return absl::OkStatus();
}

// No moment counts twice, though two threads are at it: the total is the sum of the others.
void StartUp::ShowPhases(absl::Duration weights, absl::Duration total) {
  const GraphStore::Totals graphs = parts_.stores.graphs.totals();
  const std::pair<const char*, absl::Duration> phases[] = {
      {"weights", weights},
      {"compile", graphs.compile_time},
      {"graph_load", graphs.load_time},
      {"warmup", total - weights - graphs.compile_time - graphs.load_time},
      {"total", total}};
  for (const auto& [phase, duration] : phases) {
    parts_.registry.GetGauge(metrics::kStartupPhase, {phase}).Set(absl::ToDoubleSeconds(duration));
  }
}

// The largest bucket first: it needs the largest arena, and what does not fit is known early.
absl::Status StartUp::WarmBuckets() {
  BucketGraphs& buckets = *parts_.models.buckets;
  GraphHandles graphs, previews, on_demand, controlled = buckets.ControlNetGraphs();
  std::set<std::string> ids;
  for (const ModelBucket& bucket : buckets.configured()) {
    const absl::StatusOr<GraphHandles> its =
        buckets.GraphsOf(bucket, BucketGraphs::RowCounts::kOfPicture);
    if (!its.ok()) continue;
    GraphHandles& wanted = buckets.IsOnDemand(bucket) ? on_demand : graphs;
    wanted.insert(wanted.end(), its->begin(), its->end());
    for (int rows = 1; rows <= pipeline::kMaxRowsOfPicture; ++rows) {
      const absl::StatusOr<GraphHandles> steps = buckets.AddControlled(bucket, rows);
      if (steps.ok()) AddOnce(*steps, controlled);
    }
    const absl::StatusOr<GraphHandles> shown = buckets.AddPreviews(bucket);
    if (!shown.ok()) continue;
    GraphHandles& also = buckets.IsOnDemand(bucket) ? on_demand : previews;
    also.insert(also.end(), shown->begin(), shown->end());
  }
  for (const GraphHandles* all : {&graphs, &previews}) {
    for (const compiler::GraphHandle& graph : *all) ids.insert(GraphStore::IdOf(graph));
  }
  std::erase_if(on_demand, [&](const compiler::GraphHandle& graph) {
    return ids.contains(GraphStore::IdOf(graph));
  });
  for (const GraphHandles* all : {&on_demand, &controlled}) {
    for (const compiler::GraphHandle& graph : *all) ids.insert(GraphStore::IdOf(graph));
  }
  parts_.status.Update([&](ServerStatus& status) {
    status.state = State::kWarming;
    status.graphs_total = static_cast<int>(ids.size());
  });
  ASSIGN_OR_RETURN(Preparer::Ended ended, Prepare(graphs, How::kLoad));
  RETURN_IF_ERROR(WarmPreviews(previews));
  RETURN_IF_ERROR(CompileOnDemand(on_demand, ended.failures));
  RETURN_IF_ERROR(CompileControlled(controlled));
  for (const ModelBucket& bucket : buckets.configured()) {
    buckets.SetOutcome(bucket, buckets.OutcomeOf(bucket, ended.failures));
  }
  return absl::OkStatus();
}

absl::Status StartUp::CompileOnDemand(const GraphHandles& graphs, Preparer::Failures& failures) {
  if (graphs.empty()) return absl::OkStatus();
  ASSIGN_OR_RETURN(const Preparer::Ended ended, Prepare(graphs, How::kCompileOnly));
  failures.insert(ended.failures.begin(), ended.failures.end());
  return absl::OkStatus();
}

// Pictures without ControlNets and IP-Adapters do without them.
absl::Status StartUp::CompileControlled(const GraphHandles& graphs) {
  if (graphs.empty()) return absl::OkStatus();
  ASSIGN_OR_RETURN(const Preparer::Ended ended, Prepare(graphs, How::kCompileOnly));
  if (ended.failure_texts.empty() || !parts_.config.warn) return absl::OkStatus();
  parts_.config.warn(absl::StrCat("some pictures with ControlNets or IP-Adapters will be refused: ",
                                  ListSome(ended.failure_texts, kMostNamed, "; ")));
  return absl::OkStatus();
}

void StartUp::PinModels() {
  for (const pipeline::ModelRow& model : parts_.models.pipeline->table().rows()) {
    if (model.is_pinned()) parts_.stores.graphs.SetModelPinned(model.name, true);
  }
}

// Last, and where nothing else has to leave memory for them: without them previews are in colours.
absl::Status StartUp::WarmPreviews(const GraphHandles& previews) {
  ASSIGN_OR_RETURN(const Preparer::Ended ended, Prepare(previews, How::kLoadBesideOthers));
  if (ended.failure_texts.empty() || !parts_.config.warn) return absl::OkStatus();
  parts_.config.warn(absl::StrCat("previews of some sizes are in colours, not by the tiny VAE: ",
                                  ListSome(ended.failure_texts, kMostNamed, "; ")));
  return absl::OkStatus();
}

absl::StatusOr<Preparer::Ended> StartUp::Prepare(const GraphHandles& graphs, How how) {
  using compiler::GetMode;
  Preparer::Ended ended = parts_.preparer.Prepare(
      {.priority = Preparer::Priority::kStart,
       .purpose = {.mode = parts_.config.compile_at_start ? GetMode::kCompile : GetMode::kLoad,
                   .reason = compiler::Reason::kStartup,
                   .displaces_nothing = how == How::kLoadBesideOthers},
       .compile_only = how == How::kCompileOnly,
       .graphs = graphs,
       .progress = [this](const WarmProgress& progress) {
         ShowProgress(progress);
         return true;
       }});
  RETURN_IF_ERROR(ended.status);
  // Started again, it finds one content or the other.
  for (const auto& [graph, failure] : ended.failures) {
    if (GetReason(failure) == weights::kCheckpointChanged) return failure;
  }
  return ended;
}

void StartUp::ShowProgress(const WarmProgress& progress) {
  const absl::StatusOr<compiler::GraphStatus> graph = parts_.stores.graphs.Find(progress.entry.id);
  parts_.status.Update([&](ServerStatus& status) {
    if (!progress.entry.status.ok()) return;
    ++status.graphs_done;
    if (!graph.ok() || status.state != State::kWarming) return;
    status.reason =
        absl::StrCat(progress.compiled ? "compiled " : "loaded ", graph->label.ToText());
  });
  parts_.show_buckets(/*warmed=*/false);
}

}  // namespace latentd::engine
