// The error of a file that is not what it was given for.
#pragma once

#include <string>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"

namespace latentd::weights {

// INVALID_ARGUMENT: `path`, then `text`.
template <typename... Text>
absl::Status RefuseFile(const std::string& path, const Text&... text) {
  return absl::InvalidArgumentError(absl::StrCat(path, text...));
}

// The end of an error about heads that are not those of published models.
inline constexpr absl::string_view kWhoSaysHeads =
    ": --components-from=PATH, a checkpoint with the same shapes and the folders of diffusers, "
    "says "
    "what its heads are";

}  // namespace latentd::weights
