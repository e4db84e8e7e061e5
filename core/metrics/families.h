// Every metric that latentd exports, but for process_*: name, help text, labels. docs/metrics.md
// has the same table for people, and a test holds the two and a scrape against each other.
//
// Labels are bounded: `component` is one of kComponents, `bucket` a configured bucket ("256x256")
// or "other", `stage` one of kStages, the rest as their help text says.
#pragma once

#include <cstdint>

#include "absl/types/span.h"

namespace latentd::metrics {

enum class Type : uint8_t { kCounter, kGauge, kHistogram };

struct Family {
  const char* name;
  const char* help;
  Type type;
  absl::Span<const char* const> labels;
  absl::Span<const double> bounds = {};  // of histograms
};

inline constexpr const char* kComponents[] = {"text_encoder", "text_encoder_2", "unet_base",
                                              "unet_refiner", "vae_decoder",    "vae_encoder"};
inline constexpr const char* kStages[] = {"text_encode", "vae_encode", "base",
                                          "refiner",     "vae_decode", "image_encode"};

namespace labels {
inline constexpr const char* kComponent[] = {"component"};
inline constexpr const char* kComponentReason[] = {"component", "reason"};
inline constexpr const char* kComponentResult[] = {"component", "result"};
inline constexpr const char* kComponentSource[] = {"component", "source"};
inline constexpr const char* kComponentState[] = {"component", "state"};
inline constexpr const char* kReason[] = {"reason"};
inline constexpr const char* kTier[] = {"tier"};
inline constexpr const char* kBucket[] = {"bucket"};
inline constexpr const char* kMethodCode[] = {"method", "code"};
inline constexpr const char* kMethodBucket[] = {"method", "bucket"};
inline constexpr const char* kPhase[] = {"phase"};
inline constexpr const char* kState[] = {"state"};
inline constexpr const char* kKind[] = {"kind"};
inline constexpr const char* kStage[] = {"stage"};
inline constexpr const char* kStageBucket[] = {"stage", "bucket"};
inline constexpr const char* kBucketFormat[] = {"bucket", "format"};
inline constexpr const char* kPolicy[] = {"policy"};
inline constexpr const char* kBuild[] = {"version", "libtorch", "onednn"};
inline constexpr const char* kModel[] = {"model", "class_name", "backend"};
}  // namespace labels

namespace bounds {
inline constexpr double kCompile[] = {.01, .05, .1,  .5,  1,   2,    5,   10,
                                      30,  60,  120, 300, 600, 1200, 1800};
inline constexpr double kRequest[] = {.1, .25, .5, 1, 2, 3, 5, 7.5, 10, 15, 20, 30, 60, 120, 300};
inline constexpr double kStep[] = {.001, .0025, .005, .01, .025, .05, .1,
                                   .25,  .5,    1,    2.5, 5,    10,  30};
}  // namespace bounds

// Compiling and the cache.
inline constexpr Family kGraphCompilations{
    "latentd_graph_compilations_total",
    "Graphs compiled, by what asked for it: startup, warm, cold_request, retry.", Type::kCounter,
    labels::kComponentReason};
inline constexpr Family kGraphCompileFailures{"latentd_graph_compile_failures_total",
                                              "Compilations that failed.", Type::kCounter,
                                              labels::kComponent};
inline constexpr Family kGraphCompilesInProgress{
    "latentd_graph_compiles_in_progress", "Graphs being compiled now.", Type::kGauge, {}};
inline constexpr Family kGraphReadySeconds{
    "latentd_graph_compile_duration_seconds",
    "Time until a graph was there, by source: compile, disk_load, memory_load.", Type::kHistogram,
    labels::kComponentSource, bounds::kCompile};
inline constexpr Family kGraphCacheEntries{
    "latentd_graph_cache_entries",
    "Graphs known, by state: cold, compiling, compiled, loading, ready, failed.", Type::kGauge,
    labels::kComponentState};
inline constexpr Family kGraphCacheLookups{
    "latentd_graph_cache_lookups_total",
    "Look-ups of compiled graphs: hit (loaded already), memory, disk, miss, incompatible, corrupt.",
    Type::kCounter, labels::kComponentResult};
inline constexpr Family kGraphCacheEvictions{
    "latentd_graph_cache_evictions_total",
    "Entries that left, by reason: memory_budget, disk_budget, request.", Type::kCounter,
    labels::kReason};
inline constexpr Family kGraphCacheLoadFailures{
    "latentd_graph_cache_load_failures_total",
    "Cache files that were refused: corrupt, incompatible, unreadable.", Type::kCounter,
    labels::kReason};
inline constexpr Family kGraphCacheWriteFailures{
    "latentd_graph_cache_write_failures_total",
    "Cache files that could not be written: no_space, read_only, other.", Type::kCounter,
    labels::kReason};
inline constexpr Family kGraphCacheBytes{"latentd_graph_cache_bytes",
                                         "Bytes of compiled graphs, by tier: memory, disk.",
                                         Type::kGauge, labels::kTier};
inline constexpr Family kGraphCacheBudget{"latentd_graph_cache_budget_bytes",
                                          "What each tier may hold.", Type::kGauge, labels::kTier};
inline constexpr Family kBucketWarm{"latentd_bucket_warm",
                                    "1 where every graph of the bucket is ready.", Type::kGauge,
                                    labels::kBucket};
inline constexpr Family kBucketLastUsed{"latentd_bucket_last_used_timestamp_seconds",
                                        "When a request last ran in the bucket; 0: never.",
                                        Type::kGauge, labels::kBucket};

// Start-up and state.
inline constexpr Family kStartupPhase{
    "latentd_startup_phase_duration_seconds",
    "How long starting took, by phase: weights, graph_load, compile, warmup, total.", Type::kGauge,
    labels::kPhase};
inline constexpr Family kServerState{
    "latentd_server_state",
    "1 for the state that the server is in: starting, loading, warming, ready, degraded, draining, "
    "failed.",
    Type::kGauge, labels::kState};
inline constexpr Family kReadyTimestamp{"latentd_ready_timestamp_seconds",
                                        "When the server became ready; 0: not yet.",
                                        Type::kGauge,
                                        {}};

// Memory.
inline constexpr Family kMemoryBytes{
    "latentd_device_memory_bytes",
    "Bytes held by latentd, by kind: weights, arena, state, executables.", Type::kGauge,
    labels::kKind};
inline constexpr Family kMemoryPredicted{
    "latentd_device_memory_predicted_bytes",
    "What the configured buckets were predicted to hold, by the same kinds.", Type::kGauge,
    labels::kKind};
inline constexpr Family kMemoryBudget{
    "latentd_device_memory_budget_bytes", "What latentd may hold.", Type::kGauge, {}};
inline constexpr Family kOutOfMemory{"latentd_out_of_memory_total",
                                     "Requests refused or failed for want of memory, by stage.",
                                     Type::kCounter, labels::kStage};

// Requests.
inline constexpr Family kRequests{"latentd_requests_total",
                                  "Generation calls that ended, by gRPC status code.",
                                  Type::kCounter, labels::kMethodCode};
inline constexpr Family kRequestSeconds{"latentd_request_duration_seconds",
                                        "From the arrival of a request that was queued to its end.",
                                        Type::kHistogram, labels::kMethodBucket, bounds::kRequest};
inline constexpr Family kQueueSeconds{"latentd_request_queue_duration_seconds",
                                      "From the arrival of a request to its first unit of work.",
                                      Type::kHistogram, labels::kBucket, bounds::kRequest};
inline constexpr Family kRequestsRejected{
    "latentd_requests_rejected_total",
    "Requests refused before the queue: queue_full, draining, loading, cold_bucket, invalid, oom.",
    Type::kCounter, labels::kReason};
inline constexpr Family kRequestsCancelled{"latentd_requests_cancelled_total",
                                           "Requests cancelled, by phase: queued, running.",
                                           Type::kCounter, labels::kPhase};
inline constexpr Family kRequestsInFlight{"latentd_requests_in_flight",
                                          "Requests that have been accepted and have not ended.",
                                          Type::kGauge,
                                          {}};
inline constexpr Family kQueueDepth{"latentd_queue_depth", "Pictures that wait or run, by bucket.",
                                    Type::kGauge, labels::kBucket};
inline constexpr Family kQueueCapacity{"latentd_queue_capacity",
                                       "Pictures that may wait before requests are refused.",
                                       Type::kGauge,
                                       {}};
inline constexpr Family kImages{"latentd_images_generated_total", "Pictures finished.",
                                Type::kCounter, labels::kBucketFormat};
inline constexpr Family kPixels{
    "latentd_pixels_generated_total", "Pixels of pictures finished.", Type::kCounter, {}};
inline constexpr Family kSizeAdjustments{"latentd_size_adjustments_total",
                                         "Requests that ran at another size than they asked for.",
                                         Type::kCounter, labels::kPolicy};

// Work.
inline constexpr Family kStageSeconds{"latentd_stage_duration_seconds",
                                      "Time of one stage of one picture.", Type::kHistogram,
                                      labels::kStageBucket, bounds::kRequest};
inline constexpr Family kStepSeconds{"latentd_denoise_step_duration_seconds",
                                     "Time of one denoising step.", Type::kHistogram,
                                     labels::kStageBucket, bounds::kStep};
inline constexpr Family kSteps{"latentd_denoise_steps_total", "Denoising steps done.",
                               Type::kCounter, labels::kStage};

// Results and what runs.
inline constexpr Family kInvalidImages{
    "latentd_invalid_images_total",
    "Decoded pictures with values that are not finite, by what followed: redone, failed.",
    Type::kCounter, labels::kReason};
inline constexpr Family kBuildInfo{"latentd_build_info", "Always 1.", Type::kGauge, labels::kBuild};
inline constexpr Family kModelInfo{"latentd_model_info", "Always 1, for each model served.",
                                   Type::kGauge, labels::kModel};

// All of them, in the order of docs/metrics.md.
inline constexpr const Family* kFamilies[] = {&kGraphCompilations,
                                              &kGraphCompileFailures,
                                              &kGraphCompilesInProgress,
                                              &kGraphReadySeconds,
                                              &kGraphCacheEntries,
                                              &kGraphCacheLookups,
                                              &kGraphCacheEvictions,
                                              &kGraphCacheLoadFailures,
                                              &kGraphCacheWriteFailures,
                                              &kGraphCacheBytes,
                                              &kGraphCacheBudget,
                                              &kBucketWarm,
                                              &kBucketLastUsed,
                                              &kStartupPhase,
                                              &kServerState,
                                              &kReadyTimestamp,
                                              &kMemoryBytes,
                                              &kMemoryPredicted,
                                              &kMemoryBudget,
                                              &kOutOfMemory,
                                              &kRequests,
                                              &kRequestSeconds,
                                              &kQueueSeconds,
                                              &kRequestsRejected,
                                              &kRequestsCancelled,
                                              &kRequestsInFlight,
                                              &kQueueDepth,
                                              &kQueueCapacity,
                                              &kImages,
                                              &kPixels,
                                              &kSizeAdjustments,
                                              &kStageSeconds,
                                              &kStepSeconds,
                                              &kSteps,
                                              &kInvalidImages,
                                              &kBuildInfo,
                                              &kModelInfo};

}  // namespace latentd::metrics
