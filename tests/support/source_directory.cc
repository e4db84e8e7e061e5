#include "tests/support/source_directory.h"

#include "absl/strings/str_cat.h"

namespace latentd::testing {

std::string SourcePath(absl::string_view relative) {
  return absl::StrCat(LATENTD_SOURCE_DIR "/", relative);
}

}  // namespace latentd::testing
