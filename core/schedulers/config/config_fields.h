// How each field of scheduler_config.json is read. Private to core/schedulers.
#pragma once

#include <optional>
#include <string>

#include "absl/strings/string_view.h"
#include "core/schedulers/config/scheduler_config.h"
#include "nlohmann/json.hpp"

namespace latentd::schedulers {

struct ConfigField {
  absl::string_view name;
  // Sets the config's member of that name, or returns what would be right.
  std::optional<std::string> (*read)(const nlohmann::json& value, SchedulerConfig& config);
};

// nullptr for a field that no scheduler here has.
const ConfigField* FindField(absl::string_view name);

// True for a field of one of diffusers' other schedulers, or one that says nothing by itself.
bool IsForeignField(absl::string_view name);

}  // namespace latentd::schedulers
