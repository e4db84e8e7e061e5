#include "client/rpc/bucket_choice.h"

#include <cstdint>

#include "client/words/text.h"

namespace latentd::client {
namespace {

int64_t AreaOf(const v1::Size& size) { return int64_t{size.width()} * size.height(); }

bool Covers(const v1::Size& bucket, const v1::Size& size) {
  return bucket.width() >= size.width() && bucket.height() >= size.height();
}

bool Equal(const v1::Size& a, const v1::Size& b) {
  return a.width() == b.width() && a.height() == b.height();
}

bool SaysSize(const v1::GenerateRequest& request) {
  return request.has_width() && request.has_height();
}

// The first listed one of least area.
std::optional<v1::Size> Snap(const v1::Size& size,
                             const v1::GetCapabilitiesResponse& capabilities) {
  std::optional<v1::Size> least;
  for (const v1::Bucket& bucket : capabilities.buckets()) {
    if (Equal(bucket.size(), size)) return size;
    if (Covers(bucket.size(), size) && (!least || AreaOf(bucket.size()) < AreaOf(*least))) {
      least = bucket.size();
    }
  }
  return least;
}

}  // namespace

bool NeedsCapabilities(const v1::GenerateRequest& request) {
  return request.bucket_policy() == v1::BUCKET_POLICY_SNAP || !SaysSize(request);
}

std::optional<std::string> BucketOf(const v1::GenerateRequest& request,
                                    const v1::GetCapabilitiesResponse& capabilities) {
  const bool has_default = !request.has_image() && capabilities.has_default_size();
  if (!SaysSize(request) && !has_default) return std::nullopt;
  v1::Size size = capabilities.default_size();
  if (request.has_width()) size.set_width(request.width());
  if (request.has_height()) size.set_height(request.height());
  if (request.bucket_policy() != v1::BUCKET_POLICY_SNAP) return SizeText(size);
  const std::optional<v1::Size> snapped = Snap(size, capabilities);
  if (!snapped) return std::nullopt;
  return SizeText(*snapped);
}

}  // namespace latentd::client
