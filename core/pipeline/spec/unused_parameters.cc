#include "core/pipeline/spec/unused_parameters.h"

#include "absl/strings/str_cat.h"
#include "core/pipeline/spec/fields.h"

namespace latentd::pipeline {
namespace {

// True if the field is set to something that could have an effect.
bool AsksForMore(const Field& field, const PictureSpec& asked) {
  return VisitField(field, asked, [&]<typename T>(const T& value) {
    if constexpr (std::is_same_v<T, std::optional<std::string>>) {
      return !value.value_or("").empty();
    } else if constexpr (std::is_same_v<T, std::optional<GuidanceInterval>>) {
      return value.value_or(GuidanceInterval()) != GuidanceInterval();
    } else if constexpr (std::is_same_v<T, std::optional<int>> ||
                         std::is_same_v<T, std::optional<double>>) {
      return value && value != field.neutral;
    } else if constexpr (std::is_same_v<T, std::optional<GuidanceStop>> ||
                         std::is_same_v<T, std::optional<Effort>>) {
      return value && value != typename T::value_type();
    } else {
      return IsSet(field, asked);
    }
  });
}

bool AnyGuides(absl::Span<const ModelReads> models) {
  return absl::c_any_of(models, [](const ModelReads& model) { return model.negative_prompt; });
}

bool Applies(const Idle& idle, const Field& field, const Uses& uses) {
  const bool asked =
      idle.is_asked == nullptr ? AsksForMore(field, uses.asked) : idle.is_asked(uses);
  return asked && idle.applies(uses);
}

}  // namespace

std::vector<std::string> FindUnusedParameters(const PictureSpec& asked, const PictureSpec& resolved,
                                              absl::Span<const ModelReads> models) {
  const Uses uses = {
      asked, resolved, models, UsesGuidance(resolved) && AnyGuides(models),
      resolved.negative_original_size.has_value() && resolved.negative_target_size.has_value()};
  std::vector<std::string> found;
  for (const Field& field : Fields()) {
    for (const Idle& idle : field.idle) {
      if (!Applies(idle, field, uses)) continue;
      found.push_back(absl::StrCat(field.name, " has no effect: ", idle.why));
      break;
    }
  }
  return found;
}

}  // namespace latentd::pipeline
