// An engine that does what a test says: it keeps sinks and lets the test send events to them.
#pragma once

#include <functional>
#include <memory>
#include <new>
#include <string>
#include <utility>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/status/statusor.h"
#include "absl/synchronization/mutex.h"
#include "core/base/errors/error_details.h"
#include "core/engine/api/capabilities.h"
#include "core/engine/api/events.h"
#include "core/engine/api/generate_spec.h"
#include "core/engine/api/hangs.h"
#include "core/engine/api/status.h"
#include "core/engine/engine.h"
#include "tests/server/fake_adapter_admin.h"
#include "tests/server/fake_graph_admin.h"
#include "tests/server/fake_model_admin.h"

namespace latentd::server {

// Thread-safe.
class FakeEngine : public engine::Engine {
 public:
  struct Job {
    engine::GenerateSpec spec;
    std::shared_ptr<engine::EventSink> sink;
    bool cancelled = false;
  };

  absl::Status Load() override { return absl::OkStatus(); }
  engine::State state() const override { return status().state; }
  engine::ServerStatus status() const override {
    absl::MutexLock lock(&mutex_);
    return status_;
  }
  void OnStatusChange(engine::StatusListener listener) override {
    absl::MutexLock lock(&mutex_);
    listeners_.push_back(std::move(listener));
  }
  FakeGraphAdmin& graphs() override { return graphs_; }
  FakeModelAdmin& models() override { return models_; }
  FakeAdapterAdmin& adapters() override { return adapters_; }
  engine::MemoryReport memory() const override {
    if (graphs_.on_read) graphs_.on_read();
    return report_;
  }
  metrics::Registry& metrics() override { return registry_; }
  void RefreshMetrics() override {}
  void CheckFiles() override {}
  void GiveBackMemory() override {}
  engine::Capabilities capabilities() const override {
    engine::Capabilities capabilities;
    capabilities.models = {{"base", "/models/demo/base", "StableDiffusionXLPipeline"}};
    capabilities.default_size = {256, 256};
    capabilities.backend = "fake";
    capabilities.buckets = {{.size = {256, 256}, .ready = true}, {.size = {320, 192}}};
    return capabilities;
  }
  std::vector<FieldViolation> Validate(const engine::GenerateSpec& spec) const override {
    std::vector<FieldViolation> violations;
    if (spec.picture.width.value_or(8) % 8 != 0) violations.push_back({"width", "multiple of 8"});
    if (spec.picture.guidance_scale.value_or(1) > 30) {
      violations.push_back({"guidance_scale", "at most 30"});
    }
    return violations;
  }
  absl::StatusOr<uint64_t> Submit(engine::GenerateSpec spec,
                                  std::shared_ptr<engine::EventSink> sink) override {
    absl::MutexLock lock(&mutex_);
    if (const auto on_submit = std::exchange(on_submit_, nullptr)) on_submit();
    if (!submit_status_.ok()) return submit_status_;
    const std::vector<FieldViolation> violations = Validate(spec);
    if (!violations.empty()) return InvalidFields(violations);
    if (spec.max_response_bytes > 0 && response_bytes_ > spec.max_response_bytes) {
      return WithReason(absl::InvalidArgumentError("too many bytes"), "RESPONSE_TOO_LARGE");
    }
    jobs_.push_back({std::move(spec), std::move(sink)});
    return jobs_.size() - 1;
  }
  // As the engine does: the request ends at its next step, that is with a test's Send or right
  // away.
  void Cancel(uint64_t handle) override {
    std::shared_ptr<engine::EventSink> sink;
    {
      absl::MutexLock lock(&mutex_);
      jobs_[handle].cancelled = true;
      sink = std::exchange(jobs_[handle].sink, nullptr);
    }
    if (sink != nullptr) sink->OnEvent(engine::Failed{absl::CancelledError("cancelled")});
  }
  void Drain(absl::Time) override {
    set_state(engine::State::kDraining);
    if (on_drain_) on_drain_();
    const size_t count = job_count();
    for (size_t i = 0; i < count; ++i) Cancel(i);
  }

  engine::Hangs FindHangs() const override {
    absl::MutexLock lock(&mutex_);
    return hangs_;
  }
  bool WaitsForReaders() const override {
    absl::MutexLock lock(&mutex_);
    return waits_for_readers_;
  }

