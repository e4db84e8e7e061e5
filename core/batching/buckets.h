// The sizes that graphs are compiled for, and the size that a request runs at: width and height in
// pixels, and for videos frames. A change of the meaning of a bucket is made in this file.
//
// Values without threads of their own: const methods may be called from any thread.
#pragma once

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "absl/functional/function_ref.h"
#include "absl/status/statusor.h"

namespace latentd::batching {

struct Bucket {
  int width = 0;
  int height = 0;
  int frames = 1;

  int64_t area() const { return int64_t{width} * height; }
  bool operator==(const Bucket&) const = default;
};

// Treatment of a size that is no bucket, or none that is ready.
enum class BucketPolicy : uint8_t {
  kExact,   // it is refused
  kSnap,    // a bucket that covers both sides runs instead: a ready one, and of those the smallest
  kColdOk,  // it runs as it is
};

// "256x192", or for a video of five frames "256x192x5".
std::string SizeText(const Bucket& bucket);

class Buckets {
 public:
  Buckets() = default;
  // A size that is listed twice counts once.
  explicit Buckets(const std::vector<Bucket>& listed);

  const std::vector<Bucket>& listed() const& { return listed_; }
  std::vector<Bucket> listed() && { return std::move(listed_); }
  bool Has(Bucket bucket) const;

  // The size at which a picture of `size` runs. For kSnap a bucket that covers it, of those
  // that are ready (of all, if none is) the one of least area. INVALID_ARGUMENT with field
  // violations of width, height or both, or of num_frames, which name the buckets: kExact and not
  // listed, kSnap and none covers it. None covers another number of frames.
  absl::StatusOr<Bucket> Choose(
      Bucket size, BucketPolicy policy,
      absl::FunctionRef<bool(Bucket)> is_ready = [](Bucket) { return true; }) const;

 private:
  // True where some bucket has so many, or there is none at all.
  bool HasFrames(int frames) const;
  absl::Status NotListed(Bucket size) const;
  absl::Status NotCovered(Bucket size) const;
  std::string ListText() const;

  std::vector<Bucket> listed_;
};

}  // namespace latentd::batching
