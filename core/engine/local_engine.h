// The engine that runs models in this process: one thread runs units of work, one encodes finished
// pictures, one compiles and loads graphs.
#pragma once

#include <atomic>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "core/backends/backend.h"
#include "core/engine/bucket_graphs.h"
#include "core/engine/checkpoint_watch.h"
#include "core/engine/engine.h"
#include "core/engine/engine_metrics.h"
#include "core/engine/job.h"
#include "core/engine/local_graph_admin.h"
#include "core/engine/memory_budget.h"
#include "core/engine/picture_loop.h"
#include "core/engine/status_board.h"
#include "core/engine/stores.h"
#include "core/engine/task_thread.h"
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
  void Cancel(uint64_t handle) override { loop_.Cancel(handle); }
  void Drain(absl::Time deadline) override;

 private:
  absl::Status CheckFits(const compiler::GraphLabel& label, const backends::MemoryNeeds& needs);

  // local_engine_load.cc: from a configuration to a server that serves.
  absl::Status FailLoading(const absl::Status& status);
  absl::Status LoadModels();
  void OpenBuckets();
  absl::Status WarmBuckets();
  void NoteProgress(const WarmProgress& progress);
  void ShowPhase(const char* phase, absl::Duration duration);
  void ShowModels();
  // Brings the status up to date with how the graphs stand; `warmed`: warming is over.
  void ShowBuckets(bool warmed = false);

  // local_engine.cc: from a request to a job.
  absl::Status Refusal() const;
  absl::StatusOr<pipeline::PictureSpec> Resolve(const GenerateSpec& spec) const;
  absl::StatusOr<uint64_t> TrySubmit(GenerateSpec spec, std::shared_ptr<EventSink> sink);
  absl::Status CheckResponseBytes(const GenerateSpec& resolved) const;
  absl::Status CheckPreparable(const pipeline::PictureSpec& resolved) const;
  void Prepare(const std::shared_ptr<Job>& job);
  absl::Status StartPrepared(Job& job);

  const Config config_;
  const Clock& clock_;
  metrics::Registry registry_;
  EngineMetrics metrics_{registry_};
  StatusBoard board_;
  const std::unique_ptr<backends::Backend> backend_;
  MemoryBudget budget_;
  Stores stores_;
  // Set once, before the state leaves kLoading.
  std::unique_ptr<const pipeline::Pipeline> pipeline_;
  std::unique_ptr<BucketGraphs> buckets_;

  std::atomic<bool> stop_ = false;  // loading and warming
  PictureLoop loop_;
  TaskThread preparing_{"preparing"};
  Warming warming_;
  LocalGraphAdmin admin_;
  CheckpointWatch watch_;  // last: its thread uses the others
};

}  // namespace latentd::engine
