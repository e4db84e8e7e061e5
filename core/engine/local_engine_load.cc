// From a configuration to a server that serves: checkpoints, then the graphs of every bucket.
#include <algorithm>
#include <filesystem>
#include <map>
#include <set>
#include <utility>

#include "absl/strings/str_cat.h"
#include "core/base/error_details.h"
#include "core/base/memory_limit.h"
#include "core/base/status_macros.h"
#include "core/base/text.h"
#include "core/engine/graph_selection.h"
#include "core/engine/local_engine.h"
#include "core/engine/reporting.h"
#include "core/pipeline/loading.h"
#include "core/weights/checkpoint_file.h"

namespace latentd::engine {
namespace {

using compiler::GraphStore;

std::vector<pipeline::Size> BucketsOf(const Config& config, pipeline::Size own) {
  if (!config.buckets.empty()) return config.buckets;
  std::vector<pipeline::Size> buckets;
  for (const batching::Bucket& bucket : batching::DefaultBuckets({own.width, own.height})) {
    buckets.push_back({bucket.width, bucket.height});
  }
  return buckets;
}

// What a server that is ready refuses all the same; empty: nothing.
std::string RestrictionOf(const Config& config) {
  if (!pipeline::IsOff(config.components, "unet_base")) return "";
  return "unet_base is off (--components), so that only the refiner draws, from an image: requests "
         "without model MODEL_REFINER are refused";
}

std::string NameOf(const ModelInfo& model) {
  const auto path = std::filesystem::path(model.path).lexically_normal();
  return path.has_filename() ? path.filename() : path.parent_path().filename();
}

void SetMemory(metrics::Registry& registry, const metrics::Family& family,
               const MemoryPrediction& bytes) {
  registry.GetGauge(family, {"weights"}).Set(static_cast<double>(bytes.weights));
  registry.GetGauge(family, {"arena"}).Set(static_cast<double>(bytes.arena));
  registry.GetGauge(family, {"state"}).Set(static_cast<double>(bytes.state));
  registry.GetGauge(family, {"executables"}).Set(static_cast<double>(bytes.executables));
}

}  // namespace

absl::Status LocalEngine::Load() {
  const absl::Time begin = clock_.Monotonic();
  absl::Status loaded = LoadModels();
  if (!loaded.ok()) return FailLoading(loaded);
  const absl::Duration weights_took = clock_.Monotonic() - begin;
  loaded = WarmBuckets();
  if (GetReason(loaded) == weights::kCheckpointChanged) return FailLoading(loaded);
  RETURN_IF_ERROR(loaded);
  stores_.writes.Flush();
  ShowPhases(weights_took, clock_.Monotonic() - begin);
  if (config_.forbid_compile_after_ready) stores_.graphs.ForbidCompiling();
  ShowBuckets(/*warmed=*/true);
  return stop_ ? absl::CancelledError("stopped while loading") : absl::OkStatus();
}

absl::Status LocalEngine::FailLoading(const absl::Status& status) {
  board_.Update([&](ServerStatus& shown) {
    shown.state = State::kFailed;
    shown.reason = std::string(status.message());
  });
  return stop_ ? absl::CancelledError("stopped while loading") : status;
}

absl::Status LocalEngine::LoadModels() {
  const pipeline::LoadOptions options{.base = config_.base,
                                      .refiner = config_.refiner,
                                      .variant = config_.variant,
                                      .memory_bytes = config_.memory_bytes,
                                      .give_up = &stop_,
                                      .digests = stores_.digests,
                                      .components = config_.components,
                                      .precision = config_.precision,
                                      .holds_fp16_in_fp32 = config_.backend == "cpu",
                                      .reference = stores_.reference.get(),
                                      .buckets = config_.buckets,
                                      .vae_tiling_above = config_.vae_tiling_above};
  ASSIGN_OR_RETURN(pipeline_, pipeline::LoadPipeline(options, stores_.weights, stores_.graphs));
  OpenBuckets();
  ShowModels();
  watch_.Open(pipeline_->CheckpointFiles());
  return absl::OkStatus();
}

void LocalEngine::OpenBuckets() {
  const std::vector<pipeline::Size> buckets = BucketsOf(config_, pipeline_->traits().default_size);
  std::vector<std::string> labels;
  labels.reserve(buckets.size());
  for (pipeline::Size bucket : buckets) labels.push_back(SizeText(bucket));
  registry_.DeclareBuckets(labels);
  budget_.Open(
      {.bytes = MemoryBudget::BytesOf(config_.memory_bytes, MeasureAvailableMemory().bytes),
       .configured = buckets,
       .state_bytes = [this](pipeline::Size bucket, int rows) {
         return pipeline_->StateBytes(bucket, rows);
       }});
  buckets_ = std::make_unique<BucketGraphs>(
      *pipeline_, stores_.graphs, BucketGraphs::Options{.buckets = buckets, .rows = config_.rows});
  admin_.Open(*buckets_);
}

void LocalEngine::ShowModels() {
  for (const ModelInfo& model : CapabilitiesOf(*pipeline_, config_, {}).models) {
    registry_.GetGauge(metrics::kModelInfo, {NameOf(model), model.class_name, config_.backend})
        .Set(1);
  }
}

// No moment counts twice, though two threads are at it: the total is the sum of the others.
void LocalEngine::ShowPhases(absl::Duration weights, absl::Duration total) {
  const GraphStore::Totals graphs = stores_.graphs.totals();
  const std::pair<const char*, absl::Duration> phases[] = {
      {"weights", weights},
      {"compile", graphs.compile_time},
      {"graph_load", graphs.load_time},
      {"warmup", total - weights - graphs.compile_time - graphs.load_time},
      {"total", total}};
  for (const auto& [phase, duration] : phases) {
    registry_.GetGauge(metrics::kStartupPhase, {phase}).Set(absl::ToDoubleSeconds(duration));
  }
}

// The largest bucket first: it needs the largest arena, and what does not fit is known early.
absl::Status LocalEngine::WarmBuckets() {
  GraphHandles graphs;
  std::set<std::string> ids;
  for (pipeline::Size bucket : buckets_->configured()) {
    const absl::StatusOr<GraphHandles> its = buckets_->GraphsOf(bucket);
    if (!its.ok()) continue;
    graphs.insert(graphs.end(), its->begin(), its->end());
    for (const compiler::GraphHandle& graph : *its) ids.insert(GraphStore::IdOf(graph));
  }
  board_.Update([&](ServerStatus& status) {
    status.state = State::kWarming;
    status.graphs_total = static_cast<int>(ids.size());
  });
  std::map<std::string, absl::Status> failures;
  const auto note = [&](const WarmProgress& progress) {
    if (!progress.entry.status.ok()) failures[progress.entry.id] = progress.entry.status;
    NoteProgress(progress);
    ShowBuckets();
    return true;
  };
  const auto mode =
      config_.compile_at_start ? compiler::GetMode::kCompile : compiler::GetMode::kLoad;
  RETURN_IF_ERROR(
      warming_.Run(graphs, {mode, compiler::Reason::kStartup}, Warming::Pace::kAtOnce, note)
          .status());
  // Started again, it finds one content or the other.
  for (const auto& [id, failure] : failures) {
    if (GetReason(failure) == weights::kCheckpointChanged) return failure;
  }
  for (pipeline::Size bucket : buckets_->configured()) {
    buckets_->SetOutcome(bucket, buckets_->OutcomeOf(bucket, failures));
  }
  return absl::OkStatus();
}

void LocalEngine::NoteProgress(const WarmProgress& progress) {
  if (!progress.entry.status.ok()) return;
  const absl::StatusOr<compiler::GraphStatus> graph = stores_.graphs.Find(progress.entry.id);
  board_.Update([&](ServerStatus& status) {
    ++status.graphs_done;
    if (graph.ok()) {
      status.reason =
          absl::StrCat(progress.compiled ? "compiled " : "loaded ", graph->label.ToText());
    }
  });
}

void LocalEngine::ShowBuckets(bool warmed) {
  // Asked within Update, so that what is newer is shown later.
  board_.Update([&](ServerStatus& status) {
    status.buckets.clear();
    std::vector<std::string> missing;
    for (const BucketGraphs::BucketState& state : buckets_->BucketStates()) {
      const ServerStatus::Bucket& bucket = state.bucket;
      status.buckets.push_back(bucket);
      if (!state.configured) continue;
      const std::string name = SizeText(bucket.size);
      registry_.GetGauge(metrics::kBucketWarm, {name}).Set(state.warm ? 1 : 0);
      if (!bucket.ready) missing.push_back(absl::StrCat(name, ": ", bucket.reason));
    }
    for (const std::string& path : watch_.edited()) {
      missing.push_back(absl::StrCat(path, " was changed while it is in use: restart the server"));
    }
    if (!warmed && status.state != State::kReady && status.state != State::kDegraded) return;
    status.state = missing.empty() ? State::kReady : State::kDegraded;
    status.reason = missing.empty() ? RestrictionOf(config_) : ListSome(missing, kMostNamed, "; ");
  });
}

void LocalEngine::RefreshMetrics() {
  const MemoryReport report = admin_.memory();
  SetMemory(registry_, metrics::kMemoryBytes,
            {.weights = report.weight_bytes,
             .arena = report.arena_bytes,
             .state = report.state_bytes,
             .executables = report.executable_bytes});
  const auto set = [&](const char* kind, int64_t bytes) {
    registry_.GetGauge(metrics::kMemoryBytes, {kind}).Set(static_cast<double>(bytes));
  };
  set("artifacts", report.artifact_bytes);
  set("results", report.result_bytes);
  SetMemory(registry_, metrics::kMemoryPredicted, report.predicted);
  set("graph_definitions", report.definition_bytes);
  set("waiting_images", report.waiting_image_bytes);
  registry_.GetGauge(metrics::kUnitOverdue).Set(CheckLoop().overdue.has_value() ? 1 : 0);
  registry_.GetGauge(metrics::kMemoryBudget).Set(static_cast<double>(report.budget_bytes));
  if (!admin_.is_open()) return;
  stores_.graphs.RefreshMetrics();
  ShowBuckets();
}

}  // namespace latentd::engine
