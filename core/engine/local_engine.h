// The engine that runs models in this process: one thread runs units of work, one encodes finished
// pictures, one compiles and loads graphs.
#pragma once

#include <atomic>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "core/backends/backend.h"
#include "core/base/worker.h"
#include "core/engine/bucket_graphs.h"
#include "core/engine/checkpoint_watch.h"
#include "core/engine/cold_requests.h"
#include "core/engine/engine.h"
#include "core/engine/engine_metrics.h"
#include "core/engine/job.h"
#include "core/engine/local_graph_admin.h"
#include "core/engine/memory_budget.h"
#include "core/engine/picture_loop.h"
#include "core/engine/refused_sizes.h"
#include "core/engine/status_board.h"
#include "core/engine/stores.h"
#include "core/engine/warming.h"
#include "core/pipeline/pipeline.h"

namespace latentd::engine {

class LocalEngine : public Engine {
 public:
  // `clock` must outlive the engine; `backend` is the one that config.backend names.
  LocalEngine(Config config, std::unique_ptr<backends::Backend> backend, const Clock& clock);
  ~LocalEngine() override;

  absl::Status Load() override;
  State state() const override { return board_.state(); }
  ServerStatus status() const override { return board_.status(); }
  void OnStatusChange(StatusListener listener) override { board_.AddListener(std::move(listener)); }
  GraphAdmin& graphs() override { return admin_; }
  metrics::Registry& metrics() override { return registry_; }
  void RefreshMetrics() override;
  void CheckCheckpoints() override { watch_.CheckSoon(); }
  Capabilities capabilities() const override;
  std::vector<FieldViolation> Validate(const GenerateSpec& spec) const override;
  absl::StatusOr<uint64_t> Submit(GenerateSpec spec, std::shared_ptr<EventSink> sink) override;
  void Cancel(uint64_t handle) override;
  LoopStatus CheckLoop() const override { return loop_.Check(); }
  void Drain(absl::Time deadline) override;

 private:
  // Whether the graph fits, once what `leaves` names is gone.
  absl::Status CheckFits(const compiler::GraphLabel& label, const backends::MemoryNeeds& needs,
                         const compiler::Eviction& leaves);

  // local_engine_load.cc: from a configuration to a server that serves.
  absl::Status FailLoading(const absl::Status& status);
  absl::Status LoadModels();
  void OpenBuckets();
  absl::Status WarmBuckets();
  void NoteProgress(const WarmProgress& progress);
  void ShowPhases(absl::Duration weights, absl::Duration total);
  void ShowModels();
  // Brings the status up to date with how the graphs stand; `warmed`: warming is over.
  void ShowBuckets(bool warmed = false);

  // local_engine.cc: from a request to a job.
  absl::StatusOr<pipeline::PictureSpec> Resolve(pipeline::PictureSpec picture,
                                                const image::EncodeOptions& output) const;
  absl::StatusOr<uint64_t> TrySubmit(GenerateSpec spec, std::shared_ptr<EventSink> sink);
  absl::Status CheckResponseBytes(const GenerateSpec& resolved) const;
  absl::Status CheckRoom(pipeline::Size bucket);
  absl::Status CheckPreparable(const pipeline::PictureSpec& resolved);

  // local_engine_cold.cc: requests whose graphs are not ready, on the preparing thread.
  // Held by whoever starts pictures, so that none leaves before all are there.
  using Executables = std::vector<compiler::ExecutablePointer>;
  absl::Status AddCold(const std::shared_ptr<Job>& job, pipeline::PictureSpec picture);
  absl::Status AddPreparing(const std::function<void()>& task);
  void PrepareNext();
  void Prepare(const ColdRequests::Begun& request);
  absl::Status StartPrepared(const ColdRequests::Begun& request);
  absl::StatusOr<Executables> GetAll(const Job& job, const GraphHandles& graphs,
                                     const compiler::Purpose& purpose);
  absl::Status CheckColdFits(const ColdRequests::Begun& request, const GraphHandles& graphs,
                             const compiler::Purpose& purpose);
  absl::Status CheckNotRefused(const pipeline::PictureSpec& resolved, bool image) const;
  void LookAtDisk();

  const Config config_;
  const Clock& clock_;
  metrics::Registry registry_;
  EngineMetrics metrics_{registry_};
  StatusBoard board_;
  const std::unique_ptr<backends::Backend> backend_;
  MemoryBudget budget_;
  std::atomic<bool> stop_ = false;  // loading and warming
  Stores stores_;
  // Set once, before the state leaves kLoading.
  std::unique_ptr<const pipeline::Pipeline> pipeline_;
  std::unique_ptr<BucketGraphs> buckets_;

  PictureLoop loop_;
  ColdRequests cold_;
  RefusedSizes refused_;
  std::atomic<bool> looks_at_disk_ = false;  // a task that does waits
  Worker preparing_{"preparing"};
  Warming warming_;
  LocalGraphAdmin admin_;
  CheckpointWatch watch_;  // last: its thread uses the others
};

}  // namespace latentd::engine
