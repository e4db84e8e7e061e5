// Text as files of images hold it.
#pragma once

#include <string>

#include "absl/strings/str_replace.h"
#include "absl/strings/string_view.h"

namespace latentd::image {

// A NUL, which ends texts in files, becomes U+FFFD.
inline std::string WithoutNul(absl::string_view text) {
  return absl::StrReplaceAll(text, {{absl::string_view("\0", 1), "\uFFFD"}});
}

}  // namespace latentd::image
