// Requests that were admitted and whose graphs are not ready: holds what their images are made of
// while they wait, orders their graphs, one order a request, and begins them. Their needs are
// predicted before any of it is compiled, and what is refused leaves nothing behind.
//
// Init images are most of what is held, and go when a request is cancelled, not when its turn
// comes. Holds no more than what the queue admitted. Thread-safe.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <utility>

#include "absl/base/thread_annotations.h"
#include "absl/container/flat_hash_map.h"
#include "absl/status/status.h"
#include "absl/synchronization/mutex.h"
#include "core/compiler/graph_store.h"
#include "core/engine/loop/picture_loop.h"
#include "core/engine/models/bucket_graphs.h"
#include "core/engine/prepare/admission.h"
#include "core/engine/prepare/preparer.h"
#include "core/engine/requests/job.h"

namespace latentd::engine {

class ColdRequests {
 public:
  // All must outlive this, and the preparer have stopped before it goes.
  struct Parts {
    const Models& models;
    compiler::GraphStore& graphs;
    Admission& admission;
    PictureLoop& loop;
    Preparer& preparer;
    std::function<void()> changed;                  // called when graphs came or went
    std::function<void(const ModelBucket&)> begun;  // its images have begun
  };
  explicit ColdRequests(Parts parts) : parts_(std::move(parts)) {}

  // The loop has admitted the job, without images; they are made of its plan and `inputs`.
  // Where there is no memory it throws std::bad_alloc and holds nothing for it.
  void Add(const std::shared_ptr<Job>& job, pipeline::SharedInputs inputs)
      ABSL_LOCKS_EXCLUDED(mutex_);

  // Frees what is held for the request before it returns. OK for any handle.
  void Remove(uint64_t handle) ABSL_LOCKS_EXCLUDED(mutex_);

 private:
  // Takes the request's inputs; nothing if the request was removed. It is no longer held then.
  std::optional<pipeline::SharedInputs> Take(uint64_t handle) ABSL_LOCKS_EXCLUDED(mutex_);

  // On the preparing thread. The graphs that the request needs, if there is room for them.
  absl::Status Order(const Job& job, Preparer::Order& order);
  absl::Status Begin(Job& job, const Preparer::Ended& ended);
  void Keep(const pipeline::Plan& plan, const GraphHandles& graphs);
  void OrderDispensable(const pipeline::SharedPlan& plan);
  void End(Job& job, Preparer::Ended ended);

  const Parts parts_;
  mutable absl::Mutex mutex_;
  absl::flat_hash_map<uint64_t, pipeline::SharedInputs> waiting_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace latentd::engine
