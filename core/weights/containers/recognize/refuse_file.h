// The error of a file that is not what it was given for.
#pragma once

#include <string>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"

namespace latentd::weights {

// INVALID_ARGUMENT: `path`, then `text`.
template <typename... Text>
absl::Status RefuseFile(const std::string& path, const Text&... text) {
  return absl::InvalidArgumentError(absl::StrCat(path, text...));
}

}  // namespace latentd::weights
