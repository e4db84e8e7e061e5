#include "core/engine/cold_bucket.h"

#include <string>

#include "absl/strings/str_cat.h"
#include "core/base/error_details.h"
#include "core/base/text.h"

namespace latentd::engine {

bool IsCold(const absl::Status& status) {
  const std::string reason = GetReason(status);
  return reason == "GRAPH_COLD" || reason == "COMPILE_FORBIDDEN";
}

absl::Status ColdBucket(const pipeline::PictureSpec& picture, const absl::Status& why) {
  const bool would_compile = picture.bucket_policy == pipeline::BucketPolicy::kColdOk;
  return WithReason(
      absl::FailedPreconditionError(absl::StrCat(
          SizeText(*picture.executed_size), " is not ready",
          would_compile ? "; this server does not compile for requests: " : ": ", why.message())),
      would_compile ? "COMPILE_FORBIDDEN" : "BUCKET_COLD");
}

}  // namespace latentd::engine