  // For tests.
  engine::MemoryReport& report() { return report_; }  // set before it is asked for
  void set_hangs(engine::Hangs hangs) {
    absl::MutexLock lock(&mutex_);
    hangs_ = std::move(hangs);
  }
  void set_waits_for_readers() {
    absl::MutexLock lock(&mutex_);
    waits_for_readers_ = true;
  }
  // There is no memory for the next request.
  void RunOutOfMemory() {
    OnNextSubmit([] { throw std::bad_alloc(); });
  }
  void OnNextSubmit(std::function<void()> on_submit) {
    absl::MutexLock lock(&mutex_);
    on_submit_ = std::move(on_submit);
  }
  // Called while it drains. Set before.
  void OnDrain(std::function<void()> on_drain) { on_drain_ = std::move(on_drain); }
  void set_state(engine::State state) {
    engine::ServerStatus changed = status();
    changed.state = state;
    set_status(changed);
  }
  void set_status(const engine::ServerStatus& status) {
    std::vector<engine::StatusListener> listeners;
    {
      absl::MutexLock lock(&mutex_);
      status_ = status;
      listeners = listeners_;
    }
    for (const auto& listener : listeners) listener(status);
  }
  void set_submit_status(absl::Status status) {
    absl::MutexLock lock(&mutex_);
    submit_status_ = std::move(status);
  }
  void set_response_bytes(int64_t bytes) {
    absl::MutexLock lock(&mutex_);
    response_bytes_ = bytes;
  }

  // Waits until the request with that number has been submitted.
  engine::GenerateSpec WaitForSpec(size_t number = 0) const {
    absl::MutexLock lock(&mutex_);
    const auto there = [&]() ABSL_SHARED_LOCKS_REQUIRED(mutex_) { return jobs_.size() > number; };
    mutex_.Await(absl::Condition(&there));
    return jobs_[number].spec;
  }
  void WaitUntilCancelled(size_t number = 0) const {
    absl::MutexLock lock(&mutex_);
    const auto cancelled = [&]() ABSL_SHARED_LOCKS_REQUIRED(mutex_) {
      return jobs_.size() > number && jobs_[number].cancelled;
    };
    mutex_.Await(absl::Condition(&cancelled));
  }
  std::weak_ptr<engine::EventSink> SinkOf(size_t number) const {
    absl::MutexLock lock(&mutex_);
    return jobs_[number].sink;
  }
  size_t job_count() const {
    absl::MutexLock lock(&mutex_);
    return jobs_.size();
  }

  // Sends an event to the request with that number; the last one lets go of it, as the engine does.
  void Send(engine::Event event, size_t number = 0) {
    WaitForSpec(number);
    const bool last = std::holds_alternative<engine::Completed>(event) ||
                      std::holds_alternative<engine::Failed>(event);
    std::shared_ptr<engine::EventSink> sink;
    {
      absl::MutexLock lock(&mutex_);
      sink = last ? std::exchange(jobs_[number].sink, nullptr) : jobs_[number].sink;
    }
    if (sink != nullptr) sink->OnEvent(std::move(event));
  }

 private:
  metrics::Registry registry_;
  std::function<void()> on_drain_;
  FakeGraphAdmin graphs_;
  FakeModelAdmin models_;
  FakeAdapterAdmin adapters_;
  engine::MemoryReport report_;
  mutable absl::Mutex mutex_;
  engine::ServerStatus status_ ABSL_GUARDED_BY(mutex_) = {.state = engine::State::kReady};
  std::vector<engine::StatusListener> listeners_ ABSL_GUARDED_BY(mutex_);
  engine::Hangs hangs_ ABSL_GUARDED_BY(mutex_);
  bool waits_for_readers_ ABSL_GUARDED_BY(mutex_) = false;
  std::function<void()> on_submit_ ABSL_GUARDED_BY(mutex_);
  absl::Status submit_status_ ABSL_GUARDED_BY(mutex_);
  int64_t response_bytes_ ABSL_GUARDED_BY(mutex_) = 1 << 20;
  std::vector<Job> jobs_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace latentd::server
