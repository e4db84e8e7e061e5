// Requests that were accepted and wait until their graphs are there: what is held for each of them,
// in the order in which they came. Init images are most of it, and go when a request is cancelled,
// not when its turn comes.
//
// Holds no more than what the queue admitted. Thread-safe.
#pragma once

#include <cstdint>
#include <list>
#include <memory>
#include <optional>
#include <utility>

#include "absl/base/thread_annotations.h"
#include "absl/synchronization/mutex.h"
#include "core/engine/job.h"
#include "core/pipeline/picture_spec.h"

namespace latentd::engine {

class ColdRequests {
 public:
  // `picture` is resolved and has its executed_size. True: nobody serves the requests that wait,
  // and the caller has to see to it that somebody calls BeginNext.
  [[nodiscard]] bool Add(std::shared_ptr<Job> job, pipeline::PictureSpec picture)
      ABSL_LOCKS_EXCLUDED(mutex_);

  struct Begun {
    std::shared_ptr<Job> job;  // null: nothing waits
    bool has_image = false;
  };
  // The oldest that has not begun. It stays, with its image, until Take or Remove.
  Begun BeginNext() ABSL_LOCKS_EXCLUDED(mutex_);
  // Whether more wait; false: the next Add returns true.
  bool HasMore() ABSL_LOCKS_EXCLUDED(mutex_);

  // What the pictures are made of; nothing if the request was removed. It is no longer held then.
  std::optional<pipeline::PictureSpec> Take(uint64_t handle) ABSL_LOCKS_EXCLUDED(mutex_);
  // Frees what is held for the request before it returns. OK for any handle.
  void Remove(uint64_t handle) ABSL_LOCKS_EXCLUDED(mutex_);

  // Of the init images.
  int64_t image_bytes() const ABSL_LOCKS_EXCLUDED(mutex_);

 private:
  struct Waiting {
    std::shared_ptr<Job> job;
    pipeline::PictureSpec picture;
    bool begun = false;
  };

  std::optional<Waiting> Extract(uint64_t handle) ABSL_LOCKS_EXCLUDED(mutex_);

  mutable absl::Mutex mutex_;
  bool served_ ABSL_GUARDED_BY(mutex_) = false;  // somebody is to call BeginNext
  std::list<Waiting> waiting_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace latentd::engine
