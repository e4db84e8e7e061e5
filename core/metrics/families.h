// Every metric that latentd exports, but for process_*: name, help text, type, labels with all the
// values that they can have. docs/metrics.md has the same table for people, and a test holds the
// two and a scrape against each other.
#pragma once

#include "core/metrics/bounds.h"
#include "core/metrics/family.h"

namespace latentd::metrics {

inline constexpr Label kComponent{
    "component",
    "text_encoder,text_encoder_2,unet,vae_decoder,vae_encoder,vae_tiny,control_net,image_encoder,"
    "ip_adapter"};
inline constexpr Label kModel{"model", "", Declared::kModels};
inline constexpr Label kBucket{"bucket", kOther, Declared::kBuckets};
inline constexpr Label kConfiguredBucket{"bucket", "", Declared::kBuckets};
inline constexpr Label kDeviceLabel{"device", "", Declared::kDevices};
inline constexpr Label kUnitStage{"stage", "text,image,steps,decode,preview"};
inline constexpr Label kMethod{"method",
                               "Generate,GenerateStream,GenerateVideo,Encode,openai.generations,"
                               "openai.edits,openai.variations,openai.videos,"
                               "sdapi.txt2img,sdapi.img2img,hf"};
inline constexpr Label kMemoryKind{"kind", "weights,arena,state,executables"};
inline constexpr Label kHeldKind{
    "kind",
    "weights,kept_tensors,arena,state,results,executables,artifacts,graph_definitions,"
    "waiting_images"};
inline constexpr Label kDeviceKind{"kind", "weights,kept_tensors,arena,state,executables"};
inline constexpr Label kClientKind{"kind",
                                   "received_requests,read_requests,decoded_images,"
                                   "video_encoders,video_files,log"};
inline constexpr Label kPlace{"place", "device,host"};
inline constexpr Label kTier{"tier", "memory,disk"};
inline constexpr Label kPhase{"phase", "queued,running"};
inline constexpr Label kPriority{"priority", "-3,-2,-1,0,1,2,3"};

// Compiling and the cache.
inline constexpr Family kGraphCompilations{
    "latentd_graph_compilations_total",
    "Graphs compiled, by what asked for it.",
    Type::kCounter,
    {kModel, kComponent, {"reason", "startup,warm,cold_request,retry"}}};
inline constexpr Family kGraphCompileFailures{"latentd_graph_compile_failures_total",
                                              "Compilations that failed.",
                                              Type::kCounter,
                                              {kModel, kComponent}};
inline constexpr Family kGraphCompilesInProgress{"latentd_graph_compiles_in_progress",
                                                 "Graphs being compiled now.", Type::kGauge};
inline constexpr Family kGraphReadySeconds{
    "latentd_graph_compile_duration_seconds",
    "Time until a graph was there, by where it came from.",
    Type::kHistogram,
    {kModel, kComponent, {"source", "compile,disk_load,memory_load"}},
    bounds::kCompile};
inline constexpr Family kGraphCacheEntries{
    "latentd_graph_cache_entries",
    "Graphs known, by state; cold or compiled as of the last look at the cache directory.",
    Type::kGauge,
    {kModel, kComponent, {"state", "cold,compiling,compiled,loading,ready,failed"}}};
inline constexpr Family kGraphCacheLookups{
    "latentd_graph_cache_lookups_total",
    "Look-ups of compiled graphs; a hit was loaded already, memory and disk had the artifact.",
    Type::kCounter,
    {kModel, kComponent, {"result", "hit,memory,disk,miss,incompatible,corrupt"}}};
inline constexpr Family kGraphCacheEvictions{"latentd_graph_cache_evictions_total",
                                             "Cache entries that left.",
                                             Type::kCounter,
                                             {{"reason", "memory_budget,disk_budget,request"}}};
inline constexpr Family kGraphCacheLoadFailures{"latentd_graph_cache_load_failures_total",
                                                "Cache files that were refused.",
                                                Type::kCounter,
                                                {{"reason", "corrupt,incompatible,unreadable"}}};
inline constexpr Family kGraphCacheWriteFailures{"latentd_graph_cache_write_failures_total",
                                                 "Cache files that could not be written.",
                                                 Type::kCounter,
                                                 {{"reason", "no_space,read_only,other"}}};
inline constexpr Family kGraphCacheBytes{
    "latentd_graph_cache_bytes", "Bytes of compiled graphs, by tier.", Type::kGauge, {kTier}};
inline constexpr Family kGraphCacheBudget{
    "latentd_graph_cache_budget_bytes", "What each tier may hold.", Type::kGauge, {kTier}};
inline constexpr Family kGraphCacheLastLook{
    "latentd_graph_cache_last_look_timestamp_seconds",
    "When it was last looked which graphs are in the cache directory; 0: not yet, or none is used.",
    Type::kGauge};
// All 0 in a start that finds its graphs on disk, but for plans restored, and for findings of
// shapes that weights are made with.
inline constexpr Family kKernelTrials{"latentd_kernel_trials_total",
                                      "Shapes of matrix products whose algorithms were timed.",
                                      Type::kCounter};
inline constexpr Family kKernelTrialFaults{
    "latentd_kernel_trial_faults_total",
    "Algorithms that ended the process that tried them, and were left out.", Type::kCounter};
inline constexpr Family kKernelPlansBuilt{"latentd_kernel_plans_built_total",
                                          "Plans of cuDNN that were built, each for one shape.",
                                          Type::kCounter};
inline constexpr Family kKernelPlansRestored{
    "latentd_kernel_plans_restored_total",
    "Plans of cuDNN that were read, from compiled graphs or findings.", Type::kCounter};
inline constexpr Family kKernelFindings{
    "latentd_kernel_findings_total",
    "Shapes whose kernel an earlier process had chosen: found on disk, and of them refused.",
    Type::kCounter,
    {{"result", "found,refused"}}};
inline constexpr Family kBucketWarm{"latentd_bucket_warm",
                                    "1 where every graph of the bucket is ready.",
                                    Type::kGauge,
                                    {kConfiguredBucket}};
inline constexpr Family kModelLoaded{
    "latentd_model_loaded",
    "1 where all that pictures of one of the model's buckets need is loaded.",
    Type::kGauge,
    {kModel}};
inline constexpr Family kBucketLastUsed{"latentd_bucket_last_used_timestamp_seconds",
                                        "When a request last ran in the bucket; 0: never.",
                                        Type::kGauge,
                                        {kBucket}};

// Start-up and state.
inline constexpr Family kStartupPhase{"latentd_startup_phase_duration_seconds",
                                      "How long starting took, by phase.",
                                      Type::kGauge,
                                      {{"phase", "weights,graph_load,compile,warmup,total"}}};
inline constexpr Family kServerState{"latentd_server_state",
                                     "1 for the state that the server is in.",
                                     Type::kGauge,
                                     {{"state", "loading,warming,ready,degraded,draining,failed"}}};
inline constexpr Family kDeviceFaulted{
    "latentd_device_faulted",
    "1 where the device has failed, and works no more for this process.",
    Type::kGauge,
    {kDeviceLabel}};
inline constexpr Family kDeviceUnits{"latentd_device_units_total",
                                     "Units of work that the device has done; of steps each is an "
                                     "evaluation, of pictures that share it.",
                                     Type::kCounter,
                                     {kDeviceLabel, kUnitStage}};
inline constexpr Family kDeviceBusySeconds{"latentd_device_busy_seconds_total",
                                           "Time that these units have taken the device.",
                                           Type::kCounter,
                                           {kDeviceLabel, kUnitStage}};
inline constexpr Family kDeviceHelpedSteps{
    "latentd_device_helped_steps_total",
    "Evaluations of another device's pictures of which the device did a row.",
    Type::kCounter,
    {kDeviceLabel}};
inline constexpr Family kDeviceBacklog{
    "latentd_device_backlog_seconds",
    "Time until the device has done all that waits for it, as foreseen; 0: nothing, or not known.",
    Type::kGauge,
    {kDeviceLabel}};
inline constexpr Family kCheckpointChangedFiles{
    "latentd_checkpoint_changed_files",
    "Files of the served checkpoints that were edited in place or replaced since they were opened.",
    Type::kGauge,
    {{"how", "edited,replaced"}}};
inline constexpr Family kReadyTimestamp{"latentd_ready_timestamp_seconds",
                                        "When the server became ready; 0: not yet.", Type::kGauge};

// Memory.
inline constexpr Family kMemoryBytes{
    "latentd_memory_bytes",
    "Bytes held by latentd, by where they lie and kind: all on the host, where the device has no "
    "memory of its own.",
    Type::kGauge,
    {kPlace, kHeldKind}};
inline constexpr Family kClientMemory{
    "latentd_client_memory_bytes",
    "Bytes that clients make the host hold beside pictures: requests as gRPC has received them and "
    "as they are read, init images while they are decoded, encoders of WebM, files of videos that "
    "/v1/videos keeps, and lines of the log that wait.",
    Type::kGauge,
    {kClientKind}};
inline constexpr Family kClientMemoryLimit{
    "latentd_client_memory_limit_bytes",
    "What these may be at most, with what gRPC holds of requests that are still coming; 0: no "
    "bound but the memory that is left.",
    Type::kGauge,
    {kClientKind}};
inline constexpr Family kMemoryPredicted{"latentd_memory_predicted_bytes",
                                         "What the configured buckets were predicted to hold.",
                                         Type::kGauge,
                                         {kPlace, kMemoryKind}};
inline constexpr Family kMemoryBudget{
    "latentd_memory_budget_bytes",
    "What latentd may hold; 0: no budget, as of the host beside a GPU, where 64 MiB stay free.",
    Type::kGauge,
    {kPlace}};
inline constexpr Family kMemoryAvailable{
    "latentd_memory_available_bytes",
    "What latentd can still get: of a device with what it keeps there for reuse, of the host what "
    "machine and control group leave.",
    Type::kGauge,
    {kPlace}};
inline constexpr Family kDeviceMemoryTotal{
    "latentd_device_memory_total_bytes",
    "The device's own memory, as its driver says; 0: it has none.",
    Type::kGauge,
    {kDeviceLabel}};
inline constexpr Family kDeviceMemoryFree{
    "latentd_device_memory_free_bytes",
    "Of the device's own memory what no process has, as its driver says.",
    Type::kGauge,
    {kDeviceLabel}};
inline constexpr Family kDeviceMemoryHeld{
    "latentd_device_memory_held_bytes",
    "What latentd_memory_bytes has of these kinds for the device, wherever it lies.",
    Type::kGauge,
    {kDeviceLabel, kDeviceKind}};
inline constexpr Family kPinnedMemory{
    "latentd_pinned_memory_bytes",
    "Memory of the host that is pinned for copies to and from the device; some of it counts as "
    "results or state too.",
    Type::kGauge};
inline constexpr Family kOutOfMemory{
    "latentd_out_of_memory_total",
    "Requests refused (admission) or failed for lack of memory.",
    Type::kCounter,
    {{"stage", "admission,text,image,steps,decode,encode_file,preview"}}};

// Requests.
inline constexpr Family kRequests{
    "latentd_requests_total",
    "Generation calls that ended, by gRPC status code.",
    Type::kCounter,
    {kMethod,
     {"code",
      "OK,CANCELLED,UNKNOWN,INVALID_ARGUMENT,DEADLINE_EXCEEDED,NOT_FOUND,ALREADY_EXISTS,"
      "PERMISSION_DENIED,RESOURCE_EXHAUSTED,FAILED_PRECONDITION,ABORTED,OUT_OF_RANGE,"
      "UNIMPLEMENTED,INTERNAL,UNAVAILABLE,DATA_LOSS,UNAUTHENTICATED"}}};
inline constexpr Family kRequestSeconds{"latentd_request_duration_seconds",
                                        "From the arrival of a request that was queued to its end.",
                                        Type::kHistogram,
                                        {kMethod, kBucket},
                                        bounds::kRequest};
inline constexpr Family kQueueSeconds{"latentd_request_queue_duration_seconds",
                                      "From the arrival of a request to its first unit of work.",
                                      Type::kHistogram,
                                      {kBucket},
                                      bounds::kRequest};
inline constexpr Family kRequestsReceived{
    "latentd_requests_received_total",
    "Requests that were taken or refused; at every scrape those that were refused, are in flight, "
    "were finished or cancelled, or missed their deadline.",
    Type::kCounter};
inline constexpr Family kRequestsRejected{
    "latentd_requests_rejected_total",
    "Requests refused: before the queue, or because of what their size needs.",
    Type::kCounter,
    {{"reason", "queue_full,predicted_overrun,draining,loading,cold_bucket,invalid,oom,other"}}};
inline constexpr Family kRequestsCancelled{"latentd_requests_cancelled_total",
                                           "Requests cancelled, by how far they had come.",
                                           Type::kCounter,
                                           {kPhase}};
inline constexpr Family kDeadlineMisses{"latentd_deadline_misses_total",
                                        "Requests whose deadline passed, by how far they had come.",
                                        Type::kCounter,
                                        {kPhase}};
inline constexpr Family kRequestsFinished{"latentd_requests_finished_total",
                                          "Requests that ran to their end, or failed before it.",
                                          Type::kCounter,
                                          {{"outcome", "completed,failed"}}};
inline constexpr Family kFirstStepSeconds{
    "latentd_time_to_first_step_seconds",
    "From the arrival of a request to the end of its first denoising step.",
    Type::kHistogram,
    {kBucket},
    bounds::kRequest};
inline constexpr Family kPredictionRatio{
    "latentd_request_duration_prediction_ratio",
    "What a finished request took, by what was predicted at its admission.",
    Type::kHistogram,
    {},
    bounds::kRatio};
inline constexpr Family kRequestsInFlight{
    "latentd_requests_in_flight",
    "Requests that have been accepted and have not ended, by how far they have come.",
    Type::kGauge,
    {kPhase, kPriority}};
inline constexpr Family kQueueDepth{
    "latentd_queue_depth", "Pictures that wait or run, by bucket.", Type::kGauge, {kBucket}};
inline constexpr Family kQueueCapacity{
    "latentd_queue_capacity", "Pictures that may wait before requests are refused.", Type::kGauge};
inline constexpr Family kImages{"latentd_images_generated_total",
                                "Pictures finished.",
                                Type::kCounter,
                                {kBucket, {"format", "png,jpeg,webp,raw,vp9,latent,embeds"}}};
inline constexpr Family kPixels{"latentd_pixels_generated_total", "Pixels of pictures finished.",
                                Type::kCounter};
inline constexpr Family kSizeAdjustments{"latentd_size_adjustments_total",
                                         "Requests that ran at another size than they asked for.",
                                         Type::kCounter,
                                         {{"policy", "snap"}}};

// Work.
inline constexpr Family kStageSeconds{
    "latentd_stage_duration_seconds",
    "Time of one stage of one picture.",
    Type::kHistogram,
    {{"stage", "text,image,steps,decode,encode_file,preview"}, kModel, kBucket},
    bounds::kRequest};
inline constexpr Family kStepSeconds{"latentd_denoise_step_duration_seconds",
                                     "Time of one denoising step.",
                                     Type::kHistogram,
                                     {kModel, kBucket},
                                     bounds::kStep};
inline constexpr Family kSteps{
    "latentd_denoise_steps_total", "Denoising steps done.", Type::kCounter, {kModel}};
inline constexpr Family kStepRows{"latentd_step_rows",
                                  "Rows of pictures in one evaluation of a UNet: two of a picture "
                                  "with guidance, one of another.",
                                  Type::kHistogram,
                                  {kModel},
                                  bounds::kRows};
inline constexpr Family kSplitSteps{"latentd_split_steps_total",
                                    "Evaluations of which another device did one of two rows.",
                                    Type::kCounter,
                                    {kModel}};
inline constexpr Family kLanes{
    "latentd_lanes", "Lanes that pictures step in: one for each UNet and size.", Type::kGauge};
inline constexpr Family kLaneBytes{
    "latentd_lane_bytes",
    "Bytes of these lanes' rows and of rows that the device evaluates "
    "for another, of latentd_memory_bytes's state.",
    Type::kGauge};
inline constexpr Family kPaddingRows{"latentd_step_padding_rows_total",
                                     "Rows that were evaluated and are no picture's.",
                                     Type::kCounter,
                                     {kModel}};
inline constexpr Family kSkippedRows{
    "latentd_step_skipped_rows_total",
    "Rows that were not evaluated because a picture's guidance had stopped (guidance_stop).",
    Type::kCounter,
    {kModel}};
inline constexpr Family kShallowEvaluations{
    "latentd_step_shallow_evaluations_total",
    "Evaluations of a picture that computed a part of the UNet alone (feature_cache_interval).",
    Type::kCounter,
    {kModel}};

inline constexpr Family kUnitOverdue{
    "latentd_unit_overdue", "1 while a unit of work runs for longer than it may: the server hangs.",
    Type::kGauge};
inline constexpr Family kThreadOverdue{
    "latentd_thread_overdue",
    "1 while a thread is at one thing, other than a unit of work, for a minute: the server hangs.",
    Type::kGauge,
    {{"thread", "loop,end,encoder,previews,main"}}};

// HTTP, and callers' keys.
inline constexpr Family kHttpConnections{"latentd_http_connections",
                                         "Connections over HTTP that are open.", Type::kGauge};
inline constexpr Family kHttpConnectionsAccepted{
    "latentd_http_connections_accepted_total",
    "Connections over HTTP that were accepted, where TLS is asked for with their handshake.",
    Type::kCounter};
inline constexpr Family kHttpConnectionsRefused{
    "latentd_http_connections_refused_total",
    "Connections over HTTP that were closed before a request: beyond --max-connections, without a "
    "handshake of TLS, or for lack of memory.",
    Type::kCounter,
    {{"reason", "limit,tls,memory"}}};
inline constexpr Family kHttpResponses{
    "latentd_http_responses_total",
    "Responses over HTTP, by the API that was asked and the class of the status.",
    Type::kCounter,
    {{"api", "openai,sdapi,hf,latentd,page,probes,other"}, {"code", "2xx,3xx,4xx,5xx"}}};
inline constexpr Family kHttpBytes{"latentd_http_bytes_total",
                                   "Bytes of requests and responses over HTTP, before TLS.",
                                   Type::kCounter,
                                   {{"direction", "received,sent"}}};
inline constexpr Family kApiKeysRefused{
    "latentd_api_keys_refused_total",
    "Requests without a key of --api-key-file: with another one, or with none.",
    Type::kCounter,
    {{"transport", "grpc,http"}, {"reason", "unknown,missing"}}};

// Results and what runs.
inline constexpr Family kInvalidImages{
    "latentd_invalid_images_total",
    "Decoded pictures with values that are not finite, by what followed.",
    Type::kCounter,
    {{"reason", "redone,failed"}}};
inline constexpr Family kTlsCertificateExpiry{
    "latentd_tls_certificate_expiry_timestamp_seconds",
    "When the server's certificate expires, or the last one of an authority's; 0: there is none.",
    Type::kGauge,
    {{"certificate", "server,client_authority,operator_authority"}}};
inline constexpr Family kSpansSent{"latentd_spans_sent_total",
                                   "Spans that the collector has taken.", Type::kCounter};
inline constexpr Family kSpansDropped{"latentd_spans_dropped_total",
                                      "Spans that the collector does not get, by why.",
                                      Type::kCounter,
                                      {{"reason", "queue_full,refused,stopped"}}};
inline constexpr Family kLogLinesDropped{
    "latentd_log_lines_dropped_total",
    "Lines of the log that were dropped, since the reader of standard error is too slow or stuck.",
    Type::kCounter};
inline constexpr Family kBuildInfo{"latentd_build_info", "Always 1.", Type::kGauge, {{"version"}}};
inline constexpr Family kBackendInfo{
    "latentd_backend_info",
    "Always 1; the libraries, instruction set and threads that graphs are compiled for.",
    Type::kGauge,
    {{"fingerprint"}}};
inline constexpr Family kModelInfo{"latentd_model_info",
                                   "Always 1, for each model served.",
                                   Type::kGauge,
                                   {{"model"}, {"checkpoint"}, {"class_name"}, {"backend"}}};

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
                                              &kGraphCacheLastLook,
                                              &kKernelTrials,
                                              &kKernelTrialFaults,
                                              &kKernelPlansBuilt,
                                              &kKernelPlansRestored,
                                              &kKernelFindings,
                                              &kBucketWarm,
                                              &kModelLoaded,
                                              &kBucketLastUsed,
                                              &kStartupPhase,
                                              &kServerState,
                                              &kDeviceFaulted,
                                              &kCheckpointChangedFiles,
                                              &kReadyTimestamp,
                                              &kMemoryBytes,
                                              &kClientMemory,
                                              &kClientMemoryLimit,
                                              &kMemoryPredicted,
                                              &kMemoryBudget,
                                              &kMemoryAvailable,
                                              &kDeviceMemoryTotal,
                                              &kDeviceMemoryFree,
                                              &kDeviceMemoryHeld,
                                              &kPinnedMemory,
                                              &kOutOfMemory,
                                              &kRequests,
                                              &kRequestSeconds,
                                              &kQueueSeconds,
                                              &kRequestsReceived,
                                              &kRequestsRejected,
                                              &kRequestsCancelled,
                                              &kDeadlineMisses,
                                              &kRequestsFinished,
                                              &kFirstStepSeconds,
                                              &kPredictionRatio,
                                              &kRequestsInFlight,
                                              &kQueueDepth,
                                              &kQueueCapacity,
                                              &kImages,
                                              &kPixels,
                                              &kSizeAdjustments,
                                              &kStageSeconds,
                                              &kStepSeconds,
                                              &kSteps,
                                              &kStepRows,
                                              &kSplitSteps,
                                              &kDeviceUnits,
                                              &kDeviceBusySeconds,
                                              &kDeviceHelpedSteps,
                                              &kDeviceBacklog,
                                              &kLanes,
                                              &kLaneBytes,
                                              &kPaddingRows,
                                              &kSkippedRows,
                                              &kShallowEvaluations,
                                              &kUnitOverdue,
                                              &kThreadOverdue,
                                              &kHttpConnections,
                                              &kHttpConnectionsAccepted,
                                              &kHttpConnectionsRefused,
                                              &kHttpResponses,
                                              &kHttpBytes,
                                              &kApiKeysRefused,
                                              &kInvalidImages,
                                              &kTlsCertificateExpiry,
                                              &kSpansSent,
                                              &kSpansDropped,
                                              &kLogLinesDropped,
                                              &kBuildInfo,
                                              &kBackendInfo,
                                              &kModelInfo};

}  // namespace latentd::metrics
