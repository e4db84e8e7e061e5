// The directory of the project's files, for tests and benches that read some. The path is in
// source_directory.cc alone, so that ccache finds what another clone compiled.
#pragma once

#include <string>

#include "absl/strings/string_view.h"

namespace latentd::testing {

// The absolute path of `relative`, a path below the project's top directory. May be called while
// other constants are initialised.
std::string SourcePath(absl::string_view relative);

}  // namespace latentd::testing
