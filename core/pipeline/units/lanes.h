// The lanes that pictures step in, each made when the first picture joins it, with memory for as
// many rows as RowsOfLane says of those that it could be evaluated with, or as there is memory for;
// gone when no picture is in it and the device is done with it.
//
// If there is not even memory for a picture's own rows it waits until another lane gives some
// back. No picture joins other lanes meanwhile, and none is made beside them: with pictures coming
// without a pause they would never all be empty. Where there is no other lane, the memory is taken
// unasked: a picture's own rows were counted when its graphs were loaded.
//
// All lanes of a model whose rows have low-rank paths read one pool of them, which is there as long
// as one of them is.
//
// One thread at a time; count() and bytes() from any.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <utility>

#include "absl/base/thread_annotations.h"
#include "absl/container/flat_hash_map.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/synchronization/mutex.h"
#include "core/compiler/graph_label.h"
#include "core/pipeline/picture/picture.h"

namespace latentd::pipeline {

// Memory that a lane would take.
struct LaneMemory {
  compiler::GraphLabel label;
  int64_t bytes = 0;
  bool is_least = false;  // its first picture needs as many rows: what is idle may leave for them
};

class Lanes {
 public:
  // OK, or RESOURCE_EXHAUSTED: there is no room for it.
  using AskRoom = std::function<absl::Status(const LaneMemory&)>;

  // `ask_room` may be empty: there is room for everything.
  explicit Lanes(AskRoom ask_room = {}) : ask_room_(std::move(ask_room)) {}

  // The one that the picture's next step runs in, with the executables that the picture brings.
  // Null: not now. There is no memory for it beside other lanes, or another waits for that;
  // or pictures are in one that was made when there were executables of fewer rows only: when they
  // are through their steps, a larger one takes its place. Errors as Device::Allocate's.
  absl::StatusOr<std::shared_ptr<StepLane>> For(const Picture& picture) ABSL_LOCKS_EXCLUDED(mutex_);

  // The lanes that pictures are in, and their memory.
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
  // For whose lane there is no memory, and what the others held when that was found.
  struct Waiting {
    Lane lane;
    int64_t beside = 0;
    std::weak_ptr<const Request> request;  // gone: it waits no more
  };

  Candidate Find(const Lane& lane) ABSL_LOCKS_EXCLUDED(mutex_);
  absl::StatusOr<std::shared_ptr<StepLane>> Make(const Picture& picture)
      ABSL_LOCKS_EXCLUDED(mutex_);
  absl::StatusOr<std::shared_ptr<StepLane>> TryMake(const Picture& picture, bool has_others);
  absl::Status Ask(const Picture& picture, int rows) const;
  // Null: steps of the picture have no paths.
  absl::StatusOr<std::shared_ptr<PathPool>> PathsFor(const Picture& picture)
      ABSL_LOCKS_EXCLUDED(mutex_);
  // By all that are not gone.
  int64_t BytesHeld() const ABSL_LOCKS_EXCLUDED(mutex_);

  const AskRoom ask_room_;
  std::optional<Waiting> waiting_;  // held for the thread that asks for lanes
  mutable absl::Mutex mutex_;
  absl::flat_hash_map<Lane, Entry> lanes_ ABSL_GUARDED_BY(mutex_);
  // By the model's number.
  absl::flat_hash_map<int, std::weak_ptr<PathPool>> paths_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace latentd::pipeline
