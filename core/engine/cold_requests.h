// Requests that were admitted and whose graphs are not ready: holds what their pictures are made of
// while they wait, makes their graphs ready on the preparing thread, one request at a time in the
// order in which they came and in turns with what operators warm, and begins them. Their needs
// are predicted before any of it is compiled, and what is refused leaves nothing behind.
//
// Init images are most of what is held, and go when a request is cancelled, not when its turn
// comes. Holds no more than what the queue admitted. Thread-safe.
#pragma once

#include <cstdint>
#include <functional>
#include <list>
#include <memory>
#include <optional>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/synchronization/mutex.h"
#include "core/base/worker.h"
#include "core/compiler/graph_store.h"
#include "core/engine/admission.h"
#include "core/engine/bucket_graphs.h"
#include "core/engine/job.h"
#include "core/engine/picture_loop.h"

namespace latentd::engine {

class ColdRequests {
 public:
  // All must outlive this, and `preparing` have stopped before it goes.
  struct Parts {
    const Models& models;
    compiler::GraphStore& graphs;
    Admission& admission;
    PictureLoop& loop;
    Worker& preparing;
    std::function<void()> changed;  // called when graphs came or went
  };
  explicit ColdRequests(Parts parts) : parts_(std::move(parts)) {}

  // The loop has admitted the job, without images; they are made of its plan and `inputs`.
  // RESOURCE_EXHAUSTED: nothing is held for it.
  absl::Status Add(const std::shared_ptr<Job>& job, pipeline::SharedInputs inputs)
      ABSL_LOCKS_EXCLUDED(mutex_);

  // Frees what is held for the request before it returns. OK for any handle.
  void Remove(uint64_t handle) ABSL_LOCKS_EXCLUDED(mutex_);

 private:
  struct Waiting {
    std::shared_ptr<Job> job;
    pipeline::SharedInputs inputs;
    bool begun = false;
  };
  // Held by a starter of pictures, so that none is evicted before all are there.
  using Executables = std::vector<compiler::ExecutablePointer>;

  void Hold(const std::shared_ptr<Job>& job, pipeline::SharedInputs inputs)
      ABSL_LOCKS_EXCLUDED(mutex_);
  // The oldest that has not begun; null: nothing waits. It stays, with its inputs, until Take or
  // Remove.
  std::shared_ptr<Job> BeginNext() ABSL_LOCKS_EXCLUDED(mutex_);
  // True if more wait; false: the next that is added is to add a task again.
  bool HasMore() ABSL_LOCKS_EXCLUDED(mutex_);
  // Takes the request's inputs; nothing if the request was removed. It is no longer held then.
  std::optional<pipeline::SharedInputs> Take(uint64_t handle) ABSL_LOCKS_EXCLUDED(mutex_);
  std::optional<Waiting> Extract(uint64_t handle) ABSL_LOCKS_EXCLUDED(mutex_);

  // On the preparing thread.
  absl::Status AddTask(const std::function<void()>& task);
  void PrepareNext();
  void Prepare(Job& job);
  absl::Status Start(Job& job);
  absl::StatusOr<Executables> GetAll(const Job& job, const GraphHandles& graphs,
                                     const compiler::Purpose& purpose);

  const Parts parts_;
  mutable absl::Mutex mutex_;
  bool served_ ABSL_GUARDED_BY(mutex_) = false;  // a task is to call BeginNext
  std::list<Waiting> waiting_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace latentd::engine
