// The lanes that pictures step in, each made when the first picture joins it, with memory for as
// many rows as that could be evaluated with, or as there is memory for; gone when no picture is in
// it and the device is done with it.
//
// One thread at a time; count() and bytes() from any.
#pragma once

#include <cstdint>
#include <memory>

#include "absl/base/thread_annotations.h"
#include "absl/container/flat_hash_map.h"
#include "absl/status/statusor.h"
#include "absl/synchronization/mutex.h"
#include "core/pipeline/picture.h"

namespace latentd::pipeline {

class Lanes {
 public:
  // The one that the picture's next step runs in, with the executables that the picture brings.
  // Null: pictures are in one that was made when there were executables of fewer rows only; when
  // they are through their steps, a larger one takes its place. Errors as Device::Allocate's.
  absl::StatusOr<std::shared_ptr<StepLane>> For(const Picture& picture) ABSL_LOCKS_EXCLUDED(mutex_);

  // Those that pictures are in, and their memory.
  int count() const ABSL_LOCKS_EXCLUDED(mutex_);
  int64_t bytes() const ABSL_LOCKS_EXCLUDED(mutex_);

 private:
  struct Candidate {
    std::shared_ptr<StepLane> lane;  // null: there is none
    int for_rows = 0;                // it has fewer where there was no memory for them
  };
  struct Entry {
    std::weak_ptr<StepLane> lane;
    int for_rows = 0;
  };
  Candidate Find(const Lane& lane) ABSL_LOCKS_EXCLUDED(mutex_);

  mutable absl::Mutex mutex_;
  absl::flat_hash_map<Lane, Entry> lanes_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace latentd::pipeline
