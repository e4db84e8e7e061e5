// A scheduler_config.json as a request's fields say it.
//
// Thread-safe: free functions without state.
#pragma once

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "core/schedulers/config/options.h"

namespace latentd::schedulers {

// Its class as the name, and those of its settings that a request has fields for; others are left
// out. `config` is a JSON object, or empty, which says nothing. INVALID_ARGUMENT for another text.
absl::StatusOr<Overrides> OverridesOf(absl::string_view config);

}  // namespace latentd::schedulers
