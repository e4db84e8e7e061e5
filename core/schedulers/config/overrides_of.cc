#include "core/schedulers/config/overrides_of.h"

#include <nlohmann/json.hpp>
#include <optional>
#include <string>

#include "core/base/errors/status_macros.h"
#include "core/base/files/json.h"

namespace latentd::schedulers {
namespace {

using nlohmann::json;

constexpr size_t kMostConfigBytes = size_t{1} << 20;

std::optional<std::string> TextAt(const json& object, const char* name) {
  const auto found = object.find(name);
  if (found == object.end() || !found->is_string()) return std::nullopt;
  return found->get<std::string>();
}

std::optional<bool> BooleanAt(const json& object, const char* name) {
  const auto found = object.find(name);
  if (found == object.end() || !found->is_boolean()) return std::nullopt;
  return found->get<bool>();
}

}  // namespace

absl::StatusOr<Overrides> OverridesOf(absl::string_view config) {
  Overrides overrides;
  if (config.empty()) return overrides;
  ASSIGN_OR_RETURN(const json object,
                   ParseJsonObject(config, "scheduler_config.json", kMostConfigBytes));
  overrides.name = TextAt(object, "_class_name").value_or("");
  overrides.timestep_spacing = TextAt(object, "timestep_spacing");
  overrides.prediction_type = TextAt(object, "prediction_type");
  overrides.algorithm_type = TextAt(object, "algorithm_type");
  overrides.use_karras_sigmas = BooleanAt(object, "use_karras_sigmas");
  overrides.rescale_betas_zero_snr = BooleanAt(object, "rescale_betas_zero_snr");
  return overrides;
}

}  // namespace latentd::schedulers
