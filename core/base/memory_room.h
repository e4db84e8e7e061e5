// Asks whether there is memory for something before it is begun.
//
// Thread-safe: a free function without state.
#pragma once

#include <cstdint>

#include "absl/status/status.h"
#include "absl/strings/string_view.h"

namespace latentd {

// RESOURCE_EXHAUSTED with reason OUT_OF_MEMORY: `what` needs so many bytes for a moment, which this
// process cannot get (core/base/memory_limit.h). What malloc keeps is given back before that is
// said.
absl::Status CheckMemoryRoom(int64_t bytes, absl::string_view what);

}  // namespace latentd
