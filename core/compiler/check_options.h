// Whether compile options make sense, before anything is compiled with them.
//
// A pure function.
#pragma once

#include "absl/status/status.h"
#include "core/compiler/graph_key.h"

namespace latentd::compiler {

// INVALID_ARGUMENT names a pass to skip that there is not, and those that there are.
absl::Status CheckOptions(const CompileOptions& options);

}  // namespace latentd::compiler
