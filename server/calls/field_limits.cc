#include "server/calls/field_limits.h"

#include <algorithm>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "core/base/error_details.h"
#include "core/base/error_facts.h"

namespace latentd::server::calls {
namespace {

// Limits of these fields, reported if one of them is bad.
struct Limits {
  std::vector<absl::string_view> fields;
  std::vector<ErrorFact> facts;
};

std::vector<Limits> LimitsOf(const engine::Capabilities& can, absl::string_view caller) {
  const auto fact = [](std::string name, auto value) {
    return ErrorFact{std::move(name), absl::StrCat(value)};
  };
  return {{{"width", "height"},
           {fact("min_side", can.min_side), fact("max_side", can.max_side),
            fact("side_multiple", can.side_multiple), fact("max_pixels", can.max_pixels)}},
          {{"num_inference_steps", "timesteps", "sigmas"},
           {fact("min_steps", can.min_steps), fact("max_steps", can.max_steps)}},
          {{"guidance_scale"}, {fact("max_guidance_scale", can.max_guidance_scale)}},
          {{"num_images_per_prompt", "seeds"},
           {fact("max_images_per_prompt", can.max_images_per_prompt)}},
          {{"priority"},
           {fact("min_priority", can.min_priority),
            fact("max_priority", can.priorities.MaxOf(caller))}}};
}

bool AnyIsBad(const std::vector<FieldViolation>& bad, const Limits& limits) {
  return std::any_of(bad.begin(), bad.end(), [&](const FieldViolation& violation) {
    return std::find(limits.fields.begin(), limits.fields.end(), violation.field) !=
           limits.fields.end();
  });
}

}  // namespace

absl::Status WithLimits(const absl::Status& refused, const engine::Engine& engine,
                        absl::string_view caller) {
  const std::vector<FieldViolation> bad = GetFieldViolations(refused);
  if (bad.empty() || !GetReason(refused).empty()) return refused;
  std::vector<ErrorFact> facts;
  for (const Limits& limits : LimitsOf(engine.capabilities(), caller)) {
    if (AnyIsBad(bad, limits)) {
      facts.insert(facts.end(), limits.facts.begin(), limits.facts.end());
    }
  }
  return WithFacts(WithReason(refused, "BAD_FIELDS"), facts);
}

}  // namespace latentd::server::calls
