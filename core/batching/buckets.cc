#include "core/batching/buckets.h"

#include <algorithm>
#include <optional>

#include "absl/strings/str_cat.h"
#include "core/base/errors/error_details.h"
#include "core/base/text/text.h"

namespace latentd::batching {
namespace {

// A message stays readable, and below what clients take.
constexpr size_t kMostNamed = 20;

bool Covers(Bucket bucket, Bucket size) {
  return bucket.width >= size.width && bucket.height >= size.height && bucket.frames == size.frames;
}

// Violations of those sides that no bucket has or covers, or of both if it is only the pair; and of
// the frames alone where none has as many.
absl::Status Refuse(bool bad_width, bool bad_height, bool bad_frames, const std::string& why) {
  if (bad_frames) return InvalidFields({{"num_frames", why}});
  const bool pair = bad_width == bad_height;
  std::vector<FieldViolation> violations;
  if (bad_width || pair) violations.push_back({"width", why});
  if (bad_height || pair) violations.push_back({"height", why});
  return InvalidFields(violations);
}

}  // namespace

std::string SizeText(const Bucket& bucket) {
  const std::string sides = latentd::SizeText(bucket.width, bucket.height);
  return bucket.frames == 1 ? sides : absl::StrCat(sides, "x", bucket.frames);
}

Buckets::Buckets(const std::vector<Bucket>& listed) {
  for (Bucket bucket : listed) {
    if (!Has(bucket)) listed_.push_back(bucket);
  }
}

bool Buckets::Has(Bucket bucket) const {
  return std::find(listed_.begin(), listed_.end(), bucket) != listed_.end();
}

absl::StatusOr<Bucket> Buckets::Choose(Bucket size, BucketPolicy policy,
                                       absl::FunctionRef<bool(Bucket)> is_ready) const {
  if (policy == BucketPolicy::kColdOk || (policy == BucketPolicy::kExact && Has(size))) return size;
  if (policy == BucketPolicy::kExact) return NotListed(size);
  std::optional<Bucket> best;
  std::pair<bool, int64_t> least;  // cold ones come after all that are ready
  for (const Bucket& bucket : listed_) {
    if (!Covers(bucket, size)) continue;
    const std::pair<bool, int64_t> cost = {!is_ready(bucket), bucket.area()};
    if (best.has_value() && cost >= least) continue;
    best = bucket;
    least = cost;
  }
  if (!best.has_value()) return NotCovered(size);
  return *best;
}

bool Buckets::HasFrames(int frames) const {
  return listed_.empty() || std::any_of(listed_.begin(), listed_.end(), [&](const Bucket& bucket) {
           return bucket.frames == frames;
         });
}

absl::Status Buckets::NotListed(Bucket size) const {
  const auto has = [&](int Bucket::*side) {
    return std::any_of(listed_.begin(), listed_.end(),
                       [&](const Bucket& bucket) { return bucket.*side == size.*side; });
  };
  return Refuse(!has(&Bucket::width), !has(&Bucket::height), !HasFrames(size.frames),
                absl::StrCat(SizeText(size), " is not one of ", ListText()));
}

absl::Status Buckets::NotCovered(Bucket size) const {
  const auto covered = [&](int Bucket::*side) {
    return std::any_of(listed_.begin(), listed_.end(),
                       [&](const Bucket& bucket) { return bucket.*side >= size.*side; });
  };
  return Refuse(!covered(&Bucket::width), !covered(&Bucket::height), !HasFrames(size.frames),
                absl::StrCat("no bucket covers ", SizeText(size), ": there are ", ListText()));
}

std::string Buckets::ListText() const {
  std::vector<std::string> sizes;
  for (const Bucket& bucket : listed_) sizes.push_back(SizeText(bucket));
  return ListSome(sizes, kMostNamed);
}

}  // namespace latentd::batching
