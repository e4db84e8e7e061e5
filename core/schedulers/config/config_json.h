// Reads the text of a scheduler_config.json. Private to core/schedulers.
#pragma once

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "nlohmann/json.hpp"

namespace latentd::schedulers {

// A JSON object of at most 1 MiB, as core/base/files/json.h reads it. Python writes numbers that
// JSON has not (-Infinity for lambda_min_clipped): they become strings of that spelling.
absl::StatusOr<nlohmann::json> ParseConfigJson(absl::string_view text, absl::string_view source);

}  // namespace latentd::schedulers
