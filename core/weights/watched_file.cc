#include "core/weights/watched_file.h"

#include "absl/strings/str_cat.h"
#include "core/base/errors/error_details.h"

namespace latentd::weights {

absl::Status CheckpointChangedError(const std::string& path) {
  return WithReason(
      absl::FailedPreconditionError(absl::StrCat(
          path,
          " was changed while it is in use; what was loaded from it before is served, "
          "nothing else is loaded from it: restart the server to serve the new content")),
      kCheckpointChanged);
}

}  // namespace latentd::weights
