// The engine that runs models in this process: the owner of its parts, and the way of a request
// through them. One thread runs units of work, one encodes finished pictures (PictureLoop), one
// compiles and loads graphs (Preparer).
#pragma once

#include <atomic>
#include <cstdint>
#include <memory>
#include <vector>

#include "core/backends/backend.h"
#include "core/engine/admission.h"
#include "core/engine/bucket_graphs.h"
#include "core/engine/cache_watch.h"
#include "core/engine/checkpoint_watch.h"
#include "core/engine/cold_requests.h"
#include "core/engine/engine.h"
#include "core/engine/engine_metrics.h"
#include "core/engine/kept_memory.h"
#include "core/engine/local_graph_admin.h"
#include "core/engine/memory_budget.h"
#include "core/engine/memory_use.h"
#include "core/engine/picture_loop.h"
#include "core/engine/preparer.h"
#include "core/engine/shared_step_graphs.h"
#include "core/engine/status_board.h"
#include "core/engine/stores.h"
#include "core/pipeline/units/picture.h"

namespace latentd::engine {

// Parts that engines of one process have in common, one for each device.
struct SharedParts {
  metrics::Registry& registry;  // parent of theirs
  std::shared_ptr<cache::DiskCache> disk;
};

class LocalEngine : public Engine {
 public:
  // `clock` must outlive the engine; `backend` is the one that config.backend names.
  LocalEngine(Config config, std::unique_ptr<backends::Backend> backend, const Clock& clock);
  // The same beside others, which have the same configuration and equal devices.
  LocalEngine(Config config, std::unique_ptr<backends::Backend> backend, const Clock& clock,
              const SharedParts& shared);
  ~LocalEngine() override;

  absl::Status Load() override;
  State state() const override { return board_.state(); }
  ServerStatus status() const override { return board_.status(); }
  void OnStatusChange(StatusListener listener) override { board_.AddListener(std::move(listener)); }
  GraphAdmin& graphs() override { return admin_; }
  metrics::Registry& metrics() override { return registry_; }
  void RefreshMetrics() override;
  void CheckFiles() override;
  void GiveBackMemory() override { kept_.GiveBackUnused(); }
  Capabilities capabilities() const override;
  std::vector<FieldViolation> Validate(const GenerateSpec& spec) const override;
  absl::StatusOr<uint64_t> Submit(GenerateSpec spec, std::shared_ptr<EventSink> sink) override;
  // The same for a caller that counts refusals, and may ask another engine then: for a request that
  // does, this one keeps no room for when it comes back. Throws std::bad_alloc, and has refused it.
  enum class AfterRefusal : uint8_t { kComesBack, kAsksElsewhere };
  absl::StatusOr<uint64_t> Admit(GenerateSpec spec, std::shared_ptr<EventSink> sink,
                                 AfterRefusal refused);
  // Backlog of admitted work that is not done.
  batching::Backlog backlog() const { return loop_.backlog(); }
  // Waits until no graph is left to be made ready.
  void FinishPreparing() { preparer_.Flush(); }
  void Cancel(uint64_t handle) override;
  Hangs FindHangs() const override { return loop_.FindHangs(); }
  bool WaitsForReaders() const override { return loop_.WaitsForReaders(); }
  void Drain(absl::Time deadline) override;

 private:
  using Pictures = std::vector<std::unique_ptr<pipeline::Picture>>;

  // Null: it shares nothing.
  LocalEngine(Config config, std::unique_ptr<backends::Backend> backend, const Clock& clock,
              const SharedParts* shared);
  // For the calling thread.
  void BringThreads() const;
  void OpenModels();
  absl::Status TryLoad();
  // Says so by the status, for good.
  void ShowFault(const absl::Status& fault);
  // And ends what was admitted.
  void EndForFault(const absl::Status& fault);
  // Brings the status up to date with how the graphs stand; `warmed`: warming is over.
  void ShowBuckets(bool warmed = false);
  void ShowWarm(const std::vector<BucketGraphs::BucketState>& states);
  void CountAdjusted(const pipeline::Plan& plan);
  absl::Status CheckInputBytes(const pipeline::Inputs& inputs) const;
  bool LacksGraphs(const pipeline::Picture& picture) const;
  absl::StatusOr<Pictures> StartIfReady(const pipeline::SharedPlan& plan,
                                        const pipeline::SharedInputs& inputs);

  const Config config_;
  const Clock& clock_;
  metrics::Registry registry_;
  EngineMetrics metrics_{registry_};
  StatusBoard board_;
  const std::unique_ptr<backends::Backend> backend_;
  MemoryBudget budget_;
  std::atomic<bool> stop_ = false;  // loading and warming
  Stores stores_;
  Models models_;
  Admission admission_;
  PictureLoop loop_;
  ColdRequests cold_;
  MemoryUse memory_;
  Preparer preparer_;
  KeptMemory kept_;
  SharedStepGraphs shared_step_graphs_;
  LocalGraphAdmin admin_;
  // Last: their threads use the others.
  CheckpointWatch watch_;
  CacheWatch cache_watch_;
};

}  // namespace latentd::engine
