// The lanes that pictures step in, each made when the first picture joins it, with memory for as
// many rows as that could be evaluated with, or as there is memory for; gone when no picture is in
// it and the device is done with it.
//
// One thread at a time; bytes() from any.
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
  // Errors as Device::Allocate's.
  absl::StatusOr<std::shared_ptr<StepLane>> For(const Picture& picture) ABSL_LOCKS_EXCLUDED(mutex_);

  // Of those that pictures are in.
  int64_t bytes() const ABSL_LOCKS_EXCLUDED(mutex_);

 private:
  std::shared_ptr<StepLane> Find(const Lane& lane) ABSL_LOCKS_EXCLUDED(mutex_);

  mutable absl::Mutex mutex_;
  absl::flat_hash_map<Lane, std::weak_ptr<StepLane>> lanes_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace latentd::pipeline
