#include "server/http/sdapi/unread_keys.h"

#include <map>

#include "absl/strings/str_cat.h"
#include "server/http/request/field_values.h"

namespace latentd::server::http {
namespace {

using nlohmann::json;

enum class UnreadType { kBoolean, kInteger, kNumber, kText, kList, kObject };

const std::map<std::string, UnreadType>& UnreadTypes() {
  static const auto& types = *new std::map<std::string, UnreadType>{
      {"save_images", UnreadType::kBoolean},
      {"do_not_save_samples", UnreadType::kBoolean},
      {"do_not_save_grid", UnreadType::kBoolean},
      {"include_init_images", UnreadType::kBoolean},
      {"mask_round", UnreadType::kBoolean},
      {"inpaint_full_res", UnreadType::kBoolean},
      {"disable_extra_networks", UnreadType::kBoolean},
      {"override_settings_restore_afterwards", UnreadType::kBoolean},
      {"subseed", UnreadType::kInteger},
      {"firstphase_width", UnreadType::kInteger},
      {"firstphase_height", UnreadType::kInteger},
      {"mask_blur", UnreadType::kInteger},
      {"mask_blur_x", UnreadType::kInteger},
      {"mask_blur_y", UnreadType::kInteger},
      {"inpainting_fill", UnreadType::kInteger},
      {"inpaint_full_res_padding", UnreadType::kInteger},
      {"hr_second_pass_steps", UnreadType::kInteger},
      {"hr_resize_x", UnreadType::kInteger},
      {"hr_resize_y", UnreadType::kInteger},
      {"s_tmax", UnreadType::kNumber},
      {"s_tmin", UnreadType::kNumber},
      {"s_noise", UnreadType::kNumber},
      {"image_cfg_scale", UnreadType::kNumber},
      {"initial_noise_multiplier", UnreadType::kNumber},
      {"refiner_switch_at", UnreadType::kNumber},
      {"eta", UnreadType::kNumber},
      {"hr_scale", UnreadType::kNumber},
      {"sampler_index", UnreadType::kText},
      {"latent_mask", UnreadType::kText},
      {"infotext", UnreadType::kText},
      {"hr_upscaler", UnreadType::kText},
      {"hr_checkpoint_name", UnreadType::kText},
      {"hr_sampler_name", UnreadType::kText},
      {"hr_scheduler", UnreadType::kText},
      {"hr_prompt", UnreadType::kText},
      {"hr_negative_prompt", UnreadType::kText},
      {"script_args", UnreadType::kList},
      {"comments", UnreadType::kObject}};
  return types;
}

// As the web UI reads them: texts of numbers are numbers, and 0 and 1 are booleans.
bool IsOfType(const json& value, UnreadType type) {
  switch (type) {
    case UnreadType::kBoolean:
      return BooleanOf(value).has_value() || value == 0 || value == 1;
    case UnreadType::kInteger:
      return IntegerOf(value).has_value();
    case UnreadType::kNumber:
      return NumberOf(value).has_value();
    case UnreadType::kText:
      return value.is_string();
    case UnreadType::kList:
      return value.is_array();
    case UnreadType::kObject:
      return value.is_object();
  }
  return false;
}

const char* TextOfType(UnreadType type) {
  switch (type) {
    case UnreadType::kBoolean:
      return "true or false";
    case UnreadType::kInteger:
      return "a whole number";
    case UnreadType::kNumber:
      return "a number";
    case UnreadType::kText:
      return "a text";
    case UnreadType::kList:
      return "a list";
    case UnreadType::kObject:
      return "an object";
  }
  return "";
}

}  // namespace

std::optional<std::string> JudgeUnread(const std::string& key, const json& value) {
  const auto found = UnreadTypes().find(key);
  if (found == UnreadTypes().end()) return std::nullopt;
  if (value.is_null() || IsOfType(value, found->second)) return "";
  return absl::StrCat("must be ", TextOfType(found->second), ", is ", Excerpt(value));
}

}  // namespace latentd::server::http
