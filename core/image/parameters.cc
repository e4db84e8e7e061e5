#include "core/image/parameters.h"

#include <nlohmann/json.hpp>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/string_view.h"
#include "core/base/text/text.h"
#include "core/base/text/utf8.h"

namespace latentd::image {
namespace {

std::string Quote(const std::string& value) {
  std::string text = ToUtf8(value);
  if (text.find_first_of(",:\n") == std::string::npos) return text;
  return nlohmann::json(text).dump();
}

// "Name: value" for each value that is there.
class FieldList {
 public:
  void Add(absl::string_view name, const std::string& value) {
    if (!value.empty()) fields_.push_back(absl::StrCat(name, ": ", Quote(value)));
  }
  void Add(absl::string_view name, const std::optional<double>& value) {
    if (value) fields_.push_back(absl::StrCat(name, ": ", *value));
  }

  std::string Join() const { return absl::StrJoin(fields_, ", "); }

 private:
  std::vector<std::string> fields_;
};

}  // namespace

std::string ParametersText(const PictureParameters& parameters) {
  FieldList fields;
  fields.Add("Steps", absl::StrCat(parameters.steps));
  fields.Add("Sampler", parameters.sampler);
  fields.Add("Schedule type", parameters.schedule_type);
  fields.Add("CFG scale", parameters.cfg_scale);
  fields.Add("Seed", absl::StrCat(parameters.seed));
  fields.Add("Size", SizeText(parameters));
  fields.Add("Model", parameters.model);
  fields.Add("Denoising strength", parameters.denoising_strength);
  fields.Add("Clip skip", parameters.clip_skip ? absl::StrCat(*parameters.clip_skip) : "");
  fields.Add("Refiner", parameters.refiner);
  fields.Add("Refiner switch at", parameters.refiner_switch_at);
  for (const auto& [name, value] : parameters.extra) fields.Add(name, value);
  fields.Add("Version", parameters.version);

  std::string text = absl::StrCat(parameters.prompt, "\n");
  if (!parameters.negative_prompt.empty()) {
    absl::StrAppend(&text, "Negative prompt: ", parameters.negative_prompt, "\n");
  }
  return absl::StrCat(text, fields.Join());
}

}  // namespace latentd::image
