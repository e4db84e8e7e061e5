// Durations as users type them.
#pragma once

#include <optional>

#include "absl/strings/string_view.h"
#include "absl/time/time.h"

namespace latentd {

// "5" and "0.5", which are seconds; "5s", "2m", "1m30s", "500ms". Nothing where it is none of
// these. Thread-safe; a free function without state.
std::optional<absl::Duration> ParseDurationText(absl::string_view text);

}  // namespace latentd
