// Pictures whose graphs need more memory than the server may hold at all, as planning them has
// shown: what is as large or larger is refused before anything is built for it.
//
// Thread-safe.
#pragma once

#include <cstddef>
#include <cstdint>
#include <deque>
#include <optional>

#include "absl/base/thread_annotations.h"
#include "absl/synchronization/mutex.h"
#include "core/pipeline/picture_spec.h"

namespace latentd::engine {

class RefusedSizes {
 public:
  static constexpr size_t kMost = 256;  // beyond, the oldest is forgotten

  // What decides which graphs a picture needs.
  struct Picture {
    pipeline::Size size;
    int rows = 1;
    bool base = false, refiner = false, image = false;
    bool operator==(const Picture&) const = default;
  };

  // `grows`: a larger picture needs no less. Not so where large ones are decoded in tiles.
  explicit RefusedSizes(bool grows) : grows_(grows) {}

  struct Refusal {
    Picture picture;
    int64_t bytes = 0;  // that it needs at least
  };
  void Add(const Picture& picture, int64_t bytes) ABSL_LOCKS_EXCLUDED(mutex_);
  // One that was refused and needs no more than `picture`.
  std::optional<Refusal> Find(const Picture& picture) const ABSL_LOCKS_EXCLUDED(mutex_);

 private:
  bool Covers(const Picture& larger, const Picture& smaller) const;

  const bool grows_;
  mutable absl::Mutex mutex_;
  std::deque<Refusal> refusals_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace latentd::engine
