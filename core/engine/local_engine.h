// The engine that runs models in this process: one thread runs units of work, another encodes
// finished pictures.
#pragma once

#include <atomic>
#include <cstdint>
#include <deque>
#include <functional>
#include <memory>
#include <thread>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/container/flat_hash_map.h"
#include "absl/synchronization/mutex.h"
#include "core/backends/backend.h"
#include "core/batching/queue.h"
#include "core/compiler/graph_store.h"
#include "core/engine/engine.h"
#include "core/engine/task_thread.h"
#include "core/engine/job.h"
#include "core/pipeline/pipeline.h"
#include "core/weights/weight_store.h"

namespace latentd::engine {

class LocalEngine : public Engine {
 public:
  // `clock` must outlive the engine; `backend` is the one that config.backend names.
  LocalEngine(Config config, std::unique_ptr<backends::Backend> backend, const Clock& clock);
  ~LocalEngine() override;

  absl::Status Load() override;
  State state() const override ABSL_LOCKS_EXCLUDED(mutex_);
  ServerStatus status() const override ABSL_LOCKS_EXCLUDED(mutex_);
  void OnStatusChange(std::function<void()> listener) override;
  GraphAdmin& graphs() override;
  metrics::Registry& metrics() override { return registry_; }
  void RefreshMetrics() override {}
  Capabilities capabilities() const override;
  std::vector<FieldViolation> Validate(const GenerateSpec& spec) const override;
  absl::StatusOr<uint64_t> Submit(GenerateSpec spec, std::shared_ptr<EventSink> sink) override
      ABSL_LOCKS_EXCLUDED(mutex_);
  void Cancel(uint64_t handle) override ABSL_LOCKS_EXCLUDED(mutex_);
  void Drain(absl::Time deadline) override ABSL_LOCKS_EXCLUDED(mutex_);

 private:
  struct Place {
    std::shared_ptr<Job> job;
    int index = 0;
  };

  absl::Status LoadModels();
  absl::Status CheckResponseBytes(const GenerateSpec& resolved) const;
  absl::Status Refusal() const ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  absl::Status Admit(const std::shared_ptr<Job>& job, size_t image_bytes, int& position)
      ABSL_LOCKS_EXCLUDED(mutex_);

  void RunLoop();
  bool HasWork() const ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  std::vector<std::shared_ptr<Job>> TakeCancelled() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void RunUnit(const Place& place);
  void Advance(const Place& place);
  void HandOver(const Place& place);
  // REQUIRES: the caller keeps the job alive.
  void Fail(Job& job, absl::Status status) ABSL_LOCKS_EXCLUDED(mutex_);
  void Forget(const Job& job) ABSL_LOCKS_EXCLUDED(mutex_);

  const Config config_;
  const Clock& clock_;
  metrics::Registry registry_;
  const std::unique_ptr<backends::Backend> backend_;
  weights::WeightStore weights_;
  compiler::GraphStore graphs_;
  std::unique_ptr<const pipeline::Pipeline> pipeline_;  // set once, before state_ leaves kLoading

  mutable absl::Mutex mutex_;
  State state_ ABSL_GUARDED_BY(mutex_) = State::kLoading;
  bool stop_ ABSL_GUARDED_BY(mutex_) = false;
  uint64_t next_id_ ABSL_GUARDED_BY(mutex_) = 1;  // of requests and pictures
  batching::Queue queue_ ABSL_GUARDED_BY(mutex_);
  absl::flat_hash_map<uint64_t, std::shared_ptr<Job>> jobs_ ABSL_GUARDED_BY(mutex_);
  absl::flat_hash_map<batching::PictureId, Place> places_ ABSL_GUARDED_BY(mutex_);
  std::vector<uint64_t> cancelled_ ABSL_GUARDED_BY(mutex_);

  std::atomic<bool> give_up_loading_ = false;
  TaskThread encoder_{"encoder"};
  std::thread loop_;
};

}  // namespace latentd::engine
